/* Two decoders write the same sentence and compute one position at a time each. A row of
   cells is a step; the decoder with the cache has fewer cells to compute. */
const LASTS = 6000; /* milliseconds from start to finish while it plays */
const LANES = ["Without the cache", "With the cache"];

/* The cells in the order in which a lane computes them, as [step, position]. */
function cellsOf(computed) {
  return computed.flatMap((count, step) => Array.from({ length: count },
    (_, i) => [step, step + 1 - count + i]));
}

/* Steps that are complete when a lane has computed a number of positions. */
function written(computed, done) {
  let sum = 0;
  return computed.filter((count) => (sum += count) <= done).length;
}

function draw(root, { races }, { make, button, question, pick, slider, line }) {
  const asked = races.length - 1, size = races[asked].writes.length;
  const state = { race: asked, at: 0, timer: null, guess: "", begun: false };
  const says = make("p", { class: "c-says" });
  const status = make("p", { class: "c-unseen", role: "status" });
  const lanes = make("div", { class: "c-race" });
  let drawn; /* of the chosen sentence: its lanes, and what they hold */

  function drawLane(name, computed, { reads, writes }) {
    const order = cellsOf(computed), first = new Set(), n = writes.length;
    const cells = new Map();
    const place = (step, position) => `--row: ${step + 1}; --column: ${position + 1}`;
    const board = make("div", { class: "c-race-cells", role: "img",
      style: `--n: ${n}` }, reads.map((word, step) => make("span", {
      style: `grid-area: ${step + 1} / 1` }, word)));
    reads.forEach((_, step) => reads.slice(0, step + 1).forEach((_, position) => {
      const cell = make("i", { style: place(step, position) });
      cells.set(`${step} ${position}`, { cell, step });
      board.append(cell);
    }));
    order.forEach(([step, position], i) => {
      const kind = first.has(position) ? "c-again" : "c-first";
      first.add(position);
      Object.assign(cells.get(`${step} ${position}`), { at: i, kind });
    });
    const counter = make("b"), text = make("p", { class: "c-race-text", lang: "de" });
    const lane = make("div", {}, make("p", { class: "c-hint" }, name), board,
      make("p", { class: "c-race-count" }, counter, " positions"), text);

    function update(at) {
      const done = Math.min(at, order.length), steps = written(computed, done);
      const begun = done ? order[done - 1][0] : -1;
      for (const { cell, step, at: when, kind } of cells.values()) {
        const now = when === at - 1 ? " c-now" : "";
        const looks = when === undefined ? (step <= begun ? "c-kept" : "")
          : when < done ? kind + now : "";
        if (cell.className !== looks) cell.className = looks;
      }
      counter.textContent = done;
      const tokens = writes.slice(0, steps);
      text.textContent = tokens.join(" ").replace(/ ,/g, ",") || "…";
      board.setAttribute("aria-label", `${name}: ${done} positions computed, `
        + `${steps} of ${n} tokens written`);
      return steps;
    }
    return { lane, update, total: order.length };
  }

  /* -- What stands where the race has come to, in words -- */
  function verdict(guess) {
    const n = races[state.race].writes.length, [all, cached] = drawn.totals;
    const said = Number(guess);
    return (said === all ? "✓ " : `You guessed ${guess}. `)
      + (said === cached ? "That is with the cache. "
        : said === n * n ? `But step 1 has one position, and only step ${n} has ${n}. ` : "")
      + `Each step computes all earlier ones again: 1 + 2 + ... + ${n} = ${all}.`;
  }

  function told([without, cached]) {
    const { at } = state, n = races[state.race].writes.length;
    const [all, few] = drawn.totals;
    if (at === 0) {
      return "Each decoder computes one position at a time. A row of cells is a step, "
        + "which writes one token.";
    }
    if (at >= all) {
      return state.race === asked
        ? `${verdict(state.guess)} With the cache it is ${few}, so the cache saves ${all - few}.`
        : `Both have written ${n} tokens: ${all} positions without the cache, ${few} with it. `
          + `The cache saves ${all - few}.`;
    }
    return at >= few
      ? `With the cache, all ${n} tokens are written after ${few} positions. Without it, `
        + `${without} are written after ${at}.`
      : `After ${at} position${at > 1 ? "s" : ""} each: ${without} of ${n} tokens `
        + `without the cache, ${cached} with it.`;
  }

  function go(at, announce = true) {
    const last = state.begun ? Math.max(...drawn.totals) : 0; /* the answer is not given away */
    state.at = Math.min(Math.max(at, 0), last);
    if (state.begun && state.at === last) other.hidden = false;
    says.textContent = told(drawn.lanes.map((lane) => lane.update(state.at)));
    if (announce) status.textContent = says.textContent;
    const input = scrubber.querySelector("input");
    input.max = last;
    input.value = state.at;
    const output = scrubber.querySelector("output");
    output.textContent = state.at; /* not of how many: that is the question */
    input.setAttribute("aria-valuetext", state.at);
    back.setAttribute("aria-disabled", state.at === 0);
    next.setAttribute("aria-disabled", state.at === last);
  }

  function choose(race) {
    stop();
    state.race = race;
    const { computed, english } = races[race];
    const made = LANES.map((name, i) => drawLane(name, computed[i], races[race]));
    drawn = { lanes: made, totals: made.map(({ total }) => total) };
    lanes.replaceChildren(make("p", { class: "c-race-source" }, `Source: ${english}`),
      ...made.map(({ lane }) => lane));
    go(0);
  }

  function stop() {
    clearInterval(state.timer);
    state.timer = null;
    play.textContent = "Play";
  }

  function start() {
    const [all, few] = drawn.totals;
    go(state.at >= all ? 0 : state.at, false);
    status.textContent = "The race runs.";
    play.textContent = "Pause";
    state.timer = setInterval(() => {
      const at = state.at + 1;
      if (at >= all) stop();
      go(at, at === few || at >= all);
    }, Math.min(LASTS / all, 250));
  }

  function walk(steps) {
    stop();
    go(state.at + steps);
  }

  const back = button("Back", () => walk(-1));
  const next = button("Next", () => walk(1));
  const play = button("Play", () => {
    if (!state.timer) return start();
    stop();
    go(state.at);
  });
  const scrubber = slider("Position", { min: 0, max: 1, step: 1, value: 0 },
    (at) => { stop(); go(at, false); });
  scrubber.querySelector("output").setAttribute("aria-hidden", true); /* not per pixel */
  scrubber.addEventListener("change", () => go(state.at));
  const sentences = pick("Sentence", races.map(({ writes }) =>
    make("span", {}, `${writes.length} tokens`)), asked, choose);
  const other = make("div", { class: "c-row c-inputs", hidden: true }, "Another sentence",
    sentences);
  const steps = make("div", { class: "c-row c-inputs c-race-steps", hidden: true },
    play, back, next, scrubber);

  /* The one way to start: a guess, then Play. */
  function begin() {
    const text = state.guess.trim();
    if (!/^\d+$/.test(text)) {
      status.textContent = says.textContent = "First write your guess, as one whole number.";
      input.focus();
      return;
    }
    Object.assign(state, { guess: text, begun: true });
    asking.hidden = true;
    steps.hidden = false;
    play.focus();
    start();
  }
  const guess = line("Your guess", "", (text) => { state.guess = text; });
  const first = button("Play", begin);
  first.classList.add("c-first");
  const asking = make("div", { class: "c-row c-inputs c-guess" }, guess, first);
  const input = guess.querySelector("input");
  input.setAttribute("inputmode", "numeric");
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault(); /* or it would press the button that gets the focus */
    begin();
  });

  root.addEventListener("keydown", (event) => {
    const count = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!count || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.target.tagName === "INPUT") return; /* it has its own use for them */
    event.preventDefault();
    if (state.begun) walk(count);
  });

  const legend = [["first", "computed"], ["again", "computed again"],
    ["kept", "kept, and read"]].map(([kind, text]) =>
    make("span", {}, make("i", { class: `c-${kind}` }), text));
  root.append(
    make("p", { class: "c-asks" }, question(1, 1, "Two decoders write the same sentence. How "
      + `many positions does the one without the cache compute for ${size} tokens? Guess, `
      + "then press Play.")),
    asking, steps, lanes, make("p", { class: "c-legend" }, legend), says, other, status);
  choose(asked);
  status.textContent = ""; /* nothing has happened yet */
}
