/* The sinusoidal table, one pair of its features, and the dot product of two rows. */
const LONGEST_TIMESCALE = 10000;
const APART = 0.2; /* radians between two names on the circle, at least */
const LAYOUTS = ["interleaved", "concatenated"];

/* How many positions each pair takes for one radian. */
function timescalesOf(layout, d_model) {
  const n = d_model / 2;
  const steps = layout === "interleaved" ? n : Math.max(n - 1, 1);
  return Array.from({ length: n }, (_, i) => LONGEST_TIMESCALE ** (i / steps));
}

/* The row of position t. */
function encode(t, layout, d_model) {
  const timescales = timescalesOf(layout, d_model);
  const sines = timescales.map((timescale) => Math.sin(t / timescale));
  const cosines = timescales.map((timescale) => Math.cos(t / timescale));
  return layout === "interleaved"
    ? sines.flatMap((sine, i) => [sine, cosines[i]]) : [...sines, ...cosines];
}

const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
const upTo = (n) => Array.from({ length: n }, (_, i) => i);

function draw(root, { d_model, max_len, t, s },
  { make, choice, slider, signedColour }) {
  const n = d_model / 2, half = Math.floor(max_len / 2);
  const state = { layout: 0, pair: Math.min(4, n - 1), t, s, k: 0 };
  const says = make("output", { class: "c-says" });
  const numbers = make("tbody");
  const head = make("thead", {}, make("tr", {},
    ["feature", "row of t", "row of s", "product"].map((name) =>
      make("th", { scope: "col" }, name))));

  /* Pictures are stretched to their box, strokes are not: a dot is a stroke without
     length. */
  const curve = (kind, points) => make("path", { class: kind, d: points.map(
    ([x, y], i) => `${i ? "L" : "M"}${x} ${-y}`).join("") });
  const mark = (kind, x, y) => make("path", { class: `${kind} c-dot`,
    d: `M${x} ${-y}h0` });
  const picture = (viewBox, preserveAspectRatio = "none") =>
    make("svg", { role: "img", viewBox, preserveAspectRatio });

  const canvas = make("canvas", { role: "img", width: d_model, height: max_len });
  const marks = make("div");
  const table = make("div", { class: "c-table" }, canvas, marks);
  const wave = picture(`0 -1.2 ${max_len - 1} 2.4`);
  const clock = picture("-1.3 -1.3 2.6 2.6", "xMidYMid meet");
  const dots = picture(); /* its height depends on the layout */

  function paintTable(layout) {
    const pixels = new ImageData(d_model, max_len);
    upTo(max_len).flatMap((position) => encode(position, layout, d_model)).forEach(
      (value, i) => pixels.data.set([...signedColour(value, 1), 255], 4 * i));
    canvas.getContext("2d").putImageData(pixels, 0, 0);
    canvas.setAttribute("aria-label", `The table, ${layout}: ${max_len} positions, `
      + `${d_model} features`);
  }

  function update() {
    const layout = LAYOUTS[state.layout], { pair } = state;
    const timescale = timescalesOf(layout, d_model)[pair];
    const wavelength = 2 * Math.PI * timescale;
    const columns = layout === "interleaved"
      ? [2 * pair, 2 * pair + 1] : [pair, n + pair];
    const [first, second] = [state.t + state.k, state.s + state.k];
    const rows = [first, second].map((position) => encode(position, layout, d_model));
    const likeness = upTo(max_len).map((distance) => timescalesOf(layout, d_model)
      .reduce((sum, each) => sum + Math.cos(distance / each), 0));
    const distance = Math.abs(first - second);

    paintTable(layout);
    marks.replaceChildren(
      ...columns.map((column) => make("i", { style: `left: ${100 * column / d_model}%; `
        + `width: ${100 / d_model}%; top: 0; height: 100%` })),
      ...[["t", first, "left"], ["s", second, "right"]].map(([name, position, side]) =>
        make("i", { style: `top: ${100 * position / max_len}%; left: 0; width: 100%; `
          + `height: ${100 / max_len}%` }, make("b", { class: `c-${side}` }, name))));

    const quarters = upTo(4 * max_len - 3).map((i) => i / 4);
    wave.replaceChildren(
      curve("c-zero", [[0, 0], [max_len - 1, 0]]),
      curve("c-sine", quarters.map((x) => [x, Math.sin(x / timescale)])),
      curve("c-cosine", quarters.map((x) => [x, Math.cos(x / timescale)])),
      curve("c-length", [[0, -1.1], [Math.min(wavelength, max_len - 1), -1.1]]),
      mark("c-t", first, Math.sin(first / timescale)),
      mark("c-s", second, Math.sin(second / timescale)));
    wave.setAttribute("aria-label", `Sine and cosine of pair ${pair} over ${max_len} `
      + "positions");

    /* Where the hands are close, their names keep apart. */
    const angles = [first / timescale, second / timescale];
    const turn = Math.atan2(Math.sin(angles[1] - angles[0]),
      Math.cos(angles[1] - angles[0])); /* from t to s, the short way */
    const apart = Math.max(0, APART - Math.abs(turn)) / 2 * (turn < 0 ? -1 : 1);
    const hand = (name, angle, moved) => [
      curve(`c-${name}`, [[0, 0], [Math.cos(angle), Math.sin(angle)]]),
      make("text", { x: 1.15 * Math.cos(angle + moved),
        y: -1.15 * Math.sin(angle + moved) }, name)];
    clock.replaceChildren(make("circle", { r: 1 }), ...hand("t", angles[0], -apart),
      ...hand("s", angles[1], apart));
    clock.setAttribute("aria-label", `Pair ${pair} as two hands on a circle`);

    const lowest = Math.min(0, ...likeness) - 0.05 * n;
    dots.setAttribute("viewBox", `0 ${-1.05 * n} ${max_len - 1} ${1.05 * n - lowest}`);
    dots.replaceChildren(
      curve("c-zero", [[0, 0], [max_len - 1, 0]]),
      curve("c-sine", likeness.map((value, x) => [x, value])),
      mark("c-here", distance, dot(...rows)));
    dots.setAttribute("aria-label", "The dot product against the distance");

    numbers.replaceChildren(...rows[0].map((value, i) => make("tr", {},
      make("th", { scope: "row" }, String(i)),
      [value, rows[1][i], value * rows[1][i]].map((number) =>
        make("td", {}, number.toFixed(7))))));
    says.replaceChildren(
      make("span", {}, `Pair ${pair}, features ${columns.join(" and ")}: timescale `
        + `${timescale.toFixed(2)}, wavelength ${wavelength.toFixed(1)} `
        + "positions."),
      make("span", {}, `Rows ${first} and ${second}: dot product `
        + `${dot(...rows).toFixed(3)}. By the distance ${distance} alone: `
        + `${likeness[distance].toFixed(3)}.`));
  }

  const set = (name) => (value) => { state[name] = value; update(); };
  const place = (name, label, max) => slider(label,
    { min: 0, max, step: 1, value: state[name] }, set(name));
  const places = { t: place("t", "Position t", half - 1),
    s: place("s", "Position s", half - 1) };

  /* A mouse drags the nearer row of the table; a finger there scrolls the page. */
  let dragged;
  function drag(event) {
    const row = Math.floor(event.offsetY / canvas.offsetHeight * max_len) - state.k;
    dragged ??= Math.abs(row - state.t) <= Math.abs(row - state.s) ? "t" : "s";
    const input = places[dragged].querySelector("input");
    input.value = row;
    input.dispatchEvent(new Event("input"));
  }
  canvas.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "touch") return;
    canvas.setPointerCapture(event.pointerId);
    dragged = undefined;
    drag(event);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (canvas.hasPointerCapture(event.pointerId)) drag(event);
  });

  /* Each slider is beside the picture that it changes, also where they are stacked. */
  const box = (caption, view, axis, ...inputs) => make("div", {},
    make("p", { class: "c-hint" }, caption),
    inputs.length ? make("div", { class: "c-row c-inputs" }, ...inputs) : "", view,
    axis ? make("p", { class: "c-hint c-axis" }, [0, axis, max_len - 1].map((text) =>
      make("span", {}, String(text)))) : "");
  root.append(
    make("div", { class: "c-waves" },
      box("The table: drag t or s with a mouse", table, "",
        places.t, places.s, choice("Layout", LAYOUTS, 0, set("layout"))),
      box("The pair: sine, cosine (dashed), wavelength (bar)", wave, "position",
        place("pair", "Pair", n - 1)),
      box("The pair as hands: cosine right, sine up", clock),
      box(`Dot product of two rows, at most ${n}`, dots, "distance",
        place("k", "Move both by", max_len - half))),
    says,
    make("details", { class: "c-numbers" }, make("summary", {}, "The numbers"),
      make("div", { class: "c-scroll", tabindex: 0, role: "region",
        "aria-label": "The two rows" }, make("table", {}, head, numbers))));
  update();
}
