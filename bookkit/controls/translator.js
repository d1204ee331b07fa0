/* The book's translator: weights loaded when asked for, everything computed here. */
const SEARCHES = [["greedy search", 1], ["a beam of 5", 5]];
const MOST = 120; /* tokens of a sentence: more would take many seconds */
const OTHERS = 2; /* hypotheses that are shown beside the best, at most */
const PATIENCE = 300; /* milliseconds, before there is something to stop */
const SEEN = 0.05; /* a smaller weight gets no line */
const UNSURE = 1 / 3; /* of 1,014 captions that it had not seen, 22 are below */

/* The model, in a thread of its own. It answers one sentence at a time, and is thrown
   away where its answer is no longer wanted. */
class Background {
  constructor(code, packed) {
    const address = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
    this.worker = new Worker(address);
    this.packed = packed; /* sent with the first sentence */
  }

  ask(question, onText) {
    return new Promise((answered, failed) => {
      this.worker.onerror = () =>
        failed(new Error("This page may not compute beside itself: no Worker."));
      this.worker.onmessage = ({ data }) =>
        ("text" in data ? onText(data.text) : answered(data));
      this.worker.postMessage({ ...question, packed: this.packed });
      this.packed = undefined;
    });
  }
}

/* A text in capitals as the model has learned words: small. */
function lowered(text) {
  const inCapitals = /\p{Lu}.*\p{Lu}/su.test(text) && !/\p{Ll}/u.test(text);
  return inCapitals ? text.trim()[0] + text.trim().slice(1).toLowerCase() : text;
}

const scored = (score) => score.toFixed(2).replace("-", "−");

/* The mean of maps of one shape. */
function mean(maps) {
  return maps[0].map((row, t) => row.map((_, s) =>
    maps.reduce((sum, map) => sum + map[t][s], 0) / maps.length));
}

/* What makes the translation doubtful, in words. */
function warningOf({ isBytes, probabilities }, isLowered) {
  const logs = probabilities.reduce((sum, share) => sum + Math.log(share), 0);
  const share = Math.exp(logs / probabilities.length);
  const warnings = [isLowered && "Read in small letters, since the model knows hardly "
    + "a word in capitals.",
  isBytes ? "Most of this is cut into single bytes, of which the model has seen few: "
    + "expect nonsense." : share < UNSURE && "The model is unsure: its tokens have a "
    + `probability of ${Math.round(100 * share)} % on average. Expect nonsense.`];
  return warnings.filter(Boolean).join(" ");
}

/* The German token whose look is clearest; words, if there are some. */
function clearest(target, weights) {
  const most = weights.map((row, t) => Math.max(...row) + target[t].startsWith("▁"));
  return most.indexOf(Math.max(...most));
}

function draw(root, { examples, worker, megabytes, first }, kit) {
  const { make, choice, line, button, pick, grid, paint, weightColour } = kit;
  const state = { sentence: examples[0], search: 1, layer: 0, head: 0, token: 0 };
  let loading, background, shown, waiting, job; /* a job is what runs, one at a time */
  const says = make("output", { class: "c-says" });
  const result = make("div"), others = make("div", { class: "c-others" });
  const looking = make("div", { class: "c-row c-inputs" }), table = make("div");
  const answers = make("div", { class: "c-translation" }, result, says, others);
  const typed = line("English", examples[0], (text) => {
    state.sentence = text;
    if (shown) says.textContent = "Above is the last sentence. Press Enter for this one.";
  });
  const stop = button("Stop", () => {
    if (!job) return;
    halt();
    says.textContent = "Stopped.";
  });

  function rest() {
    job = undefined;
    if (document.activeElement === stop) translateButton.focus();
    clearTimeout(waiting);
    stop.hidden = true;
  }

  function halt() {
    if (job) {
      background?.worker.terminate();
      background = undefined;
    }
    rest();
  }

  function clear() {
    shown = undefined;
    for (const part of [result, others, looking, table]) part.replaceChildren();
  }

  const german = (text) => make("p", { class: "c-german", lang: "de" },
    make("bdi", {}, text || "(nothing)"));

  /* The newest request wins: what still runs for another is thrown away. */
  async function run() {
    halt();
    const mine = job = {};
    const [name, beam] = SEARCHES[state.search];
    const sentence = lowered(state.sentence);
    const isLowered = sentence !== state.sentence;
    waiting = setTimeout(() => { stop.hidden = false; }, PATIENCE);
    answers.style.minHeight = `${answers.offsetHeight}px`; /* so that the page stays */
    clear();
    let answer;
    try {
      says.replaceChildren(`Loading the weights, ${megabytes} MB … `,
        make("progress", { "aria-label": "Loading" }));
      const packed = await (loading ??= loadWeights());
      if (job !== mine) return;
      says.textContent = "Translating …";
      background ??= new Background(worker, packed);
      answer = await background.ask({ sentence, beam, most: MOST },
        (text) => job === mine && result.replaceChildren(german(text)));
    } catch (error) {
      answer = { error };
    }
    if (job !== mine) return;
    rest();
    if (answer.error) loading = background = undefined; /* the next one tries again */
    const { error, refused, result: found } = answer;
    if (found) {
      shown = { ...found, how: `By ${name}: ${found.target.length} tokens in `
        + `${found.took} ms${found.isCut ? ", cut off" : ""}.`,
      warning: warningOf(found, isLowered) };
      drawResult();
      return;
    }
    clear();
    says.textContent = error ? error.message : refused === 1
      ? "There is nothing to translate yet: type an English sentence."
      : `That is ${refused} tokens, and this page stops at ${MOST}. The model has `
        + "learned from single sentences: cut the text into some.";
  }

  function box(piece, number) {
    return make("span", { class: "c-token" }, make("bdi", {}, piece),
      make("small", {}, number));
  }

  function drawResult() {
    const { found, source, target, probabilities, cross } = shown;
    const percents = probabilities.map((share) =>
      `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`);
    const boxes = target.map((piece, t) => box(piece, percents[t]));
    const seen = make("div", { class: "c-tokens" });
    const lines = make("svg", { "aria-hidden": "true" });
    const all = make("details", {}, make("summary", {}, "All tokens as a table"));
    let looked, weights; /* the token with the lines, and what all tokens looked at */

    function weigh() {
      const layers = state.layer ? [cross[state.layer - 1]] : cross;
      weights = mean(layers.flatMap((heads) =>
        state.head ? [heads[state.head - 1]] : heads));
      const look = { show: (weight) => weight.toFixed(2), colour: weightColour };
      all.replaceChildren(all.firstChild,
        grid("Rows are written, columns looked at", target, source, weights, look));
    }

    weigh();
    state.token = clearest(target, weights);
    const tokens = pick("German token", boxes, state.token, (t) => {
      state.token = t;
      look(t);
    }, look);
    const rows = make("div", { class: "c-looks" }, lines, tokens, seen);

    /* From a German token to each English one that it looked at, the thicker the more.
       Tokens in several rows would be in the way: then the colours say it alone. */
    function drawLines() {
      const isOneRow = (parts) => parts[0].getBoundingClientRect().top
        === parts.at(-1).getBoundingClientRect().top;
      const isWide = isOneRow(boxes) && isOneRow([...seen.children]);
      rows.classList.toggle("c-wrapped", !isWide);
      const frame = rows.getBoundingClientRect();
      const middle = (box) => box.left + box.width / 2 - frame.left;
      const from = boxes[looked].getBoundingClientRect();
      const [x, top] = [middle(from), from.bottom - frame.top];
      const most = Math.max(...weights[looked]);
      lines.replaceChildren(...(isWide ? weights[looked] : []).flatMap((weight, s) => {
        if (weight < Math.min(SEEN, most)) return [];
        const to = seen.children[s].getBoundingClientRect(), end = to.top - frame.top;
        const half = (top + end) / 2;
        return make("path", { "stroke-width": 1 + 5 * weight,
          d: `M${x} ${top}C${x} ${half} ${middle(to)} ${half} ${middle(to)} ${end}` });
      }));
    }

    function look(t) {
      looked = t;
      const numbers = weights[t].map((weight) => weight.toFixed(2));
      seen.replaceChildren(...source.map((piece, s) =>
        paint(box(piece, numbers[s]), weightColour(weights[t][s]))));
      drawLines();
      const most = weights[t].map((_, s) => s).sort((a, b) => weights[t][b] - weights[t][a])
        .slice(0, 2).map((s) => `${source[s]} (${numbers[s]})`);
      const words = `Token ${t + 1}, ${target[t]}, had a probability of ${percents[t]}. `
        + `To write it, the model looked most at ${most.join(", then ")}.`;
      says.replaceChildren(...[words, shown.warning, shown.how].filter(Boolean).map((sentence) =>
        make("span", {}, sentence)));
    }

    function part(label, name, count) {
      const names = Array.from({ length: count }, (_, i) => `${name} ${i}`);
      const choices = [`the mean of all ${count}`, ...names];
      return choice(label, choices, state[name], (i) => {
        state[name] = i;
        weigh();
        look(state.token);
      });
    }

    const next = found.slice(1).filter(({ text }) => text !== found[0].text)
      .slice(0, OTHERS);
    result.replaceChildren(german(found[0].text),
      make("p", { class: "c-hint" }, "Pick a German token: the stronger the colour of "
        + "an English one, the more the model looked at it. The percentages are probabilities."),
      rows, make("p", { class: "c-hint" }, MARKS));
    others.replaceChildren(...(next.length ? [make("p", { class: "c-hint" },
      `The score of the translation is ${scored(found[0].score)}. The next best:`),
    make("ul", {}, next.map(({ text, score }) => make("li", {}, make("bdi", { lang: "de" },
      text || "(nothing)"), ` ${scored(score)}`)))] : []));
    looking.replaceChildren(part("Layer", "layer", cross.length),
      part("Head", "head", cross[0].length));
    table.replaceChildren(all);
    look(state.token);
    new ResizeObserver(drawLines).observe(rows);
  }

  const translateButton = button("Translate", run);
  const input = typed.querySelector("input");
  input.addEventListener("keydown", ({ key, isComposing }) => {
    if (key === "Enter" && !isComposing) run(); /* Jupyter lets no form be submitted */
  });
  translateButton.classList.add("c-first");
  root.append(
    make("div", { class: "c-row c-inputs c-asked" }, typed, translateButton, stop),
    make("div", { class: "c-inputs c-tries" }, examples.map((text) => button(text, () => {
      input.value = state.sentence = text;
      run();
    }))),
    answers,
    make("div", { class: "c-further" },
      make("p", { class: "c-hint" }, "The model has learned from 29,000 captions of "
        + "photographs and knows no other English: news, letters and small talk come out "
        + "as nonsense."),
      make("div", { class: "c-row c-inputs" },
        choice("Search", SEARCHES.map(([name]) => name), state.search, (i) => {
          state.search = i;
          if (shown || job) run();
        }), looking), table));
  window.addEventListener("resize", () => { answers.style.minHeight = ""; });
  const how = "Nothing is loaded yet. The first translation fetches the "
    + `weights, ${megabytes} MB; after that the page needs no network.`;
  says.textContent = how;
  if (first) {
    shown = { ...first, how: `This translation is recorded. ${how}`, warning: "" };
    drawResult();
  }
  rest();
}
