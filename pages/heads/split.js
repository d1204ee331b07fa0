/* One attention, split into heads. The reader changes one number by 1, the page computes
   everything after it again, and frames what has changed. */
const STEP = 1, CHANGED = 1e-9;
const PROJECTIONS = ["queries", "keys", "values"];
const INPUT = 0, PROJECTED = 1, RESULT = 2, OUTPUT = 3;

const short = (number) => number.toFixed(1).replace(/^-0\.0$/, "0.0").replace("-", "−");
const times = (a, b) => a.map((row) => b[0].map((_, j) =>
  row.reduce((sum, number, i) => sum + number * b[i][j], 0)));

/* Softmax attention of one head. */
function attend(q, k, v) {
  const weights = q.map((query) => {
    const scores = k.map((key) => query.reduce((sum, number, i) => sum + number * key[i], 0)
      / Math.sqrt(query.length));
    const powers = scores.map((score) => Math.exp(score - Math.max(...scores)));
    const total = powers.reduce((sum, power) => sum + power, 0);
    return powers.map((power) => power / total);
  });
  return times(weights, v);
}

/* All stages; `change` adds STEP to one number of one of them before the next is made. */
function compute({ x, w_q, w_k, w_v, w_o, heads }, change) {
  const changed = (stage, kind, table) => change?.stage === stage
    && (stage !== PROJECTED || change.kind === kind)
    ? table.with(change.row, table[change.row].with(change.column,
      table[change.row][change.column] + STEP)) : table;
  const input = changed(INPUT, 0, x);
  const projected = [w_q, w_k, w_v].map((w, kind) =>
    changed(PROJECTED, kind, times(input, w)));
  const width = x[0].length / heads;
  const results = Array.from({ length: heads }, (_, h) => attend(...projected.map((table) =>
    table.map((row) => row.slice(h * width, (h + 1) * width)))));
  const merged = changed(RESULT, 0, x.map((_, t) => results.flatMap((head) => head[t])));
  return { input, projected, merged, output: changed(OUTPUT, 0, times(merged, w_o)) };
}

function draw(root, data, kit) {
  const { make, button, pick, paint, signedColour } = kit;
  const { words, heads, x } = data;
  const width = x[0].length, each = width / heads, base = compute(data);
  const state = { kind: 2, chosen: null, at: [0, 0], question: 0, guess: undefined };
  const headOf = (column) => Math.floor(column / each);
  const tablesOf = ({ input, projected, merged, output }) =>
    [input, projected[state.kind], merged, output];
  const most = Math.max(...[base.input, ...base.projected, base.merged, base.output].flat(2)
    .map(Math.abs));
  const titles = () => ["Input: each word is one row",
    `The ${PROJECTIONS[state.kind]} of the heads`, "What the heads return, side by side",
    "Output: the heads mixed by Wᴼ"];
  const names = () => ["input", PROJECTIONS[state.kind], "heads’ results", "output"];

  /* -- The tables, one below another, as one grid -- */
  const rows = words.length;
  const cells = Array.from({ length: 4 * rows }, (_, r) => Array.from({ length: width },
    (_, c) => make("button", { type: "button", tabindex: r + c ? -1 : 0,
      click: () => { focusOn(r, c); choose(r, c); } })));
  const heading = titles().map((title) => make("span", {}, title));
  const striped = (stage) => stage === PROJECTED || stage === RESULT;
  const grid = make("table", { role: "grid", class: "c-split", keydown: moved,
    "aria-label": "The numbers of each stage; a press changes one" },
  heading.map((title, stage) => make("tbody", {},
    make("tr", {}, make("td"), make("th", { scope: "colgroup", colspan: width }, title)),
    striped(stage) ? make("tr", {}, make("td"), Array.from({ length: heads }, (_, h) =>
      make("th", { scope: "colgroup", colspan: each, class: `c-head-${h % 3}` },
        `head ${h}`))) : [],
    words.map((word, t) => make("tr", {}, make("th", { scope: "row" }, word),
      cells[stage * rows + t].map((cell, c) => make("td", {
        class: striped(stage) && c && c % each === 0 ? "c-cut" : "" }, cell)))))));

  function focusOn(r, c) {
    cells[state.at[0]][state.at[1]].tabIndex = -1;
    state.at = [r, c];
    cells[r][c].tabIndex = 0;
    cells[r][c].focus({ preventScroll: true });
  }

  function moved(event) {
    const [r, c] = state.at;
    const to = { ArrowUp: [r - 1, c], ArrowDown: [r + 1, c], ArrowLeft: [r, c - 1],
      ArrowRight: [r, c + 1], Home: [r, 0], End: [r, width - 1] }[event.key];
    if (!to || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    focusOn(...[4 * rows, width].map((size, i) => Math.min(Math.max(to[i], 0), size - 1)));
  }

  const says = make("p", { class: "c-says", role: "status" });
  const asks = make("p", { class: "c-asks", tabindex: -1 });
  const guesses = make("div", { class: "c-row c-inputs c-guess" });
  const answers = make("span", { role: "status" });
  const next = button("Next question", () => {
    state.question = 1;
    state.chosen = null;
    ask();
    asks.focus(); /* the button is gone */
  });

  /* What has changed, as a set of "row column" of the grid. */
  function reached() {
    const { chosen } = state;
    if (!chosen) return null;
    const now = tablesOf(compute(data, chosen)), before = tablesOf(base);
    return now.map((table, stage) => table.map((row, t) => row.map((number, c) =>
      Math.abs(number - before[stage][t][c]) > CHANGED)));
  }

  function update() {
    const found = reached(), now = tablesOf(compute(data, state.chosen));
    heading.forEach((title, stage) => { title.textContent = titles()[stage]; });
    cells.forEach((line, r) => line.forEach((cell, c) => {
      const stage = Math.floor(r / rows), t = r % rows;
      const isChanged = found?.[stage][t][c];
      const isChosen = state.chosen?.stage === stage && state.chosen.row === t
        && state.chosen.column === c;
      paint(cell, signedColour(now[stage][t][c], most));
      cell.textContent = short(now[stage][t][c]);
      cell.setAttribute("aria-pressed", isChosen);
      cell.setAttribute("aria-label", `${names()[stage]}, ${words[t]}, feature ${c}: `
        + `${cell.textContent}${isChanged ? ", changed" : ""}`);
      cell.classList.toggle("c-chosen", isChosen);
      cell.classList.toggle("c-reached", Boolean(isChanged));
      cell.classList.toggle("c-still", found !== null && !isChanged);
    }));
    says.textContent = found ? told(found) : "Press any number: 1 is added to it, and "
      + "what changes with it is framed.";
    return found;
  }

  const list = (all) => all.length > 1
    ? `${all.slice(0, -1).join(", ")} and ${all.at(-1)}` : String(all[0]);

  /* Which columns and rows of a table have changed, in words. */
  function told(found) {
    const { stage, row, column } = state.chosen;
    const begin = `1 is added to feature ${column} of “${words[row]}” in the `
      + `${names()[stage]}.`;
    if (stage === OUTPUT) return `${begin} Nothing comes after it.`;
    const columns = (table) => table[0].flatMap((_, c) =>
      table.some((line) => line[c]) ? [c] : []);
    const all = columns(found[RESULT]), hit = [...new Set(all.map(headOf))];
    const which = words.filter((_, t) => found[RESULT][t].some(Boolean));
    const whose = which.length === words.length ? "of every word"
      : `of “${which.join("”, “")}” alone`;
    const features = all.length === width ? `all ${width} features`
      : all.length > 1 ? `features ${list(all)}` : `feature ${all[0]}`;
    const results = stage === RESULT ? "" : ` In the heads’ results, ${features} ${whose} `
      + `change: ${hit.length === heads ? "all heads" : `head ${list(hit)}`}.`;
    const out = columns(found[OUTPUT]).length;
    return `${begin}${results} In the output, ${out === width ? `all ${width}` : out} features `
      + `of ${words.filter((_, t) => found[OUTPUT][t].some(Boolean)).length} `
      + `${which.length === 1 ? "word" : "words"} change.`;
  }

  function choose(r, c) {
    const stage = Math.floor(r / rows), row = r % rows;
    const same = state.chosen?.stage === stage && state.chosen.row === row
      && state.chosen.column === c;
    state.chosen = same ? null : { stage, row, column: c, kind: state.kind };
    answer(update());
  }

  /* -- The questions -- */
  const HEADS = ["1 head", `${heads} heads`];
  const QUESTIONS = [
    `Press one number of the input. In how many of the ${heads} heads will the result change?`,
    "Find a number after the projection that changes the result of one word only. Choose "
      + "queries, keys or values, and press a number.",
  ];

  function ask() {
    asks.replaceChildren(...kit.question(state.question + 1, QUESTIONS.length,
      QUESTIONS[state.question]));
    if (state.question > 0) guesses.replaceChildren();
    answers.textContent = state.question > 0 ? ""
      : "Choose your guess, then press a number of the input.";
    answers.className = "";
    next.hidden = true;
    update();
  }

  function answer(found) {
    const { chosen, question, guess } = state;
    if (!found || answers.className) return;
    let reached = "";
    if (question === 0) {
      if (chosen.stage !== INPUT) {
        answers.textContent = "This number is not in the input.";
        return;
      }
      if (guess === undefined) {
        answers.textContent = "Now you have seen it: choose the answer.";
        return;
      }
      reached = `${guess ? "✓ " : `You guessed ${HEADS[0]}. `}All ${heads}: each head’s `
        + "projection reads the whole row. The split comes after it, so the input is never "
        + "cut.";
    } else {
      const which = words.filter((_, t) => found[RESULT][t].some(Boolean));
      if (chosen.stage !== PROJECTED) {
        answers.textContent = "Press a number of the queries, keys or values.";
        return;
      }
      if (which.length > 1) {
        answers.textContent = `It changes the result of ${which.length} words.`;
        return;
      }
      reached = "✓ A query is used by its own word alone. Keys and values are read by every "
        + "word. All three stay within their head, until Wᴼ mixes the heads.";
    }
    answers.textContent = reached;
    answers.className = "c-reached";
    next.hidden = question > 0;
    guesses.querySelectorAll("input").forEach((input) => { input.disabled = true; });
  }

  guesses.append(pick("Your guess", HEADS, -1, (guess) => {
    if (answers.className) return;
    state.guess = guess;
    if (state.chosen?.stage === INPUT) answer(reached());
    else answers.textContent = "Now press a number of the input.";
  }), next);
  const kinds = pick("Show", PROJECTIONS, state.kind, (kind) => {
    state.kind = kind;
    if (state.chosen?.stage === PROJECTED) state.chosen = null;
    update();
  });
  root.append(asks, guesses, make("div", { class: "c-answers" }, answers),
    make("div", { class: "c-row c-inputs" }, make("span", {}, "Show the"), kinds,
      button("Undo", () => { state.chosen = null; update(); })),
    make("div", { class: "c-split-box" }, grid),
    make("p", { class: "c-legend" }, make("span", {}, `${short(-most)} `,
      make("span", { class: "c-ramp" }, [-3, -2, -1, 0, 1, 2, 3].map((third) =>
        paint(make("i"), signedColour(third, 3)))), ` ${short(most)}`),
    make("span", {}, make("i", { class: "c-chosen" }), "changed by you"),
    make("span", {}, make("i", { class: "c-reached" }), "changes with it")),
    says);
  ask();
}
