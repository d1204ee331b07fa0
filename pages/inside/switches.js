/* The heads as switches: a map for each. Without the heads that are off, the sentence is
   translated again. */
const LEVELS = 2; /* sentences of the game */

const percent = (share) => (share < 0.001 ? "< 0.1 %"
  : `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`);

/* A map as a picture: a path for each shade, from rows of digits. */
function picture(make, rows) {
  const paths = {};
  rows.forEach((row, t) => [...row].forEach((shade, s) => {
    if (shade > 0) paths[shade] = `${paths[shade] ?? ""}M${s} ${t}h1v1h-1z`;
  }));
  const [width, height] = [rows[0].length, rows.length];
  return make("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none",
    "aria-hidden": "true" },
  Object.entries(paths).map(([shade, d]) => make("path", { d, "fill-opacity": shade / 8 })),
  make("line", { x1: 0, y1: height, x2: width, y2: 0 }));
}

function draw(root, data, { make, choice, button, question }) {
  const { sentences, kinds, layers, heads } = data;
  const count = kinds.length * layers * heads;
  const state = { sentence: 0, on: new Array(count).fill(true), at: 0, large: 0, game: null };
  const says = make("output", { class: "c-says" });
  const asks = make("p", { class: "c-asks", "aria-live": "polite" });
  const QUESTION = `${count} heads wrote this translation. Which one can it not do without? `
    + "Guess from the maps, then press one: its head is off, and the rest translates again. A "
    + "second press brings it back.";
  const tell = (...lines) => says.replaceChildren(...lines.map((line) =>
    (line instanceof Element ? line : make("span", {}, line))));
  const heard = (line) => make("span", { class: "c-unseen" }, line); /* what is also drawn */

  const nameOf = (i) => `${kinds[Math.floor(i / heads / layers)]}, layer `
    + `${Math.floor(i / heads) % layers}, head ${i % heads}`;

  /* -- The worker: the newest question wins -- */
  let worker, asked = 0;

  function ask(factors) {
    const { src, target } = sentences[state.sentence];
    const number = ++asked;
    return new Promise((answered) => {
      const isFirst = !worker;
      worker ??= new Worker(URL.createObjectURL(
        new Blob([data.worker], { type: "text/javascript" })));
      worker.onerror = () => tell("This page may not compute beside itself: no Worker.");
      worker.addEventListener("message", function answers({ data: answer }) {
        if (answer.number !== number) return;
        worker.removeEventListener("message", answers);
        if (number === asked) answered(answer); /* else nobody waits any more */
      });
      worker.postMessage({ number, src, target, factors,
        ...(isFirst ? { packed: data.packed } : {}) });
    });
  }

  /* -- The switches -- */
  const switches = state.on.map((_, i) => make("button", { type: "button", role: "switch",
    class: "c-switch", "aria-label": nameOf(i), "data-head": i % heads, tabindex: i ? -1 : 0,
    click: () => clicked(i), pointerenter: () => enlarge(i), focus: () => enlarge(i) }));
  const block = (kind, k) => make("div", {}, make("p", { class: "c-hint" }, kind),
    make("div", { class: "c-layers" }, Array.from({ length: layers }, (_, layer) =>
      make("div", {}, make("small", {}, make("span", {}, `${kind}, `), `layer ${layer}`),
        switches.slice((k * layers + layer) * heads, (k * layers + layer + 1) * heads)))));
  const board = make("div", { class: "c-switches", role: "group",
    "aria-label": "Heads: a switch for each", keydown: moved }, kinds.map(block));

  /* The map of the head that the reader looks at, with its words. */
  const large = make("div", { class: "c-large" }), named = make("p", { class: "c-hint" });

  function enlarge(i) {
    const { maps, words: [source, target] } = sentences[state.sentence];
    const kind = Math.floor(i / heads / layers); /* encoder, decoder, cross-attention */
    const [rows, columns] = [kind ? target : source, kind === 1 ? target : source];
    state.large = i;
    named.textContent = nameOf(i);
    large.style.setProperty("--n", columns.length);
    large.style.setProperty("--most", Math.max(source.length, target.length));
    const cell = (shade) => make("i", { style: `--share: ${shade / 8}` });
    large.replaceChildren(make("span"), ...columns.map((word) => make("b", {}, word)),
      ...rows.flatMap((word, t) => [make("span", {}, word), ...[...maps[i][t]].map(cell)]));
  }

  function drawMaps() {
    sentences[state.sentence].maps.forEach((map, i) =>
      switches[i].replaceChildren(picture(make, map)));
    enlarge(state.large);
  }

  function drawSwitches() {
    switches.forEach((each, i) => {
      each.setAttribute("aria-checked", state.on[i]);
      each.classList.toggle("c-tried", Boolean(state.game?.tried.has(i)));
    });
  }

  function focusOn(i) {
    switches[state.at].tabIndex = -1;
    state.at = i;
    switches[i].tabIndex = 0;
    switches[i].focus({ preventScroll: true });
  }

  function moved(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -heads, ArrowDown: heads }[event.key];
    const to = { Home: 0, End: count - 1 }[event.key] ?? state.at + step;
    if (Number.isNaN(to) || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    if (to >= 0 && to < count) focusOn(to);
  }

  /* -- The translations and the bar -- */
  const before = make("p", { class: "c-german", lang: "de" });
  const after = make("p", { class: "c-german", lang: "de" });
  const number = make("b"), fill = make("i"), whole = make("i", { class: "c-whole" });

  function drawResult({ german, isCut, probability }) {
    const old = sentences[state.sentence];
    const texts = [old.german, german].map((text) => text.split(" ").filter(Boolean));
    const kept = common(...texts);
    [[before, "s"], [after, "mark"]].forEach(([line, tag], side) => {
      line.replaceChildren(...texts[side].flatMap((word, i) =>
        [kept[side].has(i) ? word : make(tag, {}, word), " "]));
    });
    if (isCut) after.append("…");
    if (!german) after.append("(nothing)");
    number.textContent = percent(probability);
    fill.style.width = `${100 * probability}%`;
    whole.style.left = `${100 * old.probability}%`;
  }

  const asItWas = () => {
    const { german, probability } = sentences[state.sentence];
    return { german, probability, isCut: false };
  };

  /* Translate with the heads that are on, and say what has become of it. */
  async function run(because) {
    drawSwitches();
    const old = sentences[state.sentence];
    const answer = await ask(state.on.map(Number));
    drawResult(answer);
    const { german, isCut, probability } = answer;
    const is = german === old.german && !isCut ? "The translation stays the same."
      : heard(`The translation is now: ${german || "nothing"}${isCut ? " … without an end" : ""}.`);
    const all = state.on.every(Boolean) ? []
      : [`All heads together gave it ${percent(old.probability)}.`];
    tell(because, is, heard(`Probability of the first translation: ${percent(probability)}.`),
      ...all);
    return answer;
  }

  function clicked(i) {
    focusOn(i);
    if (state.game) {
      guess(i);
      return;
    }
    state.on[i] = !state.on[i];
    const off = state.on.filter((on) => !on).length;
    const isAnswer = off === 1 && !state.on[sentences[state.sentence].most];
    run(`${nameOf(i)} is ${state.on[i] ? "on" : "off"}${off > 1 ? `; ${off} are off` : ""}.`
      + (isAnswer ? " ✓ No other head costs this sentence more." : ""));
  }

  function reset() {
    asked++; /* what still runs is not wanted */
    state.on.fill(true);
    drawSwitches();
    drawResult(asItWas());
  }

  /* -- The game: one head at a time -- */
  function level(number, tries) {
    state.game = { number, tries, tried: new Set(), isOver: false };
    state.sentence = number;
    pickSentence.querySelector("select").selectedIndex = number;
    drawMaps();
    reset();
    play.textContent = "Leave the game";
    asks.textContent = `Sentence ${number + 1} of ${LEVELS}. Without which head does the `
      + "probability fall furthest? A press switches off one head, and all others on.";
    tell("All heads are on.");
    asks.scrollIntoView({ block: "nearest" }); /* the button is at the foot */
  }

  function leave() {
    state.game = null;
    asks.replaceChildren(...question(1, 1, QUESTION));
    play.textContent = "Start the game";
  }

  async function guess(i) {
    const { game } = state, old = sentences[state.sentence];
    if (game.isOver) return;
    game.tries += !game.tried.has(i);
    game.tried.add(i);
    state.on.fill(true);
    state.on[i] = false;
    const isFound = game.isOver = i === old.most;
    const { german, probability } = await run(`${nameOf(i)} is off.`);
    const [was, now] = [old.probability, probability].map(percent);
    const fell = was === now ? `The probability stays at ${now}`
      : `The probability goes from ${was} to ${now}`;
    if (!isFound) {
      tell(`Not ${nameOf(i)}. ${fell}. Tries: ${game.tries}.`,
        german === old.german ? "The translation stays the same."
          : heard(`It writes: ${german}.`));
      return;
    }
    const isLast = game.number + 1 === LEVELS;
    tell(`Found: ${nameOf(i)}. ${fell}. No other head costs this sentence more.`,
      isLast ? `Two sentences, ${game.tries} tries. ` + (old.most === sentences[0].most
        ? "It is the same head." : "Each sentence needs another head most.")
        : `Tries: ${game.tries}. Is it the same head in the next sentence?`);
    if (isLast) {
      leave();
      drawSwitches();
    } else says.append(button("Next sentence", () => level(game.number + 1, game.tries)));
  }

  const play = button("Start the game", () => {
    if (!state.game) {
      level(0, 0);
      return;
    }
    leave();
    reset();
    tell("All heads are on.");
  });
  const pickSentence = choice("Sentence", sentences.map(({ english }) => english), 0, (i) => {
    leave();
    state.sentence = i;
    drawMaps();
    if (state.on.every(Boolean)) {
      reset();
      tell("Another sentence, with all heads on.");
    } else run("Another sentence, without the same heads.");
  });

  root.append(
    asks,
    make("div", { class: "c-row c-inputs" }, pickSentence,
      button("All on", () => {
        leave();
        reset();
        tell("All heads are on.");
      })),
    make("div", { class: "c-beside" }, make("div", {},
      make("div", { class: "c-two" }, make("span", { class: "c-hint" }, "All heads"), before,
        make("span", { class: "c-hint" }, "Now"), after),
      make("div", { class: "c-left" }, make("span", {}, "Probability of the first: ", number),
        make("span", { class: "c-track", "aria-hidden": "true" }, fill, whole))), says),
    board, make("div", { "aria-hidden": "true" }, named, large),
    make("div", { class: "c-row c-inputs" }, play));
  leave();
  drawMaps();
  reset();
  tell("All heads are on. The mark on the bar stays where all heads put it.");
}
