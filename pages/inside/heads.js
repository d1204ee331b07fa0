/* All heads as small maps to pick from, and one of them token by token. */
const KINDS = {
  encoder: { title: "Encoder", asks: "source", asked: "source" },
  decoder: { title: "Decoder", asks: "target", asked: "target" },
  cross: { title: "Cross-attention", asks: "target", asked: "source" },
};
const NAMED = 3; /* so many of the weights are told in words, the largest */

function draw(root, sentences, { make, choice, pick, paint, weightColour }) {
  const kinds = Object.entries(sentences[0].maps);
  const heads = kinds.flatMap(([kind, layers]) => layers.flatMap((maps, layer) =>
    maps.map((_, head) => ({ kind, layer, head }))));
  const state = { sentence: 0, head: heads.findLast(({ head }) => head === 0), token: 1,
    back: false };
  const overview = make("div", { class: "c-heads" });
  const lines = make("div");
  const says = make("output", { class: "c-says" });

  const mapOf = ({ kind, layer, head }) =>
    sentences[state.sentence].maps[kind][layer][head];
  const nameOf = ({ kind, layer, head }) =>
    `${KINDS[kind].title}, layer ${layer}, head ${head}`;

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
    const pictures = heads.map((head) => picture(mapOf(head), nameOf(head)));
    const group = pick("Head", pictures, heads.indexOf(state.head), (i) => {
      state.head = heads[i];
      drawLines();
    });
    const options = [...group.children];
    const row = (kind, layer) => make("div", { class: "c-heads-layer" },
      make("small", {}, `layer ${layer}`),
      options.filter((_, i) => heads[i].kind === kind && heads[i].layer === layer));
    group.replaceChildren(...kinds.map(([kind, layers]) => make("div", {},
      make("p", { class: "c-hint" }, KINDS[kind].title),
      layers.map((_, layer) => row(kind, layer)))));
    /* The keys left and right go through all heads by themselves. */
    group.addEventListener("keydown", (event) => {
      const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const { kind, layer, head } = state.head;
      const next = options[heads.findIndex((each) =>
        each.kind === kind && each.layer === layer + step && each.head === head)];
      next?.control.focus();
      next?.click();
    });
    overview.replaceChildren(group);
  }

  /* One line of tokens to pick from, and the line that is coloured by the weights. */
  function drawLines() {
    const { source, target } = sentences[state.sentence];
    const { asks, asked } = KINDS[state.head.kind];
    const map = mapOf(state.head);
    const read = (tokens) => tokens.map((token) => ({ token, name: token }));
    const writing = (tokens) => tokens.slice(0, -1).map((token, t) => ({ token,
      writes: tokens[t + 1], name: `${token} (which writes ${tokens[t + 1]})` }));
    const rows = asks === "source" ? read(source) : writing(target);
    const columns = read(asked === "source" ? source : target.slice(0, -1));
    const [picked, coloured] = state.back ? [columns, rows] : [rows, columns];
    state.token = Math.min(state.token, picked.length - 1);

    const box = ({ token, writes }, number = "") => make("span", { class: "c-token" },
      token, make("small", {}, writes ? `→ ${writes}` : ""), make("small", {}, number));
    const group = pick("Token", picked.map((each) => box(each)), state.token, (i) => {
      state.token = i;
      show(i);
    }, show);
    const line = make("div", { class: "c-tokens" });
    const verb = state.back ? "is looked at by" : "looks at";
    lines.replaceChildren(
      make("p", { class: "c-hint" }, "Point at a token, or pick it:"), group,
      make("p", { class: "c-hint" }, `It ${verb}:`), line,
      source.some((token) => token.startsWith("▁"))
        ? make("p", { class: "c-hint" }, MARKS) : "");

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
      const sum = rest.reduce((total, i) => total + weights[i], 0).toFixed(2);
      says.textContent = `${nameOf(state.head)}: ${picked[token].name} ${verb} `
        + named.map((i) => `${coloured[i].name} ${weights[i].toFixed(2)}`).join(", ")
        + (rest.length ? `; the other ${rest.length} together ${sum}.` : ".");
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
