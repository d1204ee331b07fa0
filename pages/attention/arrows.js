/* A query, three keys and three values: arrows to pull. Scores, weights and the blend
   follow. */
const UNIT = 60, LEFT = -2, RIGHT = 4, BOTTOM = -1, TOP = 3; /* of both planes */
const STEP = 0.1, LONG_STEP = 0.5, THICKNESS = 9, RIM = 7, REACH = 20;
const KEYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

/* Scores, weights and the blend. `hidden` is the number of a word, or -1. */
function attend({ query, key, value }, { scale, root, hidden }) {
  const scores = key.map(([x, y]) =>
    (scale * query[0] * x + scale * query[1] * y) / root);
  const most = Math.max(...scores.filter((_, i) => i !== hidden));
  const powers = scores.map((score, i) => (i === hidden ? 0 : Math.exp(score - most)));
  const total = powers.reduce((a, b) => a + b);
  const weights = powers.map((power) => power / total);
  const blend = [0, 1].map((axis) =>
    weights.reduce((sum, weight, i) => sum + weight * value[i][axis], 0));
  return { scores, weights, blend };
}

const PULL = "Pull the tip of any arrow.";

const signed = (text) => text.replace("-", "−");
const short = (number) => signed(String(Number(number.toFixed(2))));
const percent = (weight) => `${(100 * weight).toFixed(0)}\u00a0%`;
const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);
const at = ([x, y]) => [(x - LEFT) * UNIT, (TOP - y) * UNIT];

/* Each question names what must stay as it was, and says when it is answered. `reached`
   gets what attention computes, and returns the answer or nothing. */
function questionsFor(words, start) {
  const [, second, third] = words.map((word) => `“${word}”`);
  const seen = {}; /* the weight of the third word under each tick alone */
  const ways = new Set(); /* those that the reader has found in the second question */
  const middle = [0, 1].map((i) => (start.value[1][i] + start.value[2][i]) / 2);
  return [{
    text: `Where must the query point so that ${third} gets at least ${percent(0.9)}?`,
    fixed: ["key"],
    far: ({ weights }) => `${third} gets ${percent(weights[2])}.` + (weights[2] >= 0.75
      ? " Nearly. Does the length of the query matter?" : ""),
    reached({ weights, scores }) {
      if (weights[2] < 0.9) return "";
      const gap = scores[2] - Math.max(scores[0], scores[1]);
      return `${third} gets ${percent(weights[2])}. Its score is ${short(gap)} above the `
        + "next one. The gap grows as the query turns towards its key, and as the query "
        + "grows longer.";
    },
  }, {
    text: `Leave the query alone. How can ${second} get the largest weight? There are `
      + "two ways.",
    fixed: ["query"],
    far: ({ weights }) => `${second} gets ${percent(weights[1])}, ${third} `
      + `${percent(weights[2])}.`,
    reached({ weights }, { hidden }) {
      if (weights[1] <= Math.max(weights[0], weights[2])) return "";
      ways.add(hidden === 2 ? "hidden" : "key");
      const both = ways.size > 1 && " You have found both ways.";
      return `${second} gets ${percent(weights[1])}. ` + (hidden === 2
        ? `A hidden word gets ${percent(0)}, and the others share its weight in the old ratio.`
          + (both || " Now show it again, and find the other way.")
        : "The query asks the same as before. A key decides how its word is found."
          + (both || " There is another way: put the key back first."));
    },
  }, {
    text: "Bring the blend into the ring. Pull no key and no value.",
    fixed: ["key", "value"],
    ring: middle,
    far: ({ blend }) => `The blend is at (${blend.map(short).join(", ")}).`,
    reached({ weights, blend }) {
      if (Math.hypot(blend[0] - middle[0], blend[1] - middle[1]) > 0.15) return "";
      return `The blend adds ${percent(weights[1])} of the value of ${second} to `
        + `${percent(weights[2])} of that of ${third}. Now you may pull a value: the `
        + "blend moves, and no weight changes.";
    },
  }, {
    text: "Pull nothing. Which tick makes the weights sharper, and which one more equal? "
      + "Guess, then try “query × 4” alone and “divide by √2” alone.",
    fixed: ["query", "key"],
    far: ({ weights }) => `${third} gets ${percent(weights[2])}, ${second} `
      + `${percent(weights[1])}.`,
    reached({ weights }, { scale, root, hidden }) {
      const alone = hidden < 0 && (scale > 1) !== (root > 1);
      if (alone) seen[scale > 1 ? "longer" : "divided"] = percent(weights[2]);
      if (!seen.longer || !seen.divided) return "";
      return `“query × 4” gives ${third} ${seen.longer}: every gap between two scores is 4 `
        + `times as large. “divide by √2” gives it ${seen.divided}: smaller gaps, more `
        + "equal weights.";
    },
  }];
}

/* A plane with axes; `shapes` lie below the handles. */
function plane(label, names, { make }) {
  const [x, y] = at([0, 0]);
  const [width, height] = at([RIGHT, BOTTOM]);
  const [shapes, labels] = [0, 0].map(() => make("g", { "aria-hidden": "true" }));
  const handles = make("g"), mark = make("circle", { r: RIM, "aria-hidden": "true" });
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "group",
    "aria-label": label },
    make("g", { "aria-hidden": "true" },
      make("path", { class: "c-zero", d: `M0 ${y}H${width}M${x} 0V${height}` }),
      make("text", { x: width - 4, y: y + 18, "text-anchor": "end" }, names[0]),
      make("text", { x: x - 6, y: 14, "text-anchor": "end" }, names[1])),
    shapes, handles, mark, labels);
  labels.classList.add("c-labels");
  return { svg, shapes, handles, mark, labels, tips: [], front: null,
    figure: make("div", { class: "c-plane" }, make("p", {}, label), svg) };
}

/* Lift the names above all lines, and move each that would lie on another one or on a tip.
   The name of an axis gives way. */
const ASIDE = [[0, 0], [0, -16], [0, 16], [18, 0], [-18, 0], [0, -32], [0, 32], [36, 0], [-36, 0]];
function separate({ svg, shapes, labels }, tips) {
  labels.replaceChildren(...shapes.querySelectorAll("text"));
  const [width, height] = at([RIGHT, BOTTOM]);
  const overlap = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width
    && a.y < b.y + b.height && b.y < a.y + a.height;
  const taken = tips.map((tip) => {
    const [x, y] = at(tip);
    return { x: x - RIM, y: y - RIM, width: 2 * RIM, height: 2 * RIM };
  });
  for (const text of labels.children) {
    const box = text.getBBox();
    const moved = ([dx, dy]) => ({ x: box.x + dx, y: box.y + dy, width: box.width, height: box.height });
    const isFree = (place) => place.x >= 0 && place.x + place.width <= width && place.y >= 0
      && place.y + place.height <= height && !taken.some((other) => overlap(place, other));
    const by = ASIDE.find((each) => isFree(moved(each))) ?? ASIDE[0];
    text.setAttribute("transform", `translate(${by.join(" ")})`);
    taken.push(moved(by));
  }
  for (const axis of svg.firstChild.querySelectorAll("text")) {
    const box = axis.getBBox();
    axis.style.visibility = taken.some((other) => overlap(box, other)) ? "hidden" : "";
  }
}

/* A tip of a plane that can be pulled, or moved by the arrow keys. */
function handle(theirs, name, names, kind, point, on, { make }) {
  const { moved, released, nearest, chosen } = on;
  const element = make("g", { class: `c-tip c-${kind}`, tabindex: 0, role: "slider",
    "aria-label": name, "aria-roledescription": "arrow in a plane",
    "aria-valuemin": LEFT, "aria-valuemax": RIGHT },
    make("circle", { class: "c-target", r: 16 }), make("circle", { r: RIM }));
  const to = ([x, y]) => {
    const limits = [[x, LEFT, RIGHT], [y, BOTTOM, TOP]];
    limits.forEach(([number, low, high], i) => {
      const inside = Math.min(Math.max(number, low + STEP), high - STEP);
      point[i] = Math.round(inside / STEP) / Math.round(1 / STEP);
    });
    moved();
  };
  let isPulled = false;
  const grab = ({ pointerId }) => {
    isPulled = false;
    element.setPointerCapture(pointerId);
    element.focus({ preventScroll: true });
  };
  element.addEventListener("pointerdown", (event) => {
    nearest(theirs, event).grab(event);
    event.preventDefault();
  });
  element.addEventListener("focus", () => chosen(tip));
  /* So that a finger does not scroll; touch-action does nothing for these shapes. */
  element.addEventListener("touchstart", (event) => event.preventDefault(),
    { passive: false });
  element.addEventListener("pointermove", (event) => {
    if (!element.hasPointerCapture(event.pointerId)) return;
    isPulled = true;
    const box = element.ownerSVGElement.getBoundingClientRect();
    to([LEFT + (RIGHT - LEFT) * (event.clientX - box.left) / box.width,
      TOP - (TOP - BOTTOM) * (event.clientY - box.top) / box.height]);
  });
  element.addEventListener("lostpointercapture", () => released(tip, isPulled));
  element.addEventListener("keydown", (event) => {
    const by = KEYS[event.key];
    if (!by || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const step = event.shiftKey ? LONG_STEP : STEP;
    to(by.map((direction, i) => point[i] + direction * step));
  });
  element.addEventListener("keyup", (event) => { if (event.key in KEYS) released(tip); });
  const update = () => {
    const [x, y] = at(point);
    element.setAttribute("transform", `translate(${x} ${y})`);
    element.setAttribute("aria-valuenow", point[0]);
    element.setAttribute("aria-valuetext",
      names.map((axis, i) => `${axis} ${short(point[i])}`).join(", "));
  };
  const tip = { theirs, name, kind, point, element, update, grab };
  return tip;
}

function draw(root, { words, axes, start }, kit) {
  const { make, tick, button } = kit;
  const points = structuredClone(start);
  const state = { scale: 1, root: 1, hidden: -1, question: 0 };
  const questions = questionsFor(words, start);
  const quoted = words.map((word) => `“${word}”`);
  const left = plane(`The query of ${quoted[0]}, and the keys`, axes.slice(0, 2), kit);
  const right = plane("The values, and their blend", axes.slice(2), kit);
  const asks = make("p", { class: "c-asks", tabindex: -1 });
  const hint = make("span", {}, PULL);
  const answers = make("span"), note = make("div", { class: "c-note" });
  const table = make("table", { class: "c-bars", "aria-label": "Scores and weights" });
  const status = make("p", { class: "c-unseen", role: "status" });
  const next = button("Next question", () => {
    state.question += 1;
    reset();
    asks.focus(); /* the button is gone */
  });

  /* Say something about what has just been pulled, until something else is. */
  const pulled = (text) => () => { note.textContent = text; update(); };
  const both = { moved: pulled(""), nearest, chosen, released };
  const only = { ...both, moved: pulled("A value changes no weight, only the blend.") };
  const tips = [
    ...words.map((_, i) => handle(left, `Key of ${quoted[i]}`, axes.slice(0, 2), "word",
      points.key[i], both, kit)),
    handle(left, `Query of ${quoted[0]}`, axes.slice(0, 2), "query", points.query, both, kit),
    ...words.map((_, i) => handle(right, `Value of ${quoted[i]}`, axes.slice(2), "word",
      points.value[i], only, kit)),
  ];
  for (const tip of tips) {
    tip.theirs.handles.append(tip.element);
    tip.theirs.tips.push(tip);
    tip.theirs.front = tip;
  }

  /* Where tips lie on one another, the last chosen one is in front, and a press takes it. A
     press that pulls nothing chooses the next of them. */
  const together = ({ theirs, point }) => theirs.tips.filter((other) => same(other.point, point));

  function nearest({ svg, tips: all, front }, { clientX, clientY }) {
    const box = svg.getBoundingClientRect(), unit = box.width / (RIGHT - LEFT) / UNIT;
    const far = ({ point }) => {
      const [x, y] = at(point);
      return Math.hypot(clientX - box.left - x * unit, clientY - box.top - y * unit);
    };
    const here = together(all.toSorted((one, other) => far(one) - far(other))[0]);
    return here.includes(front) ? front : here.at(-1);
  }

  function drawFront({ front, mark }) {
    mark.setAttribute("transform", front.element.getAttribute("transform"));
    mark.setAttribute("class", `c-front c-${front.kind}`);
  }

  function chosen(tip) {
    tip.theirs.front = tip;
    drawFront(tip.theirs);
  }

  function released(tip, isPulled = true) {
    const all = together(tip), i = all.indexOf(tip), other = all[(i + 1) % all.length];
    if (!isPulled) other.element.focus({ preventScroll: true });
    const [front, below] = isPulled ? [tip, other] : [other, tip];
    const named = ({ name }) => name[0].toLowerCase() + name.slice(1);
    hint.textContent = all.length > 1 ? `The ${named(front)} lies on the ${named(below)}. Press `
      + "without pulling to take the other one." : PULL;
    tell();
  }

  right.figure.append(note);
  right.svg.addEventListener("pointerdown", (event) => {
    if (event.target.closest(".c-tip")) return;
    const box = right.svg.getBoundingClientRect(), [x, y] = at(attend(points, state).blend);
    const unit = box.width / (RIGHT - LEFT) / UNIT;
    const far = Math.hypot(event.clientX - box.left - x * unit,
      event.clientY - box.top - y * unit);
    if (far > REACH) return;
    note.textContent = "The blend cannot be pulled: it follows from the weights and the "
      + "values.";
  });

  /* An arrow from one point to another, with a name beside its tip. It ends at the rim of
     a handle, if it has one. */
  function arrow(from, to, kind, thickness, name = "", rim = RIM) {
    const [[x0, y0], [x1, y1]] = [at(from), at(to)];
    const length = Math.hypot(x1 - x0, y1 - y0);
    const [dx, dy] = length ? [(x1 - x0) / length, (y1 - y0) / length] : [-0.6, 0.8];
    const along = (distance, aside = 0) => `${x0 + distance * dx - aside * dy} `
      + `${y0 + distance * dy + aside * dx}`;
    const end = length - rim, head = Math.min(end, 10 + thickness);
    const shapes = end < 1 ? [] : [
      make("path", { d: `M${x0} ${y0}L${along(end - head)}`, "stroke-width": thickness }),
      make("path", { class: "c-head", d: `M${along(end)}L${along(end - head, head * 0.45)}`
        + `L${along(end - head, -head * 0.45)}Z` }),
    ];
    const label = make("text", beside(x1, y1, dx, dy), name);
    return make("g", { class: `c-arrow c-${kind}` }, shapes, name ? [label] : []);
  }

  /* Where the name of a tip stands: further out, but within the plane. */
  function beside(x, y, dx, dy) {
    if (x > (RIGHT - LEFT - 1) * UNIT) {
      return { x: x + 12, y: y + (y < UNIT / 2 ? 30 : -14), "text-anchor": "end" };
    }
    if (Math.abs(dx) <= 0.4) return { x, y: y + 5 + 20 * dy, "text-anchor": "middle" };
    const anchor = dx > 0 ? "start" : "end";
    return { x: x + 14 * Math.sign(dx), y: y + 5 + 16 * dy, "text-anchor": anchor };
  }

  /* The blend, with its name on its left-hand side. */
  function blended(tip) {
    const element = arrow([0, 0], tip, "blend", 3, "", 0);
    const [[x0, y0], [x, y]] = [at([0, 0]), at(tip)];
    const length = Math.hypot(x - x0, y - y0);
    const [aside, up] = length ? [(y - y0) / length, (x0 - x) / length] : [-1, 0];
    element.append(make("text", { x: (x0 + x) / 2 + 10 * aside,
      y: (y0 + y) / 2 + 5 + 14 * up,
      "text-anchor": aside < -0.4 ? "end" : aside > 0.4 ? "start" : "middle" }, "blend"));
    return element;
  }

  /* A part of the blend, a weight times a value, with words on its right-hand side. */
  function part(from, to, weight, word) {
    const [[x0, y0], [x1, y1]] = [at(from), at(to)];
    const length = Math.hypot(x1 - x0, y1 - y0);
    const line = make("path", { d: `M${x0} ${y0}L${x1} ${y1}`, class: "c-part",
      "stroke-width": 1.5 + THICKNESS * weight });
    if (length < 15) return [line];
    const [dx, dy] = [(x1 - x0) / length, (y1 - y0) / length];
    const flat = Math.abs(dx) > 0.7; /* then the words begin where the line does */
    const x = flat ? Math.min(x0, x1) : (x0 + x1) / 2 - 12 * dy;
    const y = (y0 + y1) / 2 + 5 + (flat ? 16 * Math.sign(dx) : 0);
    const anchor = flat || dy < 0 ? "start" : "end";
    return [line, make("text", { x, y, "text-anchor": anchor },
      `${percent(weight)} of ${word}`)];
  }

  function update() {
    const found = attend(points, state);
    const { scores, weights, blend } = found;
    const zero = [0, 0];
    const faded = (i) => (i === state.hidden ? "word c-faded" : "word");
    const thick = (i) => 1.5 + THICKNESS * weights[i];
    const long = points.query.map((number) => number * state.scale);
    left.shapes.replaceChildren(
      ...points.key.map((tip, i) => arrow(zero, tip, faded(i), thick(i), words[i])),
      ...(state.scale > 1 ? [arrow(points.query, long, "query c-further", 2)] : []),
      arrow(zero, points.query, "query", 2.5, "query"));
    const corners = points.value.filter((_, i) => i !== state.hidden)
      .map((tip) => at(tip).join(" "));
    const { ring } = questions[state.question];
    const ends = [zero]; /* tip to tail */
    weights.forEach((weight, i) => ends.push(ends[i].map((number, axis) =>
      number + weight * points.value[i][axis])));
    right.shapes.replaceChildren(
      make("path", { class: "c-between", d: `M${corners.join("L")}Z` }),
      ...(ring ? [make("circle", { class: "c-ring", cx: at(ring)[0], cy: at(ring)[1],
        r: 0.15 * UNIT + 5 })] : []),
      ...points.value.map((tip, i) => arrow(zero, tip, faded(i), 1.5, words[i])),
      ...weights.flatMap((weight, i) => part(ends[i], ends[i + 1], weight, words[i])),
      blended(blend));
    separate(left, [...points.key, points.query]);
    separate(right, points.value);
    tips.forEach((tip) => tip.update());
    [left, right].forEach(drawFront);
    const factor = (number, axis) => (axis
      ? `${number < 0 ? "−" : "+"} ${short(Math.abs(number))}` : short(number));
    const product = (i) => long.map((number, axis) => make("span", {},
      `${factor(number, axis)}·${short(points.key[i][axis])} `));
    table.replaceChildren(
      make("tr", {}, make("td"), ["query·key", state.root > 1 ? "÷ √2" : "score",
        "weight"].map((name) => make("th", { scope: "col" }, name)), make("td")),
      ...words.map((word, i) => make("tr", {}, make("th", { scope: "row" }, word),
        make("td", { class: "c-product" }, product(i)),
        [i === state.hidden ? "−∞" : short(scores[i]), percent(weights[i])].map(
          (text) => make("td", {}, text)),
        make("td", {}, make("div", { class: "c-track" },
          make("i", { style: `width: ${100 * weights[i]}%` }))))));
    answer(found);
    return found;
  }

  /* Say how far the reader is with the question. */
  function answer(found) {
    const question = questions[state.question];
    const last = state.question === questions.length - 1;
    const moved = question.fixed.find((name) => !same(points[name], start[name]));
    const reached = !moved && question.reached(found, state);
    if (reached) {
      question.answer = `✓ ${reached}`
        + (last ? " That was the last question. Pull what you like." : "");
    }
    asks.replaceChildren(...kit.question(state.question + 1, questions.length, question.text));
    const late = moved && question.answer; /* then the reader may go on playing */
    answers.textContent = reached ? question.answer
      : late ? `✓ Answered. ${question.far(found)}` : moved
      ? `${moved === "query" ? "The" : "A"} ${moved} has moved. “Reset” puts it back.`
      : question.far(found);
    answers.className = reached || late ? "c-reached" : "";
    next.hidden = last || !question.answer;
  }

  /* Tell a screen reader what came out, when the reader has let go. */
  function tell() {
    const { weights, blend } = update();
    const shares = words.map((word, i) => `${word} ${percent(weights[i])}`).join(", ");
    const also = hint.textContent === PULL ? "" : hint.textContent;
    status.textContent = `Weights: ${shares}. Blend: ${axes[2]} ${short(blend[0])}, `
      + `${axes[3]} ${short(blend[1])}. ${answers.textContent} ${note.textContent} ${also}`.trim();
  }

  function set(name, on, off) {
    return (ticked) => {
      state[name] = ticked ? on : off;
      note.textContent = "";
      tell();
    };
  }
  const ticks = [tick("query × 4", false, set("scale", 4, 1)),
    tick("divide by √2", false, set("root", Math.sqrt(2), 1)),
    tick(`hide ${quoted[2]}`, false, set("hidden", 2, -1))];

  function reset() {
    for (const name of ["key", "value"]) {
      points[name].forEach((point, i) => point.splice(0, 2, ...start[name][i]));
    }
    points.query.splice(0, 2, ...start.query);
    Object.assign(state, { scale: 1, root: 1, hidden: -1 });
    for (const label of ticks) label.querySelector("input").checked = false;
    note.textContent = "";
    hint.textContent = PULL;
    tell();
  }

  root.append(asks, make("div", { class: "c-answers" }, answers),
    make("div", { class: "c-row c-inputs c-pull" },
      make("p", { class: "c-hint" }, hint,
        make("span", { class: "c-for-keys" }, " Or choose a tip with the Tab key, and move it "
          + "with the arrow keys.")), next),
    make("div", { class: "c-planes" }, left.figure, right.figure, table),
    make("div", { class: "c-row c-inputs" }, ticks, button("Reset", reset)), status);
  update();
}
