/* One sentence through the whole model: a drawing, the tensor of one step, and its sums. */
const SHARE = 0.75; /* of a row's weight gets lines */
const PAUSE = 1600; /* milliseconds between two steps of Play */
const SPECIAL = { "<pad>": "PAD", "<s>": "BOS", "</s>": "EOS" };

const wordOf = (piece) => SPECIAL[piece] ?? piece.replace(/^▁/, "");
const percent = (share) => (share < 0.001 ? "< 0.1 %"
  : `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`);

/* Sixteen bits of a float, as the recording holds them. */
function halves(base64) {
  const text = atob(base64), numbers = new Float32Array(text.length / 2);
  for (let i = 0; i < numbers.length; i++) {
    const bits = text.charCodeAt(2 * i) + 256 * text.charCodeAt(2 * i + 1);
    const [sign, exponent, part] = [bits >> 15 ? -1 : 1, (bits >> 10) & 31, bits & 1023];
    numbers[i] = sign * (exponent === 31 ? (part ? NaN : Infinity)
      : exponent ? 2 ** (exponent - 15) * (1 + part / 1024) : 2 ** -14 * (part / 1024));
  }
  return numbers;
}

/* One translation: the value of each node, however it is held. */
class Run {
  constructor(values, changes = []) {
    Object.assign(this, { held: values, changes });
    this.src = [...this.tensor("src.ids").data];
    this.tgt = [...this.tensor("tgt.ids").data];
    const { data, shape: [rows, words] } = this.tensor("logits");
    this.written = Array.from({ length: rows }, (_, t) => this.tgt[t + 1]
      ?? topk(data.subarray(t * words, (t + 1) * words), 1)[0]);
  }

  tensor(name) {
    const held = this.held[name];
    if (typeof held.data === "string") held.data = halves(held.data);
    return held;
  }
}

function draw(root, data, kit, [first]) {
  const { make, button, pick, line } = kit;
  const { graph, config, tokens } = data;
  const nodes = graph.map(({ name }) => name);
  const byName = new Map(graph.map((node) => [node.name, node]));
  const model = { nodes, layers: config.num_layers, heads: config.num_heads,
    words: tokens.length, tour: (data.tour ?? []).map(({ id }) => id) };
  let run = new Run(data.recording), stage, playing;
  const state = { node: nodes[0], step: 0, head: 0, cell: null, changes: [] };
  const says = make("output", { class: "c-says", "aria-live": "polite" });
  const word = (id) => wordOf(tokens[id] ?? "?");
  const sideWords = { source: () => run.src.map(word), target: () => run.tgt.map(word) };

  /* -- The sentence and what is written -- */
  const source = make("div", { class: "o-words" });
  const target = make("div", { class: "o-words", role: "group",
    "aria-label": "Written words: choose a decoding step" });

  function drawWords() {
    source.replaceChildren(...run.src.map((id) => make("span", {}, make("bdi", {}, word(id)))));
    target.replaceChildren(...run.written.map((id, t) =>
      make("button", { type: "button", "aria-pressed": String(t === state.step),
        class: t > state.step ? "o-later" : "", click: () => go({ step: t }) },
      make("bdi", { lang: "de" }, word(id)))));
  }

  /* -- The map -- */
  const map = first.querySelector(".o-map");
  const links = [...map.querySelectorAll("a")];
  const boxOf = (node) => links.map((link) => link.dataset.box)
    .filter((box) => node === box || node.startsWith(`${box}.`))
    .sort((a, b) => b.length - a.length)[0];
  map.addEventListener("click", (event) => {
    const link = event.target.closest("a");
    if (!link) return;
    event.preventDefault();
    const { box } = link.dataset;
    go({ node: nodes.find((name) => boxOf(name) === box) ?? state.node });
  });

  /* -- The stage -- */
  const title = make("h3"), where = make("p", { class: "o-where" });
  const what = make("p", { class: "o-what" }), view = make("div", { class: "o-view" });

  function placeOf({ name, how }) {
    const [half, layer] = name.split(".");
    const side = { src: "Before the encoder", tgt: "Before the decoder" }[half];
    if (side) return side;
    if (!/^\d+$/.test(layer ?? "")) return half === "memory" ? "Between the halves" : "After the decoder";
    const part = name.split(".")[2].replace("_", "-");
    return `${half === "encoder" ? "Encoder" : "Decoder"}, layer ${layer}, ${part}`;
  }

  const isTarget = (node) => node.sides[0] === "target";

  /* The slice that is shown: rows, and one head of several. */
  function sliceOf(node) {
    const { shape, data: values } = run.tensor(node.name);
    const [rows, columns] = shape.slice(-2);
    const from = shape.length === 3 ? state.head * rows * columns : 0;
    let most = 0;
    for (const value of values) if (Math.abs(value) > most && !isHidden(value)) most = Math.abs(value);
    return { rows, columns, most: most || 1, at: (r, c) => values[from + r * columns + c] };
  }

  function drawGrid(node, moved) {
    const { rows, columns, most, at } = sliceOf(node);
    const isWeights = node.how === "softmax" && node.axes.includes("key");
    const names = sideWords[node.sides[0]]();
    const keys = node.axes.at(-1) === "key" ? sideWords[node.sides[1]]() : columns;
    const hidden = data.colours.hidden;
    return cells(kit, { label: `${node.label}: ${rows} rows, ${columns} columns`,
      rows: names, columns: keys, value: at, numbers: columns <= 16, moved,
      colour: (r, c) => (isHidden(at(r, c)) ? hidden
        : isWeights ? weightColour(at(r, c)) : signedColour(at(r, c), most)) });
  }

  function drawStage() {
    stage?.parts.forEach((part) => part.close?.());
    const node = byName.get(state.node);
    title.textContent = node.label;
    where.textContent = placeOf(node);
    what.textContent = node.says;
    const shape = run.tensor(node.name).shape;
    const heads = node.axes[0] === "head" ? pick("Head", Array.from({ length: shape[0] },
      (_, h) => `head ${h}`), state.head, (h) => go({ head: h })) : "";
    const parts = [];
    if (shape.length === 1) {
      const chips = run.tensor(node.name).data;
      view.replaceChildren(make("div", { class: "o-words" }, [...chips].map((id) =>
        make("span", {}, `${word(id)} ${id}`))));
    } else {
      const moved = (r, c) => go({ cell: [r, c] });
      parts.push(drawGrid(node, moved));
      if (node.how === "softmax" && node.axes.includes("key")) {
        const { rows, columns, at } = sliceOf(node);
        const weights = Array.from({ length: rows }, (_, r) =>
          Array.from({ length: columns }, (_, c) => at(r, c)));
        parts.unshift(looks(kit, { queries: sideWords[node.sides[0]](),
          keys: sideWords[node.sides[1]](), weights, share: SHARE,
          chose: (r) => go({ cell: [r, state.cell?.[1] ?? 0] }) }));
      }
      view.replaceChildren(heads, make("div", { class: parts.length > 1 ? "o-both" : "" },
        parts.map(({ element }) => element)));
    }
    stage = { node, parts };
    links.forEach((link) => {
      if (link.dataset.box === boxOf(node.name)) link.setAttribute("aria-current", "step");
      else link.removeAttribute("aria-current");
    });
  }

  function drawCell() {
    const node = byName.get(state.node);
    const row = isTarget(node) ? state.step : Math.min(1, run.src.length - 1);
    const [r, c] = state.cell ?? [row, 0];
    stage.parts.forEach((part) => part.select(r, c));
  }

  /* -- Steps -- */
  const scrub = make("input", { type: "range", min: 0, max: nodes.length - 1, step: 1,
    "aria-label": "Step of the pass", input: () => go({ node: nodes[scrub.valueAsNumber] }) });
  const count = make("span", { class: "o-name" });
  const move = (by) => {
    const to = nodes.indexOf(state.node) + by;
    if (to in nodes) go({ node: nodes[to] });
    else if (by > 0 && state.step + 1 < run.written.length) {
      go({ step: state.step + 1, node: "tgt.ids" });
    } else halt();
  };
  const play = button("Play", () => (playing ? halt() : start()));

  function start() {
    playing = setInterval(() => move(1), PAUSE);
    play.textContent = "Pause";
  }

  function halt() {
    clearInterval(playing);
    playing = undefined;
    play.textContent = "Play";
  }

  /* -- From state to page -- */
  function go(change) {
    const isNew = "node" in change || "head" in change;
    if ("node" in change || "step" in change) state.cell = null;
    Object.assign(state, change);
    if ("step" in change || !target.childNodes.length) drawWords();
    if (isNew || !stage) drawStage();
    drawCell();
    const at = nodes.indexOf(state.node);
    scrub.value = at;
    scrub.setAttribute("aria-valuetext", `${byName.get(state.node).label}, ${placeOf(byName.get(state.node))}`);
    count.textContent = `${at + 1} of ${nodes.length}`;
  }

  root.append(
    make("div", { class: "o-sentence" },
      make("span", {}, "English"), source, make("span", {}, "German"), target),
    make("div", { class: "o-main" }, map,
      make("div", { class: "o-stage" },
        make("div", { class: "o-scrub c-inputs" }, button("Back", () => move(-1)), play,
          button("Next", () => move(1)), scrub, count),
        where, title, what, view, says)));
  go({ node: nodes[0] });
}
