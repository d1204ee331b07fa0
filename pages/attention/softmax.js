/* Scores as large as the width of the head makes them, divided or not; then softmax. */
const MOST_SCORES = 16, LARGEST_SCORE = 1000;

function softmax(scores) {
  const most = Math.max(...scores); /* so that no exponential overflows */
  const parts = scores.map((score) => Math.exp(score - most));
  const total = parts.reduce((a, b) => a + b);
  return parts.map((part) => part / total);
}

function draw(root, { words, scores, widths, d_k }, { make, slider, tick, line }) {
  const state = { scores, width: widths.indexOf(d_k), divided: false, temperature: 1 };
  const table = make("table", { class: "c-bars", "aria-label": "Weights" });
  const says = make("output", { class: "c-says" });
  const wrong = make("p", { class: "c-wrong", role: "alert" });
  const short = (value) => String(Number(value.toPrecision(3)));
  const wordOf = (i) => words[i] ?? `word ${i + 1}`;

  function update() {
    const rootOfWidth = Math.sqrt(widths[state.width]);
    const grown = state.scores.map((score) => score * rootOfWidth);
    const divisor = state.temperature * (state.divided ? rootOfWidth : 1);
    const divided = grown.map((score) => score / divisor);
    const weights = softmax(divided);
    table.replaceChildren(
      make("tr", {}, make("td"), ["score", `÷ ${short(divisor)}`, "weight"].map(
        (name) => make("th", { scope: "col" }, name)), make("td")),
      ...weights.map((weight, i) => make("tr", {},
        make("th", { scope: "row" }, wordOf(i)),
        [short(grown[i]), short(divided[i]), weight.toFixed(3)].map(
          (text) => make("td", {}, text)),
        make("td", {}, make("div", { class: "c-track" },
          make("i", { style: `width: ${100 * weight}%` }))))));
    const most = weights.indexOf(Math.max(...weights));
    /* The largest entry of softmax's Jacobian, w_i (1 - w_i), is the winner's. */
    const slope = weights[most] * (1 - weights[most]);
    says.textContent = `“${wordOf(most)}” gets a weight of `
      + `${weights[most].toFixed(3)}. A small change of a divided score moves its `
      + `weight by at most ${slope.toFixed(4)} times as much (0.25 at best)`
      + (slope < 0.01 ? ": the softmax is saturated." : ".");
  }

  /* A comma within a number may be a decimal sign or a separator: who reads, asks. */
  function typed(text) {
    const parts = text.replaceAll("−", "-").split(/[\s;]+|,(?!\d)/).filter(Boolean);
    const numbers = parts.map(Number);
    const usable = numbers.length > 0 && numbers.length <= MOST_SCORES
      && numbers.every((number) => Math.abs(number) <= LARGEST_SCORE);
    const unclear = parts.find((part) => /^[-+]?[\d.]*,\d/.test(part));
    wrong.textContent = usable ? "" : unclear
      ? `Is ${unclear} one number? Then write a point. If it is more, put a space after `
        + "each comma."
      : `Type up to ${MOST_SCORES} numbers with spaces between them, none beyond `
        + `${LARGEST_SCORE}, such as 2 0.5 −1.`;
    if (usable) { state.scores = numbers; update(); }
  }

  const set = (name) => (value) => { state[name] = value; update(); };
  root.append(
    make("div", { class: "c-row c-inputs" },
      line("Scores at d_k = 1", scores.join("  "), typed),
      make("span", { class: "c-hint" }, "spaces between them; a point, as in 0.5")),
    make("div", { class: "c-row c-inputs" },
      slider("d_k", { min: 0, max: widths.length - 1, step: 1, value: state.width,
        show: (place) => String(widths[place]) }, set("width")),
      tick("divide by √d_k", false, set("divided")),
      slider("Temperature", { min: 0.1, max: 10, step: 0.1, value: 1,
        show: (value) => value.toFixed(1) }, set("temperature"))),
    wrong, table, says);
  update();
}
