/* Which scores a window computes behind a mask and by chunks, which of them it uses, and
   from where a position hears through several layers. */
const upTo = (n) => Array.from({ length: n }, (_, i) => i);

function sees(query, key, { length, width, both }) {
  const there = query < length && key >= 0 && key < length;
  return there && (both || key <= query) && Math.abs(query - key) < width;
}

/* The scores that are computed, as pairs of a query and a key. By chunks, some queries
   and keys stand before the text or after it. */
function behindMask({ length }) {
  return upTo(length).flatMap((query) => upTo(length).map((key) => [query, key]));
}

function byChunks({ length, width, both }) {
  const rows = width, reach = width - 1, near = rows + reach * (both ? 2 : 1);
  const chunks = upTo(Math.ceil(length / rows)).map((chunk) => chunk * rows);
  return chunks.flatMap((start) => upTo(rows).flatMap((row) => upTo(near).map(
    (column) => [start + row, start - reach + column])));
}

/* The positions that a position hears of: itself, then after each layer. */
function heard(state) {
  const steps = [[state.position]];
  for (const _ of upTo(state.layers)) {
    steps.push(upTo(state.length).filter((key) =>
      steps.at(-1).some((query) => sees(query, key, state))));
  }
  return steps;
}

const inWords = (cells) => (cells.length === 1 ? `${cells[0]} alone`
  : `${cells[0]} to ${cells.at(-1)}`);

function draw(root, data, { make, slider, tick }) {
  const { longest, deepest, ...start } = data;
  const state = { ...start, position: start.length - 1, both: false };
  const says = make("output", { class: "c-says" });
  const views = make("div", { class: "c-pairs" });

  /* A picture of cells; each kind has its own colour. A frame is around one row. */
  function picture(name, kinds, row) {
    const all = Object.values(kinds).flat();
    const [rows, columns] = [0, 1].map((i) => all.map((cell) => cell[i]));
    const [left, top] = [Math.min(...columns), Math.min(...rows)];
    const [wide, high] = [Math.max(...columns) + 1 - left, Math.max(...rows) + 1 - top];
    const cells = Object.entries(kinds).map(([kind, list]) => make("path", {
      class: `c-${kind}`,
      d: list.map(([y, x]) => `M${x + 0.05} ${y + 0.05}h.9v.9h-.9z`).join("") }));
    const frame = row === undefined ? "" : make("rect", { x: left, y: row, width: wide,
      height: 1 });
    return make("div", {}, make("p", { class: "c-hint" }, name), make("svg", {
      viewBox: `${left - 0.1} ${top - 0.1} ${wide + 0.2} ${high + 0.2}`, role: "img",
      "aria-label": name, style: `max-width: ${1.5 * wide}rem` }, cells, frame));
  }

  function computed(name, pairs) {
    const used = pairs.filter(([query, key]) => sees(query, key, state));
    const wasted = pairs.filter(([query, key]) => !sees(query, key, state));
    return picture(`${name}: ${pairs.length} scores computed, ${used.length} used`,
      { wasted, used }, state.position);
  }

  function update() {
    const { length, layers, position } = state, steps = heard(state);
    const cone = { wasted: [], used: [] };
    steps.forEach((reached, row) => upTo(length).forEach((place) =>
      cone[reached.includes(place) ? "used" : "wasted"].push([row, place])));
    views.replaceChildren(
      computed("Behind a mask", behindMask(state)),
      computed("By chunks", byChunks(state)),
      picture(`Position ${position} at the top; below it, after each layer, from where `
        + "it has heard", cone));
    const last = steps.at(-1), often = layers === 1 ? "1 layer" : `${layers} layers`;
    says.textContent = `After ${often}, position ${position} has heard of ${last.length} `
      + `of ${length} positions: ${inWords(last)}.`;
  }

  const limited = (name, label, min, max) => slider(label,
    { min, max, step: 1, value: state[name] }, (value) => { state[name] = value; update(); });
  const width = limited("width", "Window", 1, state.length);
  const position = limited("position", "Position", 0, state.length - 1);

  /* A shorter text has fewer positions, and no wider window; the last one stays last. */
  function lengthen(length) {
    const atEnd = state.position === state.length - 1;
    state.length = length;
    for (const [label, max] of [[width, length], [position, length - 1]]) {
      const input = label.querySelector("input");
      input.max = max;
      if (label === position && atEnd) input.value = max;
      input.dispatchEvent(new Event("input"));
    }
  }

  const legend = [["used", "used"], ["wasted", "computed and thrown away"]].map(
    ([kind, text]) => make("span", {}, make("i", { class: `c-${kind}` }), text));
  root.append(
    make("div", { class: "c-row c-inputs" },
      slider("Length", { min: 2, max: longest, step: 1, value: state.length }, lengthen),
      width, limited("layers", "Layers", 1, deepest)),
    make("div", { class: "c-row c-inputs" }, position,
      tick("to both sides", false, (both) => { state.both = both; update(); })),
    says, make("p", { class: "c-legend" }, legend, "rows ask, columns are asked"), views);
  update();
}
