/* Scores, divided by a temperature and, if asked, by the root of d_k; then softmax. */
function softmax(scores) {
  const most = Math.max(...scores); /* so that no exponential overflows */
  const parts = scores.map((score) => Math.exp(score - most));
  const total = parts.reduce((a, b) => a + b);
  return parts.map((part) => part / total);
}

function draw(root, { words, scores, d_k }, { make, slider, tick, line, weightColour, paint }) {
  const state = { scores, temperature: 1, width: d_k, divided: false };
  const bars = make("div", { class: "c-bars" });
  const says = make("output", { class: "c-says" });
  const wrong = make("p", { class: "c-wrong", role: "alert" });

  function update() {
    const divisor = state.temperature * (state.divided ? Math.sqrt(state.width) : 1);
    const weights = softmax(state.scores.map((score) => score / divisor));
    bars.replaceChildren(...weights.map((weight, i) => make("div", { class: "c-bar" },
      make("b", {}, words[i] ?? `word ${i + 1}`),
      make("span", { class: "c-track" }, paint(
        make("i", { style: `width: ${100 * weight}%` }), weightColour(0.35 + 0.5 * weight))),
      make("span", {}, weight.toFixed(3)))));
    const most = weights.indexOf(Math.max(...weights));
    /* What reaches the winning score through softmax: w (1 - w). */
    const slope = weights[most] * (1 - weights[most]) / divisor;
    says.textContent = `Scores divided by ${divisor.toFixed(2)}. The highest weight is `
      + `${weights[most].toFixed(3)}, and moving its score by a little moves it by `
      + `${slope.toFixed(3)} as much.`;
  }

  function typed(text) {
    const numbers = text.trim().split(/[\s,]+/).map(Number);
    const usable = text.trim() !== "" && numbers.every(Number.isFinite);
    wrong.textContent = usable ? "" : "Type numbers with spaces between them, such as 2 1 0.";
    if (usable) { state.scores = numbers; update(); }
  }

  const set = (name) => (value) => { state[name] = value; update(); };
  root.append(
    make("div", { class: "c-row c-inputs" }, line("Scores", scores.join("  "), typed)),
    make("div", { class: "c-row c-inputs" },
      slider("Temperature", { min: 0.1, max: 4, step: 0.1, value: 1,
        show: (value) => value.toFixed(1) }, set("temperature")),
      tick("divide by √d_k", false, set("divided")),
      slider("d_k", { min: 1, max: 128, step: 1, value: d_k }, set("width"))),
    wrong, bars, says);
  update();
}
