/* The tree of a beam search: a column for each token, in which the likeliest is on top and
   what has ended is below. In a narrow box the tree grows down, not to the right. The
   reader goes from step to step. */
const PAUSE = 1200; /* milliseconds from step to step while it plays */
const NARROW = 76; /* pixels: a column with less makes the tree grow down */

/* The place of each node among those of its step: first what goes on, then what ended. */
function slotsOf(nodes) {
  return nodes.map(({ step, row }) =>
    nodes.filter((other) => other.step === step && other.row < row).length);
}

function draw(root, { nodes, source, looks, left_out }, kit) {
  const { make, button, pick, paint, weightColour } = kit;
  const last = left_out.length - 1;
  const slots = slotsOf(nodes), steps = last + 1, wide = Math.max(...slots) + 1;
  const state = { step: 0, chosen: 0, timer: null };
  const probability = (i) => {
    const share = Math.exp(nodes[i].log_prob);
    return share < 0.001 ? share.toExponential(1) : share.toPrecision(2);
  };
  const score = (i) => nodes[i].score.toFixed(2).replace("-", "−");
  const row = (cell, ...texts) =>
    make("tr", {}, texts.map((text) => make(cell, {}, text)));
  const quoted = (i) => `“${nodes[i].text}”`;

  const edges = nodes.map(() => make("path"));
  const tree = pick("Hypothesis", nodes.map(({ token, score }, i) =>
    make("span", { class: `c-token ${score === null ? "" : "c-beam-ended"}` }, token,
      make("small", {}, probability(i)))), 0, choose);
  const boxes = [...tree.children];
  const lines = make("svg", { preserveAspectRatio: "none", "aria-hidden": "true" }, edges);
  tree.prepend(lines);

  const scroll = make("div", { class: "c-scroll" }, tree);
  const looked = make("div", { class: "c-beam-looks" });
  const says = make("output", { class: "c-says" });
  const found = make("div", { class: "c-scroll" });
  const back = button("Back", () => walk(-1));
  const next = button("Next", () => walk(1));
  const play = button("Play", () => (state.timer ? stop() : start()));

  /* Place boxes and edges. An edge crosses the tenth that each box leaves free. */
  function arrange() {
    const down = scroll.clientWidth / steps < NARROW;
    const turned = (pair) => (down ? pair.toReversed() : pair);
    const point = (along, across) => turned([along, across]).join(" ");
    root.classList.toggle("c-beam-down", down);
    const [columns, rows] = turned([steps, wide]);
    tree.style.gridTemplate = `repeat(${rows}, 3.4em) / `
      + `repeat(${columns}, minmax(3.5em, 1fr))`;
    lines.setAttribute("viewBox", `0 0 ${columns} ${rows}`);
    nodes.forEach(({ parent, step }, i) => {
      const [column, row] = turned([step, slots[i]]);
      boxes[i].style.gridArea = `${row + 1} / ${column + 1}`;
      if (parent === null) return;
      const [from, to] = [slots[parent] + 0.5, slots[i] + 0.5];
      edges[i].setAttribute("d", `M ${point(step - 0.1, from)} C ${point(step, from)}, `
        + `${point(step, to)}, ${point(step + 0.1, to)}`);
    });
  }

  /* A node and all before it, the nearest first. */
  function lineage(i) {
    return i === null ? [] : [i, ...lineage(nodes[i].parent)];
  }

  function go(step) {
    if (step < 0 || step > last) return;
    state.step = step;
    const held = tree.contains(document.activeElement);
    const all = nodes.map((_, i) => i).filter((i) => nodes[i].step <= step);
    const ended = all.filter((i) => nodes[i].score !== null)
      .sort((a, b) => nodes[b].score - nodes[a].score);
    const open = all.filter((i) => nodes[i].step === step && nodes[i].score === null);
    const kept = new Set([...ended, ...open].flatMap(lineage));
    nodes.forEach((node, i) => [boxes[i], edges[i]].forEach((part) => {
      part.toggleAttribute("hidden", node.step > step);
      part.classList.toggle("c-beam-dropped", !kept.has(i));
    }));
    back.setAttribute("aria-disabled", step === 0);
    next.setAttribute("aria-disabled", step === last);
    found.hidden = ended.length === 0;
    found.replaceChildren(make("table", {}, make("caption", {}, "Ended, by score"),
      row("th", "score", "probability", "text"),
      ended.map((i) => row("td", score(i), probability(i), nodes[i].text))));

    const list = (name, some) => (some.length ? ` ${name}: ${some.join(", ")}.` : "");
    const dropped = all.filter((i) => nodes[i].step === step - 1 && !kept.has(i));
    state.told = `Step ${step} of ${last}: `
      + (step < last ? "" : "the search ends, ") + `${open.length} `
      + (step < last ? "go on." : "are unfinished.")
      + list("Dropped", dropped.map(quoted))
      + list("Ended", ended.filter((i) => nodes[i].step === step)
        .map((i) => `${quoted(i)} with score ${score(i)}`))
      + (left_out[step] ? ` Not shown: ${left_out[step]} that the model rules out; they `
        + "only fill the beam." : "");
    choose((step === last ? ended[0] : undefined) ?? open[0] ?? ended[0] ?? 0);
    if (held) boxes[state.chosen].control.focus({ preventScroll: true });
    const box = boxes[state.chosen]; /* a very wide tree scrolls */
    scroll.scrollLeft = box.offsetLeft + box.offsetWidth - scroll.clientWidth;
  }

  function choose(chosen) {
    state.chosen = chosen;
    const { token, parent, step } = nodes[chosen];
    const path = new Set(lineage(chosen));
    boxes[chosen].control.checked = true;
    [boxes, edges].forEach((parts) => parts.forEach((part, i) =>
      part.classList.toggle("c-beam-path", path.has(i))));
    let told = "";
    if (chosen > 0) {
      const share = Math.exp(nodes[chosen].log_prob - nodes[parent].log_prob);
      told = `${quoted(chosen)}: ${probability(parent)} × ${share.toPrecision(2)}`
        + ` = ${probability(chosen)}.`;
    }
    looked.replaceChildren();
    if (chosen > 0 && source.length) {
      const weights = looks[step - 1][nodes[parent].row];
      const most = weights.indexOf(Math.max(...weights));
      told += ` To write ${token}, it looks most at ${source[most]},`
        + ` ${(weights[most] / 100).toFixed(2)}.`;
      looked.append(make("p", { class: "c-hint" }, `To write ${token}, it looks at`),
        make("div", { class: "c-tokens" }, source.map((word, i) => paint(make("span",
          { class: "c-token" }, word, make("small", {}, (weights[i] / 100).toFixed(2))),
        weightColour(weights[i] / 100)))));
    }
    says.replaceChildren(...[state.told, told].map((text) => make("span", {}, text)));
  }

  function stop() {
    clearInterval(state.timer);
    state.timer = null;
    play.textContent = "Play";
  }

  function start() {
    go(state.step === last ? 0 : state.step + 1);
    play.textContent = "Pause";
    state.timer = setInterval(() => {
      go(state.step + 1);
      if (state.step === last) stop();
    }, PAUSE);
  }

  function walk(steps) {
    stop();
    go(state.step + steps);
  }

  /* Up and down go through the hypotheses by themselves. */
  root.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!steps || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    walk(steps);
  });
  root.append(make("div", { class: "c-row c-inputs" }, back, next, play,
    make("span", { class: "c-hint" }, "keys: ← → a step, ↑ ↓ another hypothesis")),
  scroll, make("p", { class: "c-hint" }, "A box is a token, with the probability of "
    + "the sentence up to it. Dashed: dropped. Double: ended."), looked, says, found);
  root.classList.add("c-beam");
  arrange();
  new ResizeObserver(arrange).observe(scroll);
  go(1);
}
