/* A panel: what its inputs say goes to the kernel, what that made comes back. anywidget
   calls `render` with a model that both sides share. */
const TYPED = 400; /* milliseconds without a key, and a line counts as typed */
const SILENT = 10000; /* milliseconds without an answer, and the reader hears of it */

function render({ model, el }) {
  const values = { ...model.get("values") };
  const wrong = make("p", { class: "c-wrong", role: "alert" });
  const says = make("output", { class: "c-says" });
  const shown = make("div", { class: "c-shown" });
  let silence, pause, drawn;

  function wait() {
    shown.setAttribute("aria-busy", "true");
    clearTimeout(silence);
    silence = setTimeout(() => {
      wrong.textContent = "No answer yet. The kernel is busy; or it was restarted: then "
        + "run this cell again.";
    }, SILENT);
  }
  const set = (name) => (value) => {
    values[name] = value;
    wait();
    model.set("values", { ...values });
    model.save_changes();
  };
  const typed = (name) => (text) => {
    clearTimeout(pause);
    pause = setTimeout(set(name), TYPED, text);
  };
  const makers = {
    slide: ({ name, label, choices }) => slider(label, { min: 0, max: choices.length - 1,
      step: 1, value: values[name], show: (i) => choices[i] }, set(name)),
    choose: ({ name, label, choices }) => choice(label, choices, values[name], set(name)),
    tick: ({ name, label }) => tick(label, values[name], set(name)),
    write: ({ name, label }) => line(label, values[name], typed(name)),
    press: ({ name, label }) => button(label, () => { wait(); model.send({ press: name }); }),
  };

  function update() {
    const { words, wrong: sentence, html } = model.get("state");
    clearTimeout(silence);
    shown.removeAttribute("aria-busy");
    if (says.textContent !== words) says.textContent = words;
    if (wrong.textContent !== sentence) wrong.textContent = sentence;
    /* Beside an error stands what came out before it. */
    for (const part of [says, shown]) part.classList.toggle("c-old", sentence !== "");
    if (html === drawn) return;
    drawn = html;
    /* Scripts in it run, as in a page. */
    shown.replaceChildren(document.createRange().createContextualFragment(html));
  }

  const row = (isHere) => make("div", { class: "c-row c-inputs" },
    model.get("inputs").filter(isHere).map((input) => makers[input.kind](input)));
  const section = make("section", { class: "control c-live tex2jax_ignore",
    "aria-label": model.get("title") },
    make("p", { class: "c-title" }, model.get("title")),
    row((input) => input.kind !== "press"), row((input) => input.kind === "press"),
    wrong, says, shown);
  el.append(section);
  model.on("change:state", update);
  update();
  return () => { clearTimeout(silence); clearTimeout(pause); };
}

export default { render };
