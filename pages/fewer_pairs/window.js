/* Which scores a window computes with a mask and in chunks, which of them it uses, and
   on which positions an output depends through several layers. */
const upTo = (n) => Array.from({ length: n }, (_, i) => i);

function sees(query, key, { length, width, both }) {
  const there = query < length && key >= 0 && key < length;
  return there && (both || key <= query) && Math.abs(query - key) < width;
}

/* The scores that are computed, as pairs of a query and a key. In chunks, some queries
   and keys are before the text or after it. */
function withMask({ length }) {
  return upTo(length).flatMap((query) => upTo(length).map((key) => [query, key]));
}

function inChunks({ length, width, both }) {
  const rows = width, reach = width - 1, near = rows + reach * (both ? 2 : 1);
  const chunks = upTo(Math.ceil(length / rows)).map((chunk) => chunk * rows);
  return chunks.flatMap((start) => upTo(rows).flatMap((row) => upTo(near).map(
    (column) => [start + row, start - reach + column])));
}

/* The positions that a position depends on: itself, then after each layer. */
function reached(state) {
  const steps = [[state.position]];
  for (const _ of upTo(state.layers)) {
    steps.push(upTo(state.length).filter((key) =>
      steps.at(-1).some((query) => sees(query, key, state))));
  }
  return steps;
}

const inWords = (cells) => (cells.length === 1 ? `${cells[0]} alone`
  : `${cells[0]} to ${cells.at(-1)}`);

function draw(root, data, { make, slider, tick, line, button }) {
  const { longest, deepest, ...start } = data;
  const state = { ...start, position: start.length - 1, both: false };
  const says = make("p", { class: "c-says" });
  const status = make("p", { class: "c-unseen", role: "status" });
  const announce = () => { status.textContent = says.textContent; };
  const choosers = ["with a mask", "in chunks"].map(chooser);
  const figures = [...choosers, ""].map((rows) => make("div", {}, make("p"),
    make("div", { class: "c-rows-in" }, make("svg"), rows)));
  const views = make("div", { class: "c-pairs" }, figures);

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
    return [make("p", { class: "c-hint" }, name), make("svg", {
      viewBox: `${left - 0.1} ${top - 0.1} ${wide + 0.2} ${high + 0.2}`, role: "img",
      "aria-label": name, style: `max-width: ${1.5 * wide}rem` }, cells, frame)];
  }

  /* Over a picture of scores: its rows are positions to choose from. It stays when the
     picture changes, and so does the focus. */
  function chooser(name) {
    const rows = make("div", { class: "c-choose", tabindex: 0, role: "slider",
      "aria-orientation": "vertical", "aria-valuemin": 0,
      "aria-label": `Query, ${name}`,
      click: ({ clientY }) => { chooseAt(clientY); announce(); },
      pointermove: ({ buttons, pointerType, clientY }) =>
        pointerType === "mouse" && buttons === 1 && chooseAt(clientY),
      keydown: (event) => {
        const last = state.length - 1, at = state.position;
        const to = { ArrowUp: at - 1, ArrowLeft: at - 1, ArrowDown: at + 1,
          ArrowRight: at + 1, Home: 0, End: last }[event.key];
        if (to === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
        event.preventDefault();
        choose(to);
        announce();
      } });
    function chooseAt(y) {
      const svg = rows.previousElementSibling, box = svg.getBoundingClientRect();
      const { y: top, height } = svg.viewBox.baseVal;
      choose(Math.floor(top + height * (y - box.top) / box.height));
    }
    return rows;
  }

  function put(label, value) {
    const input = label.querySelector("input");
    input.value = value; /* which it keeps within its limits */
    input.dispatchEvent(new Event("input"));
  }

  const choose = (row) => put(position, row);

  /* The picture tests the guess: as many layers, with the sizes of the question. */
  function test() {
    const text = guess.querySelector("input").value.trim();
    if (/^\d+$/.test(text) && text >= 1 && text <= deepest) {
      both.querySelector("input").checked = false;
      state.both = false;
      [[length, start.length], [width, start.width], [position, start.length - 1],
        [layers, text]].forEach(([label, value]) => put(label, value));
      const steps = reached(state), needs = steps.findIndex((at) => at.includes(0));
      says.textContent += needs === -1 ? ` Not yet: position 0 is ${steps.at(-1)[0]} `
        + "away from these." : needs < Number(text)
        ? ` ${text} layers are enough, but fewer would do.`
        : ` Your guess, ${text}, is right: each layer adds ${start.width - 1}.`;
    } else {
      says.textContent = `Write your guess as one whole number, 1 to ${deepest}.`;
    }
    announce();
  }

  function computed(name, pairs) {
    const used = pairs.filter(([query, key]) => sees(query, key, state));
    const wasted = pairs.filter(([query, key]) => !sees(query, key, state));
    return picture(`${name}: ${pairs.length} scores computed, ${used.length} used`,
      { wasted, used }, state.position);
  }

  function update() {
    const { length, layers, position } = state, steps = reached(state);
    const cone = { wasted: [], used: [] };
    steps.forEach((found, row) => upTo(length).forEach((key) =>
      cone[found.includes(key) ? "used" : "wasted"].push([row, key])));
    [computed("With a mask", withMask(state)),
      computed("In chunks", inChunks(state)),
      picture(`Position ${position} at the top; below it, layer by layer, the positions `
        + "it depends on", cone)].forEach((parts, i) => {
      figures[i].querySelectorAll("p, svg").forEach((old, j) => old.replaceWith(parts[j]));
    });
    choosers.forEach((rows) => {
      rows.setAttribute("aria-valuemax", length - 1);
      rows.setAttribute("aria-valuenow", position);
      rows.style.maxWidth = rows.previousElementSibling.style.maxWidth;
    });
    const last = steps.at(-1), often = layers === 1 ? "1 layer" : `${layers} layers`;
    says.textContent = `After ${often}, position ${position} depends on ${last.length} `
      + `of ${length} positions: ${inWords(last)}.`;
  }

  const limited = (name, label, min, max) => slider(label,
    { min, max, step: 1, value: state[name] }, (value) => { state[name] = value; update(); });
  const length = slider("Length", { min: 2, max: longest, step: 1, value: state.length },
    lengthen);
  const width = limited("width", "Window", 1, state.length);
  const layers = limited("layers", "Layers", 1, deepest);
  const position = limited("position", "Position", 0, state.length - 1);

  /* A shorter text has fewer positions, and no wider window; the last one stays last. */
  function lengthen(count) {
    const atEnd = state.position === state.length - 1;
    state.length = count;
    for (const [label, max] of [[width, count], [position, count - 1]]) {
      const input = label.querySelector("input");
      input.max = max;
      if (label === position && atEnd) input.value = max;
      input.dispatchEvent(new Event("input"));
    }
  }

  const both = tick("to both sides", false, (on) => { state.both = on; update(); });
  const guess = line("Your guess", "", () => {});
  const input = guess.querySelector("input");
  input.setAttribute("inputmode", "numeric");
  input.addEventListener("keydown", ({ key, isComposing }) => {
    if (key === "Enter" && !isComposing) test();
  });
  const settings = make("div", { change: announce },
    make("div", { class: "c-row c-inputs" }, length, width, layers),
    make("div", { class: "c-row c-inputs" }, position, both));

  const legend = [["used", "used"], ["wasted", "computed but not used"]].map(
    ([kind, text]) => make("span", {}, make("i", { class: `c-${kind}` }), text));
  root.append(
    make("p", { class: "c-asks" }, `${start.length} positions and a window of `
      + `${start.width}: how many layers until the last position depends on the first? `
      + "Guess, then test."),
    make("div", { class: "c-row c-inputs c-guess" }, guess, button("Test", test)),
    settings, says, status, make("p", { class: "c-legend" }, legend,
      "rows are queries, columns are keys: press a row to choose the query"), views);
  update();
}
