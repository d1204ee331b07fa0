/* The book's translator: weights loaded when asked for, everything computed here. */
const FILE = "_static/made/translator.js";
const SEARCHES = [["greedy search", 1], ["a beam of 5", 5]];
const MOST = 120; /* tokens of a sentence: more would stop the page for seconds */

/* Where the file may lie: above the pages, or among the files that Jupyter serves. */
function places() {
  const jupyter = document.getElementById("jupyter-config-data");
  const base = jupyter && JSON.parse(jupyter.textContent).baseUrl;
  const folders = jupyter ? [`${base}files/`, `${base}files/book/`]
    : [document.documentElement.dataset.content_root ?? "../"];
  return folders.map((folder) => new URL(folder + FILE, document.baseURI).href);
}

/* A script, since a page that was opened as a file may load nothing else. */
function loadScript(address, make) {
  return new Promise((loaded) => {
    const script = make("script", { src: address, error: () => loaded(),
      load: () => loaded(script.translator) });
    document.head.append(script);
  });
}

async function loadTranslator(make) {
  for (const address of places()) {
    const packed = await loadScript(address, make);
    if (packed) return new Translator(packed);
  }
  throw new Error(`The weights are not here: ${places().join(" and ")} cannot be read. `
    + "The file is made with the book, by “make book”, or in its folder by “python -m "
    + `transformer_lib.javascript models/multi30k-en-de book/${FILE}”.`);
}

/* The translation, the probability of each of its tokens, and the weights of the
   cross-attention: layers, then heads, then German tokens, then English ones. */
function translate(translator, src, [search, beam]) {
  const { model, tokenizer } = translator;
  const began = performance.now();
  const tokens = translator.decode(src, beam);
  const took = `${Math.round(performance.now() - began)} ms`;
  const isCut = tokens.length === lengthLimit(model, src);
  const target = isCut ? tokens : [...tokens, tokenizer.eosId];
  const probabilities = [];
  const maps = recordAttention(model, () => {
    const logits = model.forward(src, [tokenizer.bosId, ...target.slice(0, -1)]);
    logits.forEach((next, t) => {
      next[model.config.pad_id] = -Infinity; /* never written */
      probabilities.push(Math.exp(next[target[t]] - logSumExp(next)));
    });
  });
  /* Tokens of one byte are what is left where training has joined nothing. */
  const bytes = src.slice(0, -1).filter((id) => id < SPECIAL_TOKENS.length + 256);
  return {
    text: tokenizer.clean(tokenizer.decode(tokens)), probabilities,
    source: tokenizer.pieces(src), target: tokenizer.pieces(target),
    cross: model.decoder.layers.map((_, i) =>
      maps[`decoder.layers.${i}.cross_attention`]),
    how: `By ${search}: ${target.length} tokens in ${took}${isCut ? ", cut off" : ""}.`,
    warning: bytes.length > (src.length - 1) / 2 ? "Most of this is cut into single "
      + "bytes, of which the model has seen few: expect nonsense." : "",
  };
}

/* The mean of maps of one shape. */
function mean(maps) {
  return maps[0].map((row, t) => row.map((_, s) =>
    maps.reduce((sum, map) => sum + map[t][s], 0) / maps.length));
}

function draw(root, { examples }, kit) {
  const { make, choice, line, button, pick, grid, paint, weightColour } = kit;
  const state = { sentence: examples[0], search: 1, layer: 0, head: 0, token: 0 };
  let translator, shown, isBusy = false;
  const says = make("output", { class: "c-says" });
  const result = make("div"), more = make("div");
  const typed = line("English", examples[0], (text) => {
    state.sentence = text;
    if (shown) says.textContent = "Above is the last sentence. Press Enter for this one.";
  });

  async function run() {
    if (isBusy) return;
    isBusy = true;
    try {
      await work();
    } catch (error) {
      shown = undefined;
      result.replaceChildren();
      more.replaceChildren();
      says.textContent = error.message;
    }
    isBusy = false;
  }

  async function work() {
    if (!translator) {
      says.replaceChildren("Loading the weights, some 3 MB … ",
        make("progress", { "aria-label": "Loading" }));
      translator = await loadTranslator(make);
    }
    const src = translator.encode(state.sentence);
    if (src.length === 1) {
      throw new Error("There is nothing to translate yet: type an English sentence.");
    }
    if (src.length > MOST) {
      throw new Error(`That is ${src.length} tokens, and this page stops at ${MOST}. `
        + "The model has learned from single sentences: cut the text into some.");
    }
    says.textContent = "Translating …";
    await new Promise((seen) => setTimeout(seen, 20));
    shown = translate(translator, src, SEARCHES[state.search]);
    state.token = 0;
    drawResult();
  }

  function box(piece, number) {
    return make("span", { class: "c-token" }, make("bdi", {}, piece),
      make("small", {}, number));
  }

  function drawResult() {
    const { source, target, probabilities, cross } = shown;
    const percents = probabilities.map((share) =>
      `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`);
    const boxes = target.map((piece, t) => box(piece, percents[t]));
    const tokens = pick("German token", boxes, state.token, (t) => {
      state.token = t;
      look(t);
    }, look);
    const seen = make("div", { class: "c-tokens" });
    const table = make("details", {}, make("summary", {}, "All tokens as a table"));
    let weights;

    function drawWeights() {
      const layers = state.layer ? [cross[state.layer - 1]] : cross;
      weights = mean(layers.flatMap((heads) =>
        state.head ? [heads[state.head - 1]] : heads));
      const look = { show: (weight) => weight.toFixed(2), colour: weightColour };
      table.replaceChildren(table.firstChild,
        grid("Rows are written, columns looked at", target, source, weights, look));
    }

    function look(t) {
      const numbers = weights[t].map((weight) => weight.toFixed(2));
      seen.replaceChildren(...source.map((piece, s) =>
        paint(box(piece, numbers[s]), weightColour(weights[t][s]))));
      const most = topk(weights[t], 2).map((s) => `${source[s]} (${numbers[s]})`);
      const words = `Token ${t + 1}, ${target[t]}, had a probability of ${percents[t]}. `
        + `To write it, the model looked most at ${most.join(", then ")}.`;
      says.replaceChildren(...[shown.how, words, shown.warning].map((sentence) =>
        make("span", {}, sentence)));
    }

    function part(label, name, count) {
      const names = Array.from({ length: count }, (_, i) => `${name} ${i}`);
      const choices = [`the mean of all ${count}`, ...names];
      return choice(label, choices, state[name], (i) => {
        state[name] = i;
        drawWeights();
        look(state.token);
      });
    }

    result.replaceChildren(
      make("p", { class: "c-german", lang: "de" },
        make("bdi", {}, shown.text || "(nothing)")),
      make("p", { class: "c-hint" }, "Token by token, each with its probability:"),
      tokens,
      make("p", { class: "c-hint" }, "What it looked at to write that token:"), seen);
    more.replaceChildren(make("div", { class: "c-row c-inputs" },
      part("Layer", "layer", cross.length), part("Head", "head", cross[0].length)), table);
    drawWeights();
    look(state.token);
  }

  const input = typed.querySelector("input");
  input.addEventListener("keydown", ({ key, isComposing }) => {
    if (key === "Enter" && !isComposing) run(); /* Jupyter lets no form be submitted */
  });
  root.append(
    make("div", { class: "c-row c-inputs" }, typed, button("Translate", run),
      choice("Search", SEARCHES.map(([name]) => name), state.search, (i) => {
        state.search = i;
        if (shown) run();
      })),
    make("div", { class: "c-row c-inputs" }, "Or try:",
      examples.map((text) => button(text, () => {
        input.value = state.sentence = text;
        run();
      }))),
    result, says, more);
  says.textContent = "Nothing is loaded yet. The first translation fetches the "
    + "weights, some 3 MB; after that the page needs no network.";
}
