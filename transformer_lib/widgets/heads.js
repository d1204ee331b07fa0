/* All heads as small maps to pick from, and one of them token by token. */
const KINDS = {
  encoder: { title: "Encoder", asks: "source", asked: "source" },
  decoder: { title: "Decoder", asks: "target", asked: "target" },
  cross: { title: "Cross-attention", asks: "target", asked: "source" },
};
const NAMED = 3; /* so many of the weights are told in words, the largest */

function draw(root, sentences, { make, choice, pick, paint, weightColour }) {
  const [kind, layers] = Object.entries(sentences[0].maps).at(-1);
  const state = { kind, layer: layers.length - 1, head: 0, sentence: 0, token: 1,
    back: false };
  const overview = make("div", { class: "c-heads" });
  const lines = make("div", { class: "c-heads-lines" });
  const says = make("output", { class: "c-says" });

  function picture(map, name) {
    const [width, height] = [map[0].length, map.length];
    const canvas = make("canvas", { width, height, role: "img", "aria-label": name });
    const image = new ImageData(width, height);
    image.data.set(map.flat().flatMap((part) => [...weightColour(part / 100), 255]));
    canvas.getContext("2d").putImageData(image, 0, 0);
    return canvas;
  }

  /* A block for each kind, a row for each layer; together they are one choice. */
  function drawOverview() {
    const kinds = Object.entries(sentences[state.sentence].maps);
    const heads = kinds.flatMap(([kind, layers]) => layers.flatMap((maps, layer) =>
      maps.map((map, head) => ({ kind, layer, head, map }))));
    const find = (kind, layer, head) => heads.findIndex((each) =>
      each.kind === kind && each.layer === layer && each.head === head);
    const group = pick("Head", heads.map(({ kind, layer, head, map }) =>
      picture(map, `${KINDS[kind].title}, layer ${layer}, head ${head}`)),
    find(state.kind, state.layer, state.head), (i) => {
      const { kind, layer, head } = heads[i];
      Object.assign(state, { kind, layer, head });
      drawLines();
    });
    const options = [...group.children];
    group.replaceChildren(...kinds.map(([kind, layers]) => make("div", {},
      make("p", {}, KINDS[kind].title), layers.map((maps, layer) =>
        make("div", { class: "c-heads-layer" }, make("small", {}, `layer ${layer}`),
          maps.map((_, head) => options[find(kind, layer, head)]))))));
    /* The keys left and right go through all heads by themselves. */
    group.addEventListener("keydown", (event) => {
      const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const next = options[find(state.kind, state.layer + step, state.head)];
      next?.control.focus();
      next?.click();
    });
    overview.replaceChildren(group);
  }

  /* One line of tokens to pick from, and the line that is coloured by the weights. */
  function drawLines() {
    const { source, target, maps } = sentences[state.sentence];
    const { title, asks, asked } = KINDS[state.kind];
    const map = maps[state.kind][state.layer][state.head];
    const plain = (token) => ({ token, name: token });
    const rows = asks === "source" ? source.map(plain) : target.slice(0, -1).map(
      (token, t) => ({ token, writes: target[t + 1],
        name: `${token} (which writes ${target[t + 1]})` }));
    const columns = asked === "source" ? source.map(plain) : target.slice(0, -1).map(plain);
    const [picked, coloured] = state.back ? [columns, rows] : [rows, columns];
    state.token = Math.min(state.token, picked.length - 1);

    const box = ({ token, writes }, number = "") => make("span", { class: "c-token" },
      token, make("small", {}, writes ? `→ ${writes}` : ""), make("small", {}, number));
    const group = pick("Token", picked.map((each) => box(each)), state.token, (i) => {
      state.token = i;
      show(i);
    });
    [...group.children].forEach((option, i) => {
      option.addEventListener("pointerenter", () => show(i));
      option.addEventListener("pointerleave", () => show(state.token));
    });
    const line = make("div", { class: "c-heads-line" });
    const verb = state.back ? "is looked at by" : "looks at";
    lines.replaceChildren(make("p", {}, "This token"), group, make("p", {}, verb), line);

    function show(token) {
      const weights = coloured.map((_, i) => {
        const [t, s] = state.back ? [i, token] : [token, i];
        return asked === "target" && s > t ? null : map[t][s] / 100; /* the future */
      });
      line.replaceChildren(...weights.map((weight, i) => weight === null
        ? box(coloured[i], "hidden")
        : paint(box(coloured[i], weight.toFixed(2)), weightColour(weight))));
      const seen = weights.flatMap((weight, i) => weight === null ? [] : [i])
        .sort((a, b) => weights[b] - weights[a]);
      const named = seen.filter((i, rank) => !rank || (rank < NAMED && weights[i]));
      const rest = seen.slice(named.length);
      const sum = rest.reduce((total, i) => total + weights[i], 0);
      says.textContent = `${title}, layer ${state.layer}, head ${state.head}: `
        + `${picked[token].name} ${verb} ${named.map((i) =>
          `${coloured[i].name} ${weights[i].toFixed(2)}`).join(", ")}`
        + (rest.length ? `; the other ${rest.length} together ${sum.toFixed(2)}.` : ".");
    }
    show(state.token);
  }

  root.append(
    make("div", { class: "c-row c-inputs" },
      choice("Sentence", sentences.map(({ text }) => text), 0, (i) => {
        state.sentence = i;
        drawOverview();
        drawLines();
      }),
      pick("Direction", ["looks at", "is looked at by"], 0, (i) => {
        state.back = i === 1;
        drawLines();
      })),
    overview, lines, says);
  drawOverview();
  drawLines();
}
