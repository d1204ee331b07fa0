/* One sentence through the whole model: a drawing, the tensor of one step, and its sums. */
const SHARE = 0.75; /* of a row's weight gets lines */
const FIRST = 3000; /* milliseconds until the first sentence is written */
const PAUSE = 1200; /* milliseconds between two steps of Play */
const BRIEF = 15; /* tokens of both sentences fit beside each other */
const LIKELY = 5; /* words with a bar */
const KEPT = 8; /* sentences, whose numbers need not be computed again */
const WORDS_SHOWN = 2000; /* a larger vocabulary fits no screen */
const SPECIAL = { "<pad>": "PAD", "<s>": "BOS", "</s>": "EOS" };
const MODES = { tour: "Guided tour", explore: "Explore", what: "What if?" };

const isLab = document.getElementById("jupyter-config-data") !== null;

const wordOf = (piece) => SPECIAL[piece] ?? piece.replace(/^▁(?=.)/, "");
const percent = (share) => (share < 0.001 ? "< 0.1 %" : `${(100 * share).toFixed(1)} %`);

/* One stop of the Tab key for many: arrow keys move between them. */
function roving(group, items) {
  group.addEventListener("keydown", (event) => {
    const all = items(), at = all.indexOf(event.target);
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, ArrowDown: at - 1, ArrowUp: at + 1,
      Home: 0, End: all.length - 1 }[event.key];
    if (at < 0 || !all[to] || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    all[to].focus();
  });
}

const rove = (items, current) => items.forEach((item, i) =>
  item.setAttribute("tabindex", i === current ? 0 : -1));

/* Choose one of kit.pick's radio buttons. */
const check = (picked, chosen) => picked.querySelectorAll("input").forEach((box, i) => {
  box.checked = i === chosen;
});

/* The page begins with the small model; the captions' model comes on demand. */
function draw(root, data, kit, [first]) {
  const small = { ...data, map: first.querySelector(".o-map") };
  let leave;

  function showSmall() {
    leave?.();
    leave = show(root, small, kit, "Load a model with more words, 2.1 MB", load);
  }

  async function load(say, text) {
    try {
      say("Loading 2.1 MB …");
      const large = { ...data, ...data.larger, packed: await loadWeights(), tour: [] };
      if (text) large.sentences = [text, ...large.sentences];
      large.map = new DOMParser().parseFromString(large.map, "text/html").querySelector("svg");
      large.engine = new Engine(large);
      say("Computing …");
      const whole = await large.engine.ask({ text: large.sentences[0], changes: [] });
      Object.assign(large, { recording: whole.held, written: whole.written });
      leave();
      leave = show(root, large, kit, "Back to the small model", showSmall);
    } catch (error) {
      say(error.message);
    }
  }

  showSmall();
}

/* Draw the page of a model; the answer takes it away. */
function show(root, data, kit, otherModel, changeModel) {
  const { make, button, pick, line } = kit;
  const { graph, config, tour } = data;
  const tokenizer = new Tokenizer(data.packed.tokenizer);
  const nodes = graph.map(({ name }) => name);
  const byName = new Map(graph.map((node) => [node.name, node]));
  const attentions = nodes.filter((name) => name.endsWith(".attended"))
    .map((name) => name.replace(/\.attended$/, ""))
    .map((node) => ({ node, label: node.replace(/\.(\d+)\./, " $1 ").replace("_", "-") }));
  const model = { nodes, layers: config.num_layers, heads: config.num_heads,
    words: config.tgt_vocab_size, tour: tour.map(({ id }) => id) };
  const recorded = new Run(data.recording, data.written);
  const state = { mode: "tour", tour: 0, text: undefined, node: nodes[0], row: 1, step: 0,
    head: 0, column: undefined, changes: [] };
  const engine = data.engine ?? new Engine(data);
  let base = recorded, changed = null, isChanged = false, run = recorded;
  let stage, playing, unpacked;

  const word = (id) => wordOf(tokenizer.pieces([id])[0]);
  const wordsOf = (side) => (side === "source" ? run.src : run.tgt).map(word);
  const weights = () => (unpacked ??= unpackModules(data.packed));
  const spoken = make("output", { class: "c-unseen o-spoken" });
  const status = make("p", { class: "o-status", role: "status" });

  /* -- The two sentences -- */
  const source = make("div", { class: "o-words o-source", role: "group",
    "aria-label": "English tokens: choose one to follow" });
  const target = make("div", { class: "o-words o-target", role: "group",
    "aria-label": "German tokens: choose a decoding step" });

  roving(source, () => [...source.children]);
  roving(target, () => [...target.children]);

  function drawWords() {
    const chips = (ids, part, lang) => ids.map((id, i) => make("button", { type: "button",
      lang, style: `--order: ${i}`, click: () => go({ [part]: i,
      ...(part === "step" && state.mode !== "tour" && sideOf(byName.get(state.node)) === "row"
        ? { node: "probabilities" } : {}) }) }, make("bdi", {}, word(id))));
    source.replaceChildren(...chips(run.src, "row"));
    target.replaceChildren(...chips(run.written, "step", "de"));
  }

  function markWords() {
    const isWriting = state.mode !== "tour" || byName.get(state.node).sides[0] === "target";
    [...source.children].forEach((chip, i) => chip.setAttribute("aria-pressed", i === state.row));
    [...target.children].forEach((chip, t) => {
      chip.setAttribute("aria-pressed", t === stepNow());
      chip.classList.toggle("o-later", t > stepNow() || !isWriting);
    });
    rove([...source.children], state.row);
    rove([...target.children], stepNow());
  }

  /* -- The drawing -- */
  const mainOf = (box) => [`${box}.weights`, `${box}.active`, box, `${box}.x`]
    .find((name) => byName.has(name));
  const map = drawing(kit, data.map, (box) => {
    halt();
    leaveTour();
    goSee({ node: mainOf(box) });
  });
  let isFolded; /* if the reader has chosen */
  const fold = make("details", { class: "o-fold", open: true },
    make("summary", { click: () => { isFolded = fold.open; } }, "The drawing of the model"),
    data.map, make("p", { class: "o-caption" }, "Press a box to look into it."));

  let isWide = true; /* enough for two columns */

  /* The drawing has a column of its own. On a phone it begins the tour, and then stands below
     what the tour says. */
  function placeFold() {
    const before = !isWide && state.mode === "tour" && state.tour > 0 ? shown : sideBy;
    if (fold.nextSibling !== before) before.before(fold);
    if (isWide) fold.open = true;
  }

  function drawMap() {
    const step = stepNow();
    map.paint(run, step, { "src.ids": word(run.src[state.row]), "tgt.ids": word(run.tgt[step]),
      probabilities: word(run.written[step]) });
    const isOther = (node) => run.differs(base, node.name, until(node),
      node.sides[1] === "target" ? step + 1 : Infinity)
      || (node === graph.at(-1) && run.written[step] !== base.written[step]);
    map.contrast(run === changed ? graph.filter(isOther) : []);
  }

  function placeOf(name) {
    const [half, layer, part] = name.split(".");
    if (/^\d+$/.test(layer)) {
      return `${half[0].toUpperCase()}${half.slice(1)}, layer ${layer}, ${part.replace("_", "-")}`;
    }
    return { src: "Before the encoder", tgt: "Before the decoder",
      memory: "After the encoder" }[half] ?? "After the decoder";
  }

  const nameOf = (name) => `${byName.get(name).label} (${placeOf(name).toLowerCase()})`;

  /* The steps inside a box. */
  const tabs = make("div", { class: "o-tabs", role: "group", "aria-label": "Steps of this box" });
  roving(tabs, () => [...tabs.children]);

  function drawTabs(name) {
    const box = map.boxOf(name), own = nodes.filter((node) => map.boxOf(node) === box);
    if (tabs.dataset.box !== box) {
      tabs.dataset.box = box;
      tabs.replaceChildren(...own.map((node) => button(byName.get(node).label,
        () => go({ node }))));
    }
    tabs.hidden = state.mode === "tour" || own.length === 1;
    [...tabs.children].forEach((tab, i) => tab.setAttribute("aria-pressed", own[i] === name));
    rove([...tabs.children], own.indexOf(name));
    if (tabs.hidden || isWide) return;
    const { offsetLeft } = tabs.children[own.indexOf(name)];
    tabs.scrollTo({ left: offsetLeft - tabs.clientWidth / 3, behavior: "instant" });
  }

  /* -- The stage: the tensor of the node -- */
  const title = make("h3", { tabindex: -1 }), where = make("p", { class: "o-where" });
  const what = make("p", { class: "o-what" }), headPick = make("div", { class: "o-head" });
  const view = make("div", { class: "o-view" }), card = make("div", { class: "o-card" });
  const hint = make("p", { class: "o-caption" });

  const sideOf = (node) => (node.sides[0] === "source" ? "row" : "step");
  const isMap = (node) => node.axes.at(-1) === "key";
  const isWords = (node) => node.axes.at(-1) === "word";
  const isWeights = (node) => isMap(node) && node.how === "softmax";
  const stepNow = () => Math.min(state.step, run.written.length - 1);
  const rowOf = (node) => (node.sides[0] === "target" ? stepNow()
    : Math.min(state.row, run.src.length - 1));
  const until = (node) => (node.sides[0] === "target" ? stepNow() + 1 : Infinity);

  const slice = (name) => run.slice(name, state.head);

  function largestOf(...names) {
    let most = 0;
    for (const name of names) {
      for (const value of run.tensor(name).data) {
        if (!isHidden(value)) most = Math.max(most, Math.abs(value));
      }
    }
    return most || 1;
  }

  const signed = (most) => (value) => (isHidden(value) ? data.hidden : signedColour(value, most));
  const chose = (node) => (r, c) => go({ [sideOf(node)]: r, column: c });

  function columnOf(node) {
    const { columns, at } = slice(node.name), r = rowOf(node);
    if (state.column < columns) return state.column;
    const size = isWords(node) || isMap(node) ? (c) => at(r, c) : (c) => Math.abs(at(r, c));
    let best = 0;
    for (let c = 1; c < columns; c++) if (size(c) > size(best)) best = c;
    return best;
  }

  function tensorGrid(node, names = [node.name]) {
    const { columns, at } = slice(node.name);
    const colour = isWeights(node) ? weightColour : signed(largestOf(...names));
    const rows = wordsOf(node.sides[0]);
    return cells(kit, { label: `${node.label}: ${rows.length} rows, ${columns} columns`,
      rows, columns: isMap(node) ? wordsOf(node.sides[1]) : columns, numbers: columns <= 16,
      room: isWeights(node) ? 30 : undefined, value: at, colour: (r, c) => colour(at(r, c)),
      moved: chose(node) });
  }

  function lines(node) {
    const { rows, columns, at } = slice(node.name);
    const [queries, keys] = node.sides.map(wordsOf);
    return looks(kit, { queries, keys, share: SHARE,
      weights: Array.from({ length: rows }, (_, r) =>
        Array.from({ length: columns }, (_, c) => at(r, c))),
      chose: (r) => go({ [sideOf(node)]: r }) });
  }

  /* Several vectors of one position below one another. */
  function vectors(node, names, labels) {
    const r = rowOf(node), tensors = names.map((name) => slice(name));
    const isNorm = (name) => byName.get(name).how === "norm"; /* has a scale of its own */
    const colours = names.map((name) => signed(largestOf(...isNorm(name) ? [name]
      : names.filter((each) => !isNorm(each)))));
    const grid = cells(kit, { label: labels.join(", "), rows: labels, ticks: false, high: 24,
      columns: tensors[0].columns, value: (i, c) => tensors[i].at(r, c),
      colour: (i, c) => colours[i](tensors[i].at(r, c)),
      moved: (_, c) => go({ column: c }) });
    return { ...grid, select: (_, c) => grid.select(names.indexOf(node.name), c) };
  }

  /* The residual stream of one position, from its embedding to this node. */
  function streamOf(node) {
    const names = [];
    for (let name = node.name; name && run.has(name); [name] = byName.get(name).of) {
      const { how } = byName.get(name);
      if (how !== "add" && name !== node.name) break;
      names.unshift(name);
      if (name.endsWith(".x")) break;
    }
    return names;
  }

  function wordBars(node) {
    const { columns, at } = slice(node.name), r = stepNow();
    const isShare = node.name === "probabilities";
    const row = Array.from({ length: columns }, (_, c) => at(r, c));
    const best = topk(row, LIKELY), most = isShare ? 1 : Math.max(1, row[best[0]]);
    const others = Math.max(0, best.reduce((rest, id) => rest - row[id], 1));
    const bar = (name, value) => {
      const long = make("i");
      long.style.width = `${100 * Math.max(value, 0) / most}%`;
      return make("tr", {}, name, make("td", {}, isShare ? percent(value) : short(value, 1)),
        make("td", {}, make("div", { class: "c-track" }, long)));
    };
    return make("table", { class: "c-bars o-bars" }, make("caption", {},
      isShare ? "The likeliest next words" : "The words with the highest scores"),
    best.map((id) => {
      const name = make("th", { scope: "row", lang: "de" },
        button(word(id), () => go({ column: id })));
      return bar(name, row[id]);
    }), isShare ? [bar(make("th", { scope: "row" },
      `${columns - LIKELY} other words`), others)] : []);
  }

  function wordGrid(node) {
    const { columns, at } = slice(node.name), r = stepNow();
    const colour = signed(largestOf(node.name));
    const grid = cells(kit, { label: `All ${columns} words of the vocabulary`, ticks: false,
      rows: ["all words"], columns, value: (_, c) => at(r, c),
      colour: (_, c) => colour(at(r, c)), moved: (_, c) => go({ column: c }) });
    return { ...grid, select: (_, c) => grid.select(0, c) };
  }

  const said = (text) => ({ select() {}, element: make("p", { class: "o-caption" }, text) });

  function partsOf(node) {
    if (node.axes.length === 1) {
      const ids = run.tensor(node.name).data;
      return [{ select() {}, element: make("div", { class: `o-ids o-${node.sides[0]}` },
        [...ids].map((id, i) => make("span", { class: i < until(node) ? null : "o-later" },
          make("bdi", {}, word(id)), make("small", {}, String(id))))) }];
    }
    if (isWords(node)) {
      const bars = { select() {}, element: wordBars(node) };
      const hasGrid = node.name === "logits" && config.tgt_vocab_size <= WORDS_SHOWN;
      return hasGrid ? [bars, wordGrid(node)] : [bars];
    }
    if (isWeights(node)) return [lines(node), tensorGrid(node)];
    const token = wordsOf(node.sides[0])[rowOf(node)];
    if (node.how === "add") {
      const names = [...node.of, node.name];
      return [tensorGrid(node, names), said(`For ${token}:`), vectors(node, names,
        node.name.endsWith(".x") ? ["what it is", "+ where", "= sum"]
          : ["before", "+ found", "= after"])];
    }
    const grid = tensorGrid(node);
    if (node.name === "memory" || node.name === "decoder.output") {
      const names = streamOf(node);
      return [grid, said(`The residual stream of ${token}, from its embedding to the norm. `
        + "The norm shifts and scales a vector, so that no number is far too large; its row "
        + "has the colours of the picture above."),
        vectors(node, names, names.map((name) => {
          const place = name.split(".").slice(1, 3).join(" ").replace("_", "-");
          return name.endsWith(".x") ? "embedding" : name === node.name ? "norm" : place;
        }))];
    }
    return [grid];
  }

  function drawStage() {
    const node = byName.get(state.node);
    const isNew = stage?.name !== state.node;
    stage?.parts.forEach((part) => part.close?.());
    if (isNew) {
      [title.textContent, what.textContent] = [node.label, node.says];
      headPick.replaceChildren(...(node.axes[0] === "head" ? [pick("Head",
        Array.from({ length: config.num_heads }, (_, h) => `head ${h}`), state.head,
        (h) => go({ head: h }))] : []));
    }
    const boards = () => [...view.querySelectorAll(".o-board")];
    const focused = boards().indexOf(document.activeElement);
    const parts = run.has(node.name) ? partsOf(node) : [said("Computing …")];
    view.replaceChildren(...parts.map(({ element }) => element));
    view.className = `o-view${isWeights(node) ? " o-both" : ""}`;
    stage = { name: node.name, parts };
    boards()[focused]?.focus({ preventScroll: true });
    map.mark(node.name, Boolean(playing));
    drawTabs(node.name);
    check(headPick, state.head);
  }

  /* -- The sum of a cell -- */
  function drawCell() {
    const node = byName.get(state.node), r = rowOf(node);
    card.hidden = state.column === undefined || !run.has(node.name, ...node.of);
    hint.hidden = !card.hidden;
    hint.textContent = node.axes.length === 1
      ? "Press a word above to follow it. German words with dashed edges are not yet written."
      : isWords(node) ? "Choose a word to see how its number was computed."
      : (isWeights(node) ? "The darker a cell, the larger its share. "
        : node.how === "mask" ? "Grey is hidden: minus infinity. "
          : node.axes.at(-1) === "inner" ? `Each token takes several lines of ${LINE} features. `
          : "Red is above zero, blue below. ") + "Choose a cell to see how it was computed.";
    if (!run.has(node.name)) return;
    const c = node.axes.length === 1 ? r : columnOf(node);
    stage.parts.forEach((part) => part.select(r, c, until(node)));
    where.textContent = placeOf(node.name) + (node.sides[0] === "target"
      ? ` · after ${wordsOf("target")[r]} it writes ${word(run.written[r])}` : "");
    if (card.hidden) return;
    const { at } = slice(node.name), value = node.axes.length === 1 ? at(r, 0) : at(r, c);
    const keys = node.sides.map(wordsOf);
    const own = isMap(node) ? ` → ${keys[1][c]}`
      : `, ${isWords(node) ? word(c) : `feature ${c}`}`;
    const name = keys[0][r] + (node.axes.length === 1 ? "" : own)
      + (node.axes[0] === "head" ? `, head ${state.head}` : "");
    const sum = sumOf(node, [state.head, r, c], { read: (at) => run.tensor(at), weights, config,
      wordsOf: (i) => keys[i], labelOf: (at) => byName.get(at).label,
      keysOf: (at) => wordsOf(byName.get(at).sides[0]) });
    const isSet = run === changed && node.how !== "given" && node.how !== "mask"
      && Math.abs(totalOf(sum) - value) > 0.01 * (1 + Math.abs(value));
    card.replaceChildren(
      make("p", { class: "o-value" }, make("span", {}, make("bdi", {}, name), " ",
        make("b", {}, node.name === "probabilities" ? percent(value) : short(value))),
      make("span", { class: "o-nudges" }, nudge("Previous cell", "‹", c - 1),
        nudge("Next cell", "›", c + 1))),
      make("p", {}, isSet ? "The change has set this number. Its rule would give another:"
        : sum.words), sumTable(make, sum), onward(node));
    spoken.textContent = `${name}: ${short(value)}. ${sum.words}`;
  }

  /* To the cell beside it: for fingers, which are wider than a cell. */
  function nudge(label, text, column) {
    const { columns } = slice(state.node);
    return make("button", { type: "button", class: "o-nudge", "aria-label": label,
      disabled: column < 0 || column >= columns, click: () => {
        go({ column });
        card.querySelector(`[aria-label="${label}"]`).focus({ preventScroll: true });
      } }, text);
  }

  function onward(node) {
    const to = (name) => button(nameOf(name), () => {
      leaveTour();
      goSee({ node: name, column: byName.get(name).axes.at(-1) === node.axes.at(-1)
        ? state.column : undefined });
    });
    const uses = graph.filter(({ of }) => of.includes(node.name)).map(({ name }) => name);
    const chapter = `chapter ${Number(node.chapter.slice(0, 2))}`;
    const row = (label, names) => (names.length ? [make("dt", {}, label),
      make("dd", {}, names.map(to))] : []);
    return make("dl", { class: "o-onward" }, ...row("made from", node.of),
      ...row("goes to", uses), make("dt", {}, "code"),
      make("dd", {}, make("code", {}, node.line.split("  # ")[0]), " ",
        isLab ? chapter : make("a", { href: `${node.chapter}.html` }, chapter)));
  }

  /* -- Exploring: steps, and a sentence of one's own -- */
  const scrub = make("input", { type: "range", min: 0, max: nodes.length - 1, step: 1,
    "aria-label": "Step of the pass", input: () => go({ node: nodes[scrub.valueAsNumber] }) });
  const count = make("span", { class: "o-name o-count" });
  const track = make("div", { class: "o-track", "aria-hidden": "true" },
    map.colours(nodes).map((colour) => {
      const part = make("i");
      part.style.background = colour;
      return part;
    }));
  const main = map.names.flatMap((box) => (box === "src" || box === "tgt"
    ? nodes.filter((name) => map.boxOf(name) === box) : [mainOf(box)]));

  /* To a step beside this one, or of `list` if the reader only watches. */
  function walkBy(by, list = nodes) {
    const at = nodes.indexOf(state.node) + by;
    const to = list.find((name) => nodes.indexOf(name) >= at);
    const move = playing ? go : goSee; /* what plays does not scroll the page */
    if (at >= 0 && to) move({ node: to });
    else if (by > 0 && stepNow() + 1 < run.written.length) {
      move({ step: stepNow() + 1, node: "tgt.ids" });
    } else halt();
  }

  const isLast = () => state.node === nodes.at(-1) && stepNow() + 1 === run.written.length;

  function halt() {
    if (!playing) return;
    clearInterval(playing);
    playing = undefined;
    play.textContent = "Play";
    map.mark(state.node, false);
  }

  const play = button("Play", () => {
    if (playing) {
      halt();
      return;
    }
    playing = setInterval(() => walkBy(1, main), PAUSE);
    play.textContent = "Pause";
    if (isLast() || state.node === nodes[0]) go({ node: nodes[0], step: 0 });
    map.mark(state.node, true);
  });
  const step = (by) => () => {
    halt();
    walkBy(by);
  };
  const typed = line("English", data.sentences[0], () => {});
  const input = typed.querySelector("input");
  input.addEventListener("keydown", ({ key, isComposing }) => {
    if (key === "Enter" && !isComposing) send(input.value);
  });
  /* Words that the small model knows have one token. */
  function newWords() {
    const words = tokenizer.decode(run.src.slice(0, -1)).split(" ");
    return tour.length ? words.map((text) => text.replace(/[,.]+$/, ""))
      .filter((text) => tokenizer.encode(text).length > 1) : [];
  }

  input.autocapitalize = "none";
  input.addEventListener("focus", () => input.select());
  const send = (said) => {
    const text = tour.length ? said.toLowerCase() : said; /* as the small model has learned */
    input.value = text;
    go({ text, changes: [], step: 0, column: undefined });
  };
  const examples = make("select", { "aria-label": "Examples", change: () => {
    send(data.sentences[examples.selectedIndex - 1]);
    examples.selectedIndex = 0;
  } }, ["Examples", ...data.sentences].map((text) => make("option", {}, text)));
  const unlearned = make("p", { class: "o-caption o-new", role: "status" });
  const exploring = make("div", {},
    make("div", { class: "o-own c-inputs" }, typed,
      button("Translate", () => send(input.value)),
      examples, button(otherModel, () => changeModel((text) => { status.textContent = text; },
        state.text))),
    unlearned,
    make("div", { class: "o-scrub" }, track, scrub, count));
  const back = button("Back", step(-1)), next = button("Next", step(1));
  const walk = make("div", { class: "o-steps" }, back, play, next);

  /* -- What if? -- */
  const before = make("p", { lang: "de" }), after = make("p");
  const sides = pick("The run on the stage", ["as trained", "with the change"], 0, (i) => {
    isChanged = i === 1;
    settle();
    drawMap();
  });
  const changes = whatIf(kit, { layers: config.num_layers, heads: config.num_heads, attentions,
    words: () => ({ source: base.src.map(word), written: base.written.map(word), name: word,
      row: Math.min(state.row, base.src.length - 1),
      step: Math.min(state.step, base.written.length - 1),
      likely: (t) => (base.has("probabilities") ? base.likely(Math.max(t, 0), LIKELY) : [])
        .map(({ id, share }) => ({ id, text: `${word(id)}, ${percent(share)}` })) }),
    changed: (list) => {
      const off = list.find(({ kind }) => kind === "head");
      const isNew = off && !state.changes.some((each) => JSON.stringify(each)
        === JSON.stringify(off));
      go({ changes: list, ...(isNew ? { node: `${off.node}.weights`, head: off.head } : {}) });
    } });
  const outcome = make("p", { class: "o-outcome" });
  const undo = button("Switch the change off", () => go({ changes: [] }));
  const two = make("div", { class: "o-runs" },
    make("div", { class: "o-two" }, make("span", { class: "o-name" }, "as trained"), before,
      make("span", { class: "o-name" }, "changed"), after,
      make("div", { class: "o-ends" }, undo, outcome)),
    make("p", { class: "o-caption" },
      "Orange edges in the drawing mark numbers that differ at this word."));
  const shown = make("div", { class: "c-row c-inputs o-shown" },
    make("span", { class: "o-name" }, "Shown:"), sides);
  sides.classList.add("o-sides");
  two.hidden = true;
  const asking = make("div", {}, changes.element);

  function drawTwo() {
    const texts = [base, changed ?? base].map(({ written }) => written.map(word));
    const kept = common(...texts);
    [[before, "s"], [after, "mark"]].forEach(([text, tag], side) => {
      text.lang = changed || text === before ? "de" : "";
      text.replaceChildren(...texts[side].flatMap((part, i) =>
        [kept[side].has(i) ? part : make(tag, {}, part), " "]));
    });
    if (!two.hidden) { /* then nothing below moves */
      after.style.minHeight = `${before.offsetHeight}px`;
    }
    undo.textContent = `Switch the ${state.changes.length > 1 ? "changes" : "change"} off`;
    for (const part of [undo, two.lastChild]) part.classList.toggle("o-absent", !changed);
    if (!changed) after.replaceChildren("Switch on a change below.");
    outcome.textContent = !changed ? ""
      : (texts[0].join() === texts[1].join() ? "No word changed." : "")
        + (state.step > stepNow() ? " The sentence ends earlier: its last step is shown." : "");
  }

  /* -- The tour -- */
  const guide = tourPanel(kit, tour, visit, () => {
    fold.open = true;
    go({ mode: "explore", node: nodes[0], step: 0 });
    see(typed);
  });

  function visit(i) {
    const { state: own, drawing: needsDrawing = false } = tour[i];
    state.tour = i;
    fold.open = isWide || (isFolded === undefined ? needsDrawing : !isFolded);
    go({ text: undefined, column: undefined, changes: [], row: 1, step: 0, head: 0, ...own,
      mode: "tour" });
    if (guide.ask.getBoundingClientRect().bottom > window.innerHeight) reveal(guide.title);
    else see(guide.title);
    spoken.textContent = `${tour[i].title}. ${tour[i].text}`;
  }

  const barEnd = () => parseFloat(getComputedStyle(bar).top) + bar.offsetHeight;

  /* Scroll to what is new, if the reader cannot see it below the bars that stay. */
  function see(element) {
    if (document.activeElement === document.body) element.focus({ preventScroll: true });
    const top = barEnd();
    const { top: at, bottom } = element.getBoundingClientRect();
    if (at >= top && bottom <= window.innerHeight) return;
    reveal(element);
  }

  function reveal(element) {
    element.style.scrollMarginTop = `calc(${barEnd()}px + 1.6rem)`;
    element.scrollIntoView({ block: "start", behavior: "instant" });
  }

  function goSee(change) {
    go(change);
    see(tabs.hidden ? title : tabs);
  }

  const leaveTour = () => {
    if (state.mode !== "tour") return;
    go({ mode: "explore" });
    status.textContent = `The tour waits at step ${state.tour + 1}.`;
  };
  const modes = Object.keys(MODES).filter((mode) => mode !== "tour" || tour.length);
  const modePick = pick("Mode", modes.map((mode) => MODES[mode]), 0, (i) => {
    halt();
    fold.open = true;
    if (modes[i] === "tour") visit(state.tour);
    else go({ mode: modes[i], ...(modes[i] === "what" && state.node === nodes[0]
      ? { node: "probabilities" } : {}) }); /* no change reaches the ids */
    const top = mainBox.getBoundingClientRect().top - bar.getBoundingClientRect().bottom;
    if (modes[i] !== "tour" && (top < 0 || top > window.innerHeight / 2)) reveal(mainBox);
  });
  modePick.classList.add("o-modes");
  const panels = { tour: guide.head, explore: exploring, what: asking };

  /* -- From state to page -- */
  const computed = new Map(); /* text -> its run without changes */
  if (recorded.has(...nodes)) computed.set(data.sentences[0], recorded);

  /* The runs that the state asks for; the newest question wins. */
  async function compute() {
    const { text = data.sentences[0], changes: list } = state, mine = compute.newest = {};
    const isAsked = text !== data.sentences[0] || list.length;
    try {
      status.textContent = isAsked && (list.length || !computed.has(text)) ? "Computing …" : "";
      if (!computed.has(text)) {
        const whole = await engine.ask({ text, changes: [] }, isAsked ? drawToken : undefined);
        if (compute.newest !== mine) return;
        computed.set(text, whole);
        if (computed.size > KEPT) computed.delete(computed.keys().next().value);
      }
      const other = list.length ? await engine.ask({ text, changes: list }) : null;
      if (compute.newest !== mine) return;
      [base, compute.text] = [computed.get(text), state.text];
      changed = other;
      isChanged = Boolean(changed);
      status.textContent = "";
      if (document.activeElement !== input) input.value = text;
    } catch (error) {
      if (compute.newest !== mine) return;
      status.textContent = unlearned.textContent = error.message;
      state.text = compute.text; /* the last one that could be read */
      root.parentElement.dataset.ready = true;
      drawWords();
      markWords();
      return;
    }
    changes.show(list);
    settle();
    await new Promise((done) => setTimeout(done)); /* two short tasks instead of a long one */
    if (compute.newest !== mine) return;
    drawMap();
    root.parentElement.dataset.ready = true;
    const { written } = changed ?? base;
    const says = !changed ? `It writes: ${written.map(word).join(" ")}.`
      : written.join() === base.written.join() ? "No word changed."
        : `It now writes: ${written.map(word).join(" ")}.`;
    if (state.mode === "tour") spoken.textContent = says;
    else if (isAsked) status.textContent = says; /* in sight beside every switch */
    const words = newWords();
    unlearned.textContent = !tour.length
      ? `This model has ${config.num_layers} layers of ${config.num_heads} heads. The tour belongs `
        + "to the small one." : words.length ? `New to the model, which reads ${words.length > 1
      ? "them" : "it"} in pieces: ${words.join(", ")}.` : "";
  }

  function drawToken({ step, id }) {
    if (step === 0) target.replaceChildren();
    target.append(make("span", { lang: "de" }, make("bdi", {}, word(id))));
  }

  const beBrief = () => root.classList.toggle("o-brief", state.mode !== "what"
    && run.src.length + run.written.length <= BRIEF);

  /* Show the run that is chosen. */
  function settle() {
    run = isChanged && changed ? changed : base;
    check(sides, Number(run === changed));
    sides.querySelectorAll("input").forEach((box) => { box.disabled = !changed; });
    state.row = Math.min(state.row, run.src.length - 1);
    drawTwo();
    drawWords();
    drawAll();
    beBrief();
  }

  function drawAll() {
    markWords();
    drawStage();
    drawCell();
  }

  function go(change, isLoading = false) {
    const isNew = (...parts) => parts.some((part) => part in change
      && JSON.stringify(change[part]) !== JSON.stringify(state[part]));
    const isRun = isNew("text", "changes");
    const isMoved = stage && isNew("row", "step");
    const isMode = isNew("mode"), isAsking = isMode && change.mode === "what";
    const isStage = !stage || isNew("node", "head", "row", "step", "mode");
    if ("node" in change && !("column" in change)) state.column = undefined;
    Object.assign(state, change);
    root.dataset.mode = state.mode;
    beBrief();
    if (stage) placeFold();
    if (isMode) status.textContent = "";
    for (const [mode, panel] of Object.entries(panels)) panel.hidden = mode !== state.mode;
    guide.ask.hidden = guide.steps.hidden = state.mode !== "tour";
    walk.hidden = state.mode !== "explore";
    if (state.mode === "what") asking.before(two); /* what comes out, above the switches */
    else shown.before(two);
    what.hidden = state.mode === "tour";
    two.hidden = shown.hidden = state.mode !== "what" && !state.changes.length;
    check(modePick, modes.indexOf(state.mode));
    if (state.mode === "tour" && ("mode" in change)) guide.show(state.tour);
    if (isAsking) changes.show(state.changes);
    if (isMoved) drawMap();
    if (isStage) drawAll();
    else drawCell();
    if (change.column !== undefined && !("node" in change) && !card.hidden) {
      card.firstChild.scrollIntoView({ block: "nearest", behavior: "instant" });
    }
    const at = nodes.indexOf(state.node);
    scrub.value = at;
    scrub.setAttribute("aria-valuetext", nameOf(state.node));
    count.textContent = `step ${at + 1} of ${nodes.length}`;
    [back.disabled, next.disabled] = [at === 0, isLast()];
    if ("node" in change) {
      spoken.textContent = `${nameOf(state.node)}. ${byName.get(state.node).says}`;
    }
    if (isRun) compute();
    if (!isLoading) keep();
  }

  /* Keep the state in the address, where the page may. */
  function keep() {
    if (!tour.length || isLab) return; /* an address speaks of the small model */
    const { mode, tour: i, ...own } = state;
    try {
      history.replaceState(history.state, "",
        writeAddress({ ...own, tour: mode === "tour" ? model.tour[i] : undefined }));
    } catch { /* a page without an address of its own */ }
  }

  function follow() {
    const said = readAddress(location.hash, model);
    if (!said) return false;
    const own = Object.fromEntries(Object.entries(said).filter(([, value]) => value !== undefined));
    const mode = "tour" in own ? "tour" : own.changes?.length ? "what" : "explore";
    go({ text: undefined, column: undefined, changes: [], ...tour[own.tour]?.state, ...own, mode },
      true);
    if (own.text !== undefined) input.value = own.text;
    return true;
  }

  const bar = make("div", { class: "o-bar c-inputs" }, modePick, status, walk, guide.steps);
  const toMap = button("↑ drawing", () => {
    fold.open = true;
    reveal(fold);
  });
  toMap.classList.add("o-to-map");
  const stageBox = make("div", { class: "o-stage" }, tabs, toMap, where, title, what, headPick, view,
    hint);
  const sideBy = make("div", { class: "o-side-by" }, Object.values(panels), two, shown, stageBox,
    card, guide.ask, spoken);
  const mainBox = make("div", { class: "o-main" }, fold, sideBy);
  root.append(
    make("div", { class: "o-sentence" }, make("span", { class: "o-name" }, "English"), source,
      make("span", { class: "o-name" }, "German"), target),
    bar, mainBox);
  const above = document.querySelector(".bd-header-article"); /* stays at the top of the book */
  root.addEventListener("pointerdown", ({ target: pressed }) => pressed !== play && halt());
  const widen = () => {
    isWide = getComputedStyle(fold.firstChild).display === "none";
    placeFold();
    root.style.setProperty("--above", `${above?.offsetHeight ?? 0}px`);
  };
  new ResizeObserver(widen).observe(root);
  widen();
  changes.show([]);
  drawTwo();
  drawWords();
  if (!tour.length) go({ mode: "explore", node: "src.x" }, true);
  else if (!follow()) {
    root.classList.add("o-first"); /* the model writes its sentence */
    setTimeout(() => root.classList.remove("o-first"), FIRST);
    go({ ...tour[0].state, mode: "tour" }, true);
  }
  setTimeout(() => {
    drawMap();
    if (!compute.newest) compute(); /* what the recording leaves out */
  });
  window.addEventListener("hashchange", follow);
  return () => {
    halt();
    engine.worker?.terminate();
    window.removeEventListener("hashchange", follow);
    stage.parts.forEach((part) => part.close?.());
    root.replaceChildren();
  };
}
