/* A batch of two sentence pairs, the masks it needs, and what attention sees when the
   code gets them wrong. */
const NAMES = { source: "Source", target: "Target" };
const PAD = null, MOST_WORDS = 12, LONGEST_LABEL = 12;

const ATTENTIONS = [
  { name: "encoder self-attention", asks: "source", asked: "source", causal: false },
  { name: "decoder self-attention", asks: "target", asked: "target", causal: true },
  { name: "cross-attention", asks: "target", asked: "source", causal: false },
];

/* What the code does with the mask, and whether a query then sees a key. */
const CODES = [
  { name: "is right", sees: (cell) => cell.right },
  { name: "takes True for hidden", sees: (cell) => !cell.right },
  { name: "adds ones and zeros to the scores", sees: () => true },
  { name: "forgets the padding", sees: (cell) => cell.past },
  { name: "forgets the future", sees: (cell) => cell.isWord },
  { name: "hides padding on the rows", sees: (cell) => cell.asksWord && cell.past },
  { name: "leaves out the diagonal", sees: (cell) => cell.right && !cell.onDiagonal },
];

/* What can be wrong with a row. */
const FAULTS = [
  ["looking at padding", (row) => row.some((cell) => cell.seen && !cell.isWord)],
  ["looking at a later word",
    (row) => row.some((cell) => cell.seen && cell.isWord && !cell.past)],
  ["missing a word", (row) => row.some((cell) => cell.seen)
    && row.some((cell) => cell.right && !cell.seen)],
  ["seeing nothing", (row) => !row.some((cell) => cell.seen)],
];

const wordsOf = (text) => text.split(/\s+/).filter(Boolean);
const longest = (sentences) => Math.max(...sentences.map((words) => words.length));

function pad(sentences, size, atLeft) {
  return sentences.map((all) => {
    const words = all.slice(0, size), padding = Array(size - words.length).fill(PAD);
    return atLeft ? [...padding, ...words] : [...words, ...padding];
  });
}

/* All that is to be known of each query and key of one sentence. */
function compare(queries, keys, causal, sees) {
  return queries.map((query, q) => keys.map((key, k) => {
    const isWord = key !== PAD, past = !causal || k <= q;
    const cell = { isWord, past, right: isWord && past, asksWord: query !== PAD,
      onDiagonal: causal && k === q };
    return { ...cell, seen: sees(cell) };
  }));
}

function label(token) {
  const letters = [...(token ?? "PAD")];
  return letters.length > LONGEST_LABEL
    ? `${letters.slice(0, LONGEST_LABEL - 1).join("")}…` : letters.join("");
}

function draw(root, { src, tgt, colours }, { make, choice, tick, line, grid, paint }) {
  const state = { source: src, target: tgt, attention: 1, code: 4, atLeft: false };
  const seen = make("div", { class: "c-sentences" });
  const factors = make("div", { class: "c-sentences" });
  const says = make("output", { class: "c-says" });
  const wrong = make("p", { class: "c-wrong", role: "alert" });

  const fold = make("details", {},
    make("summary", {}, "The right mask, and what it is made of"), factors);

  /* Of sentence b: what attention sees, the right masks, and in words what is wrong with
     its rows. */
  function sentence(queries, keys, b) {
    const { causal } = ATTENTIONS[state.attention];
    const cells = compare(queries, keys, causal, CODES[state.code].sees);
    /* Rows of padding go wrong too, but nobody reads them. */
    const isWrong = (row) => row[0].asksWord && row.some((c) => c.seen !== c.right);
    const name = `Sentence ${b + 1}`;

    /* `value` says whether the mask lets a cell through, `marked` whether a row is
       marked, with its wrong cells. */
    function picture([caption, value, marked = () => false]) {
      const rows = queries.map((query, q) => marked(cells[q])
        ? make("span", { class: "c-wrong" }, `✗ ${label(query)}`) : label(query));
      const values = cells.map((row) => row.map(value));
      const view = grid(caption, rows, keys.map(label), values, {
        show: (seen, q, k) => [
          marked(cells[q]) && seen !== cells[q][k].right ? "✗" : "",
          make("span", { class: "c-unseen" }, seen ? "may attend" : "hidden")],
        colour: (seen) => (seen ? colours.may_attend : colours.hidden),
      });
      view.setAttribute("aria-label", `${name}, ${caption}`);
      return view;
    }

    const [T, S] = [queries.length, keys.length];
    const parts = [[`padding\n(2, 1, 1, ${S})`, (cell) => cell.isWord]];
    if (causal) {
      parts.push([`causal\n(1, 1, ${T}, ${S})`, (cell) => cell.past],
        [`padding & causal\n(2, 1, ${T}, ${S})`, (cell) => cell.right]);
    }
    const group = (pictures) => make("div", { class: "c-masks", role: "group",
      "aria-label": name }, make("p", {}, name), pictures.map(picture));
    const views = [[["what attention sees", (cell) => cell.seen, isWrong]], parts]
      .map(group);
    const words = FAULTS.map(([text, test]) => [text, queries.filter((_, q) =>
      isWrong(cells[q]) && test(cells[q])).map(label)]);
    const empty = queries.filter((_, q) => cells[q][0].asksWord
      && !cells[q].some((cell) => cell.right));
    words.push(["with nothing to look at, and zeros for an answer", empty.map(label)]);
    return [views, words.filter(([, rows]) => rows.length).map(([text, rows]) =>
      make("span", {}, `${name}, ${text}: ${rows.join(", ")}.`))];
  }

  /* What is wrong with the sentences, if anything is. */
  function refusal(sources) {
    if (!longest(sources)) return "Source 1 and Source 2 are empty: type a word in one.";
    for (const side of ["source", "target"]) {
      const long = state[side].findIndex((text) => wordsOf(text).length > MOST_WORDS);
      if (long >= 0) {
        return `${NAMES[side]} ${long + 1} has ${wordsOf(state[side][long]).length} `
          + `words; there is room for ${MOST_WORDS}.`;
      }
    }
    return "";
  }

  function update() {
    const sources = state.source.map(wordsOf);
    const targets = state.target.map((text) => ["BOS", ...wordsOf(text), "EOS"]);
    wrong.textContent = refusal(sources);
    for (const part of [says, seen, fold]) {
      part.classList.toggle("c-old", wrong.textContent !== "");
    }
    if (wrong.textContent) return;
    const batch = { source: pad(sources, longest(sources), state.atLeft),
      target: pad(targets, longest(targets) - 1, state.atLeft) };
    const { asks, asked } = ATTENTIONS[state.attention];
    const shown = [0, 1].map((b) => sentence(batch[asks][b], batch[asked][b], b));
    [seen, factors].forEach((place, i) =>
      place.replaceChildren(...shown.map(([views]) => views[i])));
    const words = shown.flatMap(([, lines]) => lines);
    says.replaceChildren(...(words.length ? words : ["No row of a word goes wrong."]));
  }

  const set = (name) => (value) => { state[name] = value; update(); };
  const box = (side, b) => line(`${NAMES[side]} ${b + 1}`,
    state[side][b], (text) => set(side)(state[side].with(b, text)));
  const legend = [["may_attend", "may attend"], ["hidden", "hidden"]].map(
    ([name, text]) => make("span", {}, paint(make("i"), colours[name]), text));
  root.append(
    make("div", { class: "c-row c-inputs" }, box("source", 0), box("target", 0)),
    make("div", { class: "c-row c-inputs" }, box("source", 1), box("target", 1)),
    make("div", { class: "c-row c-inputs" },
      choice("Attention", ATTENTIONS.map(({ name }) => name), state.attention,
        set("attention")),
      choice("The code", CODES.map(({ name }) => name), state.code, set("code")),
      tick("pad on the left", false, set("atLeft"))),
    wrong, says,
    make("p", { class: "c-legend" }, legend, "rows ask, columns are asked"), seen, fold);
  update();
}
