/* The guided tour: a text for each state of the page, and a question. */
function tourPanel({ make, button }, steps, visited) {
  const title = make("h3", { tabindex: -1 }), text = make("div", { class: "o-text" });
  const ask = make("div", { class: "o-ask" });
  let at = 0;
  const back = button("Back", () => visited(at - 1));
  const next = button("Next", () => visited(at + 1));
  next.classList.add("c-first");
  const entries = steps.map((step, i) => button(step.title, () => {
    list.hidePopover();
    visited(i);
  }));
  const list = make("ol", { class: "o-list", popover: "auto", id: "o-list" },
    entries.map((entry) => make("li", {}, entry)));
  const count = make("button", { type: "button", class: "o-count-of", popovertarget: "o-list" });

  function answer(choice, pressed, says) {
    const isRight = choice.right === true;
    pressed.classList.add(isRight ? "o-right" : "o-wrong");
    says.replaceChildren(make("b", {}, isRight ? "✓ Yes. " : "✗ Not quite. "), choice.says);
    if (isRight && at + 1 < steps.length) says.append(" ", button("Next", () => visited(at + 1)));
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
    next.disabled = at === steps.length - 1;
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
