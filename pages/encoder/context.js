/* A sentence, and above it the steps of a trained encoder. The reader exchanges one word;
   each cell says how far the vector of a word moves in that step. */
const FRAME = 600; /* milliseconds between two steps */
const DARKEST = 50; /* per cent from which on a cell has the last colour */

function draw(root, { words, german, exchanges }, { make, button, question, pick, paint,
  weightColour }) {
  const steps = exchanges[0].moved.length;
  const names = Array.from({ length: steps }, (_, i) => (i === 0 ? "lookup"
    : `layer ${Math.ceil(i / 2)} ${i % 2 ? "gathers" : "thinks"}`));
  const quoted = (i) => `“${words[i]}”`;
  const first = (at) => exchanges.findIndex((each) => each.at === at);
  const last = words.length - 1, follower = last - 2;
  const state = { chosen: first(last), shown: 1, question: 0, timer: null };
  const chosen = () => exchanges[state.chosen];

  /* -- What is drawn -- */
  const cells = names.map(() => words.map(() => make("td")));
  const buttons = words.map((word, i) => button(word, () => exchange(i)));
  const table = make("table", { class: "c-context", "aria-label":
    "How far each vector moves, in % of its length" },
  names.map((name, step) => make("tr", {}, make("th", { scope: "row" }, name), cells[step]))
    .reverse(),
  make("tr", {}, make("td"), buttons.map((each) => make("th", { scope: "col", lang: "en" }, each))));
  const now = make("p", { class: "c-german", lang: "de" });
  const hint = make("p", { class: "c-hint" });
  const status = make("p", { class: "c-unseen", role: "status" });

  function update() {
    const each = chosen();
    cells.forEach((row, step) => row.forEach((cell, i) => {
      const moved = each ? each.moved[step][i] : 0, known = step < state.shown;
      cell.textContent = known ? moved : "?";
      paint(cell, weightColour(known ? moved / DARKEST : 0));
    }));
    buttons.forEach((word, i) => {
      const isNew = each?.at === i;
      word.textContent = isNew ? each.word : words[i];
      word.setAttribute("aria-pressed", isNew);
      word.setAttribute("aria-disabled", isLocked());
    });
    const old = german.split(" "), text = each?.german ?? german;
    now.replaceChildren(...(state.shown < steps ? ["?"] : text.split(" ").flatMap(
      (word, i) => [word === old[i] ? word : make("mark", {}, word), " "])));
    hint.textContent = "How far each vector moves, in % of its length. Read from the bottom"
      + (isLocked() ? "." : ", and press any word.");
    answer();
  }

  function announce() {
    const each = chosen();
    const moves = names.slice(0, state.shown).map((name, step) => `${name}: `
      + words.map((word, i) => `${i === each?.at ? each.word : word} `
        + `${each ? each.moved[step][i] : 0} %`).join(", "));
    status.textContent = `${each ? `“${each.word}” instead of ${quoted(each.at)}. ` : ""}`
      + `${moves.join(". ")}. ${state.shown < steps ? "" : `German: ${now.textContent.trim()}. `}`
      + answers.textContent;
  }

  /* A question keeps its sentence until it is answered. */
  const isLocked = () => !current().told;

  /* The next word that may stand there, and after the last one the old word again. */
  function exchange(at) {
    if (isLocked()) {
      if (!state.timer) answers.textContent = "Choose your guess and press Show first. After "
        + "that you can exchange any word.";
      status.textContent = answers.textContent;
      return;
    }
    const here = exchanges.flatMap((each, i) => (each.at === at ? [i] : []));
    const i = here.indexOf(state.chosen);
    state.chosen = i < 0 ? here[0] : here[i + 1] ?? -1;
    state.shown = steps;
    update();
    announce();
  }

  /* -- The questions -- */
  const ofFirst = (at) => exchanges[first(at)];
  const gathered = (at, i) => `${ofFirst(at).moved[1][i]}\u00a0%`;
  const others = [0, 2, last - 1];
  const QUESTIONS = [{
    chosen: first(last),
    text: `${quoted(last)} becomes “${ofFirst(last).word}”, and the German endings change. In `
      + `which step of the trained encoder does the vector of ${quoted(follower)} first move?`,
    options: ["lookup", "gathering", "thinking"],
    right: 1,
    answer: `A word reads the others only when it gathers: “${ofFirst(last).word}” moves `
      + `${quoted(follower)} by ${gathered(last, follower)} and ${quoted(last - 1)} by `
      + `${gathered(last, last - 1)}. The lookup and the thinking treat each word alone.`,
  }, {
    chosen: first(1),
    text: `${quoted(1)} becomes “${ofFirst(1).word}”. Which of the words that stay moves most `
      + "in the first layer?",
    options: others.map((i) => words[i]),
    right: others.indexOf(others.reduce((a, b) =>
      (ofFirst(1).moved[1][a] >= ofFirst(1).moved[1][b] ? a : b))),
    answer: `“${ofFirst(1).word}” moves `
      + `${others.map((i) => `${quoted(i)} by ${gathered(1, i)}`).join(", ")}. The `
      + "German article depends on the noun. Now press any word.",
  }];
  const current = () => QUESTIONS[state.question];
  const asks = make("p", { class: "c-asks", tabindex: -1 });
  const guesses = make("div", { class: "c-row c-inputs c-guess" });
  const answers = make("span", { tabindex: -1 });
  const show = button("Show", () => {
    if (state.timer) return;
    if (current().guess === undefined) {
      answer();
      announce();
      return;
    }
    state.chosen = current().chosen;
    state.shown = matchMedia("(prefers-reduced-motion: reduce)").matches ? steps : 1;
    guesses.querySelectorAll("input").forEach((input) => { input.disabled = true; });
    if (state.shown < steps) state.timer = setInterval(step, FRAME);
    step();
  });
  const next = button("Next question", () => {
    state.question += 1;
    ask();
    asks.focus(); /* the button is gone */
  });

  function step() {
    state.shown = Math.min(state.shown + 1, steps);
    if (state.shown === steps) {
      stop();
      settle();
    }
    const isThere = document.activeElement === show;
    update();
    if (state.shown < steps) return;
    announce();
    if (isThere) (next.hidden ? answers : next).focus(); /* the button is gone */
  }

  function settle() {
    const { guess, right, options, answer: said } = current();
    current().told = (guess === right ? "✓ " : `You guessed “${options[guess]}”. `)
      + said;
  }

  function stop() {
    clearInterval(state.timer);
    state.timer = null;
  }

  function ask() {
    const { text, options } = current();
    Object.assign(state, { chosen: current().chosen, shown: 1 });
    asks.replaceChildren(...question(state.question + 1, QUESTIONS.length, text));
    guesses.replaceChildren(pick("Your guess", options, -1, (i) => {
      current().guess = i;
      answer();
    }), show, next);
    update();
  }

  function answer() {
    const { told, guess } = current();
    answers.textContent = told ?? (state.timer ? "" : guess === undefined
      ? "Choose your guess, then press Show." : "Press Show.");
    answers.className = told ? "c-reached" : "";
    show.hidden = Boolean(told);
    show.setAttribute("aria-disabled", guess === undefined || state.timer !== null);
    show.classList.toggle("c-first", guess !== undefined);
    next.hidden = !told || state.question === QUESTIONS.length - 1;
  }

  root.append(asks, guesses, make("div", { class: "c-answers" }, answers),
    make("div", { class: "c-two" }, make("span", { class: "c-hint" }, "before"),
      make("p", { class: "c-german", lang: "de" }, german),
      make("span", { class: "c-hint" }, "now"), now),
    hint, table, status);
  ask();
}
