/* The guided tour: a text for each state of the page, and a question. */
function tourPanel({ make, button }, steps, visited, finished) {
  const title = make("h3", { tabindex: -1 }), text = make("div", { class: "o-text" });
  const ask = make("div", { class: "o-ask" });
  let at = 0;
  const back = button("Back", () => visited(at - 1));
  const next = button("Next", () => (at + 1 < steps.length ? visited(at + 1) : finished()));
  next.classList.add("c-first");
  const entries = steps.map((step, i) => button(step.title, () => {
    list.close();
    visited(i);
  }));
  const list = make("dialog", { class: "o-list", "aria-label": "Steps of the tour",
    click: ({ target }) => target === list && list.close() }, /* beside the list */
  make("ol", {}, entries.map((entry) => make("li", {}, entry))));
  roving(list, () => entries);
  const count = button("", () => {
    list.showModal();
    entries[at].focus();
  });
  count.classList.add("o-count-of");

  function answer(choice, pressed, says) {
    const isRight = choice.right === true;
    pressed.classList.add(isRight ? "o-right" : "o-wrong");
    says.replaceChildren(make("b", {}, isRight ? "✓ Yes. " : "✗ Not quite. "), choice.says);
    if (isRight && at + 1 < steps.length) {
      const on = button("Next", () => visited(at + 1));
      on.classList.add("c-first");
      says.append(" ", on);
    }
  }

  function show(i) {
    at = i;
    const step = steps[at], says = make("output", { class: "o-answer" });
    title.textContent = step.title;
    text.replaceChildren(...step.text.split("\n").map((part) => make("p", {}, part)));
    const choices = step.choices.map((choice) => {
      const own = button(choice.text, () => answer(choice, own, says));
      return own;
    });
    ask.replaceChildren(make("p", { class: "o-question" }, step.ask),
      make("div", { class: "o-choices", role: "group", "aria-label": step.ask },
        choices), says);
    back.disabled = at === 0;
    next.textContent = at + 1 < steps.length ? "Next" : "Explore";
    count.textContent = `${at + 1} of ${steps.length}`;
    entries.forEach((entry, each) => {
      if (each === at) entry.setAttribute("aria-current", "step");
      else entry.removeAttribute("aria-current");
    });
  }

  return { show, title,
    steps: make("div", { class: "o-steps" }, count, list, back, next),
    head: make("div", { class: "o-tour" }, title, text), ask };
}
