/* The decoder's mask as cells to paint. Beside each row stands the probability that a
   trained model gives to the true next word under this mask. */
const MOVED = 0.02; /* a bar that moves by less is not named */
const NAMED = 2; /* as many bars are named, those that move most */

/* Attention behind a mask: the keys that a row may not see are left out. A row without
   keys gives zeros. */
function maskedAttend(mask) {
  return (q, k, v) => q.map((head, h) => head.map((query, t) => {
    const open = k[h].map((_, s) => s).filter((s) => mask[t][s]);
    if (!open.length) return new Float32Array(v[h][0].length);
    const [keys, values] = [k, v].map((x) => open.map((s) => x[h][s]));
    return scaledDotProductAttention([query], keys, values).attended[0];
  }));
}

/* The probability of every true next word: all positions at once, as in training. The
   encoder does not see the mask, so it runs once. The page may breathe at each yield. */
function* prepare({ config, ...weights }, src, tokens) {
  const unpacked = unpackWeights(weights);
  yield;
  const model = new Transformer(config, unpacked);
  const memory = model.encode(src);
  yield;
  const x = model.tgt_positions.forward(model.tgt_embedding.forward(tokens.slice(0, -1)));
  return (mask) => {
    for (const { self_attention } of model.decoder.layers) {
      self_attention.attend = maskedAttend(mask);
    }
    const out = model.decoder.forward(x, memory, new DecoderCache(config.num_layers));
    return model.output.forward(out).map((scores, t) => softmax(scores)[tokens[t + 1]]);
  };
}

const TRAINED = ["while it could peek", "with the causal mask"];
const PEEKING = 0, MASKED = 1;
const WHY = ["It could copy the next word from the future, so it never had to predict one.",
  "It had to predict every word from the words so far."];

const table = (size, value) => Array.from({ length: size }, (_, t) =>
  Array.from({ length: size }, (_, s) => value(t, s)));
const percent = (share) => (share < 0.005 ? "< 1 %" : `${Math.round(100 * share)} %`);

function draw(root, data, { make, button, question, pick, paint }) {
  const { words, colours } = data;
  const reads = words.slice(0, -1), size = reads.length;
  const begun = data.models.map((model) => prepare(model, data.src, data.tokens));
  const ready = []; /* functions from a mask to probabilities */

  /* One step towards a model. */
  function advance(i) {
    const { done, value } = begun[i].next();
    if (done) ready[i] = value;
  }

  function modelOf(i) {
    while (!ready[i]) advance(i);
    return ready[i];
  }

  /* Prepare the models step by step, while nothing else is to do. */
  function prepareAll() {
    const next = begun.findIndex((_, i) => !ready[i]);
    if (next < 0) return;
    advance(next);
    if (ready[state.model] && !shown) show();
    setTimeout(prepareAll);
  }

  const causal = (t, s) => s <= t;
  const asked = 2; /* the row that the question is about */
  const PRESETS = [
    ["causal", causal],
    ["all open", () => true],
    ["one leak", (t, s) => s <= t || (t === asked && s === t + 1)],
  ];
  const state = { mask: table(size, causal), model: PEEKING, at: [0, 0], game: null,
    question: 0 };
  let shown; /* the mask and the probabilities on the page */
  const says = make("output", { class: "c-says" });
  const asks = make("p", { class: "c-asks", "aria-live": "polite", tabindex: -1 });
  const QUESTIONS = [
    `Source: ${data.english}. Which one cell lets the model read “${words[asked + 1]}” before `
      + "it must say it? Press that cell; a second press hides it again.",
    "This model was trained with the causal mask. Guess what the bar of "
      + `“${words[asked + 1]}” does when the same cell is open. Then press the cell.`,
  ];
  const GUESSES = ["rises", "stays", "falls"], FALLS = 2;

  /* -- The grid -- */
  const cells = table(size, (t, s) => make("button", { type: "button",
    tabindex: t + s ? -1 : 0, click: (event) => clicked(t, s, event) }));
  const bars = reads.map((_, t) => ({ number: make("b"), fill: make("i"),
    word: make("span", {}, words[t + 1]) }));
  const headers = reads.map((word) => make("th", { scope: "col" }, make("span", {}, word)));
  const name = "The decoder's mask: pressed cells may be attended to";
  const grid = make("table", { role: "grid", "aria-label": name, keydown: moved },
  make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "reads"), headers,
    make("th", { scope: "col", class: "c-next" }, "next word"))),
  make("tbody", {}, reads.map((word, t) => make("tr", {},
    make("th", { scope: "row" }, word),
    cells[t].map((cell) => make("td", {}, cell)),
    make("td", { class: "c-next" },
      make("span", {}, bars[t].word, bars[t].number),
      make("span", { class: "c-track", "aria-hidden": "true" }, bars[t].fill))))));

  function drawMask() {
    state.mask.forEach((row, t) => row.forEach((open, s) => {
      const cell = cells[t][s], covered = state.game?.covered && s > t;
      const future = s > t ? " (the future)" : "";
      cell.setAttribute("aria-pressed", covered ? "mixed" : open);
      cell.setAttribute("aria-label", `row ${reads[t]}, column ${reads[s]}${future}`);
      cell.textContent = covered ? "?" : "";
      cell.className = open && s > t && !covered ? "c-future" : "";
      paint(cell, colours[open && !covered ? "may_attend" : "hidden"]);
    }));
  }

  function drawBars(probabilities) {
    probabilities.forEach((share, t) => {
      const hidden = state.game?.bars === false;
      bars[t].number.textContent = hidden ? "?" : percent(share);
      bars[t].fill.style.width = hidden ? 0 : `${100 * share}%`;
    });
  }

  /* -- What follows from a change, in words -- */
  function show(lines = [], before = shown, changedRows) {
    const probabilities = modelOf(state.model)(state.mask);
    shown = { mask: state.mask, probabilities };
    drawMask();
    drawBars(probabilities);
    if (state.game || !lines.length) return;
    const change = (t) => probabilities[t] - before.probabilities[t];
    const rows = probabilities.map((_, t) => t)
      .filter((t) => before && Math.abs(change(t)) >= MOVED)
      .sort((one, other) => Math.abs(change(other)) - Math.abs(change(one)));
    const moves = rows.slice(0, NAMED).map((t) => `“${words[t + 1]}”, row ${reads[t]}: `
      + `${percent(before.probabilities[t])} → ${percent(probabilities[t])}.`);
    const more = rows.length - moves.length;
    if (more > 0) moves.push(more > 1 ? `${more} more bars move.` : "One more bar moves.");
    const all = [...lines, moves.join(" ") || "No bar moves by 2 points or more."];
    const opened = (row, t) => row.some((open, s) => open && s > t && !before.mask[t][s]);
    if (state.model === MASKED && rows.length && change(rows[0]) < 0
      && state.mask.some(opened)) {
      all.push("This model learned without the future, so it never learned to use it. Opened "
        + "alone, most cells of the future lower the bar of their row; the rest hardly move it.");
    }
    if (changedRows && rows.some((t) => !changedRows.has(t))) {
      const [what, it] = changedRows.size > 1 ? ["The changed rows have new vectors", "them"]
        : [`Row ${reads[[...changedRows][0]]} has a new vector`, "it"];
      all.push(`${what}. Other rows read ${it} in the next layer, so their bars also move.`);
    }
    const empty = reads.filter((_, t) => !state.mask[t].some(Boolean));
    if (empty.length) {
      all.push(`Nothing to look at, and zeros from self-attention: ${empty.join(", ")}.`);
    }
    tell(all);
  }

  const tell = (lines) =>
    says.replaceChildren(...lines.map((line) => make("span", {}, line)));

  /* The mask and the probabilities on the page, also if no model is ready yet. */
  function current() {
    if (!shown) show();
    return shown;
  }

  /* `before` is what was on the page when the change began. */
  function changed(mask, before = current(), mark = "") {
    const cells = mask.flatMap((row, t) => row.flatMap((open, s) =>
      open === before.mask[t][s] ? [] : [[t, s, open]]));
    state.mask = mask;
    more.hidden = state.question === 1 && !state.isTold;
    if (!cells.length) {
      show();
      tell(["Nothing changes: this is the mask that you see."]);
      return;
    }
    const first = cells.length > 1 ? `${cells.length} cells changed.` : one(...cells[0]);
    show([mark + first], before, new Set(cells.map(([t]) => t)));
  }

  /* What a change of one cell means for its row. */
  function one(t, s, open) {
    if (!open) return `Row ${reads[t]} no longer sees ${reads[s]}.`;
    const sees = `Row ${reads[t]} now sees ${reads[s]}`;
    if (s <= t) return `${sees}.`;
    const other = t !== asked ? ` The question is about “${words[asked + 1]}”.`
      : state.question === 1 && state.model !== MASKED
      ? ` The question is about the model that was trained ${TRAINED[MASKED]}.` : "";
    return s === t + 1 ? `${sees}, the very word that it must say.${other}`
      : `${sees}, but it must say ${words[t + 1]}.`;
  }

  const withCell = (mask, t, s, open) => mask.with(t, mask[t].with(s, open));

  /* -- Mouse, touch and keys -- */
  function clicked(t, s, { detail }) {
    if (detail && stroke?.moved) return; /* painted already; keys have no detail */
    focusOn(t, s);
    if (state.game) guess(t, s);
    else {
      const mark = t === asked && s === t + 1 && !state.mask[t][s] ? answer() : "";
      if (mark === undefined) tell(["Choose your guess first."]);
      else changed(withCell(state.mask, t, s, !state.mask[t][s]), current(), mark);
    }
  }

  /* -- The questions -- */
  const guesses = make("div", { class: "c-row c-inputs c-guess" });
  const next = button("Next question", () => {
    Object.assign(state, { question: 1, mask: table(size, causal), model: MASKED });
    modelPick.querySelectorAll("input")[MASKED].checked = true;
    guesses.replaceChildren(pick("Your guess", GUESSES, -1, (guess) => { state.guess = guess; }));
    leave();
    more.hidden = true; /* it has the answer */
    show([`This model was trained ${TRAINED[MASKED]}. ${WHY[MASKED]}`]);
    asks.focus(); /* the button is gone */
  });
  next.hidden = true;
  guesses.append(next);

  /* What stands before the reply when the cell of the questions opens; undefined if the
     reader has not guessed. */
  function answer() {
    if (state.question === 0) {
      next.hidden = guesses.hidden = false;
      return "✓ ";
    }
    if (state.model !== MASKED) return "";
    if (state.guess === undefined) return undefined;
    state.isTold = true;
    guesses.querySelectorAll("input").forEach((input) => { input.disabled = true; });
    return state.guess === FALLS ? "✓ It falls. " : `You guessed “${GUESSES[state.guess]}”. `;
  }

  function focusOn(t, s) {
    cells[state.at[0]][state.at[1]].tabIndex = -1;
    state.at = [t, s];
    cells[t][s].tabIndex = 0;
    cells[t][s].focus({ preventScroll: true });
  }

  function moved(event) {
    const [t, s] = state.at, last = size - 1;
    const to = { ArrowUp: [t - 1, s], ArrowDown: [t + 1, s], ArrowLeft: [t, s - 1],
      ArrowRight: [t, s + 1], Home: [t, 0], End: [t, last] }[event.key];
    if (!to || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    focusOn(...to.map((i) => Math.min(Math.max(i, 0), last)));
  }

  /* A stroke paints all cells that it touches with the value that its first cell gets.
     On a touch screen the grid scrolls up and down, and paints left and right. */
  let stroke;
  const cellAt = ({ clientX, clientY }) => {
    const hit = document.elementFromPoint(clientX, clientY);
    const t = cells.findIndex((row) => row.includes(hit));
    return t < 0 ? undefined : [t, cells[t].indexOf(hit)];
  };
  grid.addEventListener("pointerdown", (event) => {
    const from = !state.game && event.button === 0 && cellAt(event);
    stroke = from && { from, to: !state.mask[from[0]][from[1]], before: current() };
  });
  grid.addEventListener("pointermove", (event) => {
    if (!stroke || !event.buttons) return;
    const cell = cellAt(event), [t, s] = stroke.from;
    if (event.pointerType === "touch" && !stroke.moved && cell?.[0] !== t) stroke = undefined;
    if (!stroke || !cell || (!stroke.moved && cell[0] === t && cell[1] === s)) return;
    const painted = stroke.moved && state.mask[cell[0]][cell[1]] === stroke.to;
    stroke.moved = true;
    if (painted) return;
    changed(withCell(withCell(state.mask, t, s, stroke.to), ...cell, stroke.to),
      stroke.before);
  });
  grid.addEventListener("dragstart", (event) => event.preventDefault());

  /* -- The game: which open cell of the future leaks? -- */
  const LEVELS = [
    { model: PEEKING, open: [[0, 3], [2, 5], [3, 4]], leak: [3, 4], bars: false,
      task: "Three cells of the future are open, and the bars are covered. One of the "
        + "three shows its row the answer. Press it." },
    { model: PEEKING, open: [[0, 2], [1, 5], [4, 5]], leak: [4, 5], covered: true,
      task: "Now the mask is covered, and the bars are not. Three cells of the future "
        + "are open. Press the one that leaks." },
    { model: MASKED, open: [[2, 3]], leak: [2, 3], covered: true,
      task: "This model has learned with the mask. One cell of the future is open, and "
        + "it lowers the bar of its row. Press it." },
  ];

  function level(number, tries = 0, found = 0) {
    const game = { ...LEVELS[number], number, tries, found };
    Object.assign(state, { game, model: game.model });
    state.mask = table(size, (t, s) => causal(t, s)
      || game.open.some(([row, column]) => row === t && column === s));
    modelPick.querySelectorAll("input")[game.model].checked = true;
    show();
    asks.textContent = `Level ${number + 1} of ${LEVELS.length}. ${game.task}`;
    guesses.hidden = true;
    tell([]);
    offerLevels();
    asks.scrollIntoView({ block: "nearest" }); /* the button is at the foot */
    playButton.textContent = "Leave the game";
  }

  function offerLevels() {
    const { number, tries, found } = state.game;
    LEVELS.forEach((_, i) => {
      if (i <= number) return;
      says.append(button(`Go to level ${i + 1}`, () => level(i, tries, found)));
    });
  }

  function leave() {
    state.game = null;
    asks.replaceChildren(...question(state.question + 1, QUESTIONS.length,
      QUESTIONS[state.question]));
    guesses.hidden = state.question === 0 && next.hidden;
    playButton.textContent = "Start the game";
  }

  function guess(t, s) {
    const { leak, number } = state.game, before = shown.probabilities[t];
    const tries = ++state.game.tries, found = state.game.found + 1;
    if (t !== leak[0] || s !== leak[1]) {
      tell([s <= t ? "That cell is not in the future."
        : `Not this one: row ${reads[t]} must say “${words[t + 1]}”`
          + (s === t + 1 ? ", and this cell is hidden." : `, not “${reads[s]}”.`)]);
      offerLevels();
      return;
    }
    leave();
    if (number + 1 < LEVELS.length) asks.textContent = `Level ${number + 1} of ${LEVELS.length}. ✓`;
    state.mask = withCell(state.mask, t, s, false);
    show();
    tell([`Found. With this cell open, “${words[t + 1]}” had ${percent(before)}. `
      + `Now the cell is hidden, and it has ${percent(shown.probabilities[t])}.`]);
    says.append(number + 1 < LEVELS.length
      ? button("Next level", () => level(number + 1, tries, found))
      : make("span", {}, `Cells found: ${found}. Tries: ${tries}.`));
  }

  const modelPick = pick("The model was trained", TRAINED, state.model, (model) => {
    leave();
    state.model = model;
    show([`This model was trained ${TRAINED[model]}. ${WHY[model]}`]);
  });
  const playButton = button("Start the game", () => {
    if (!state.game) {
      level(0);
      return;
    }
    leave();
    state.mask = table(size, causal);
    show(["The causal mask again."]);
  });
  const presets = PRESETS.map(([name, value]) => button(name, () => {
    leave();
    changed(table(size, value));
  }));
  /* What shows the answer waits for the first try. */
  const more = make("div", { class: "c-row c-inputs", hidden: true }, presets.at(-1), playButton);
  const legend = [["may_attend", "may attend"], ["hidden", "hidden"]].map(
    ([name, text]) => make("span", {}, paint(make("i"), colours[name]), text));
  root.append(
    asks, guesses,
    make("div", { class: "c-row c-inputs" }, make("span", {}, "The model was trained"),
      modelPick),
    make("div", { class: "c-row c-inputs" }, make("span", {}, "Mask"),
      presets.slice(0, -1)),
    make("p", { class: "c-hint" }, "An open cell lets the word of its row look at the word of its "
      + "column."),
    make("div", { class: "c-leak" }, grid), make("p", { class: "c-legend" }, legend,
      make("span", {}, make("i", { class: "c-future" }), "open future")),
    says, more);
  leave();
  drawMask();
  tell(["Each bar is the probability that the model gives to the true next word. BOS marks "
    + "the beginning of a sentence, and EOS its end.",
  "This model could see the future while it learned, so it copies the next word, and fails "
    + "under the causal mask. It learned to predict only EOS, which is in no column."]);
  setTimeout(prepareAll);
}
