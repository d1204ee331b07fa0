/* Five changes to a run, each a switch in a sentence with its choices. */

/* `words` gives what can be chosen now: { source, written, likely(step) }, each a list of
   texts, `likely` of { id, text }. `changed` gets the list of changes. */
function whatIf({ make }, { layers, heads, attentions, words, changed }) {
  const select = (label, options, value = 0) => {
    const list = make("select", { "aria-label": label, change: () => {
      if (list === step) offer();
      rows.find(({ parts }) => parts.includes(list)).box.checked = true;
      told();
    } });
    fill(list, options, value);
    return list;
  };

  function fill(list, options, value = Math.max(list.selectedIndex, 0)) {
    list.replaceChildren(...options.map((text, i) =>
      make("option", { value: i, selected: i === value }, text)));
  }

  const numbered = (list) => list.map((text, i) => `${i + 1}: ${text}`);
  const step = select("Step of the word", []), word = select("Word to write", []);
  const when = select("Step of the look", []), layer = select("Layer",
    Array.from({ length: layers }, (_, i) => `layer ${i}`), layers - 1);
  const seen = select("Source word", []);
  const attention = select("Attention", attentions.map(({ label }) => label),
    attentions.length - 1);
  const head = select("Head", Array.from({ length: heads }, (_, h) => `head ${h}`), 1);
  const side = select("Side", ["the source", "the target"]);
  const rows = [
    { kind: "token", parts: ["Write another word at step", step, "namely", word],
      read: () => ({ step: step.selectedIndex, id: likely[word.selectedIndex]?.id ?? 0 }),
      write: (change) => { step.selectedIndex = change.step; offer(change.id); } },
    { kind: "look", parts: ["Let the cross-attention of", layer, "look at", seen,
      "alone, at step", when],
    read: () => ({ layer: layer.selectedIndex, step: when.selectedIndex,
      source: seen.selectedIndex }),
    write: (change) => { layer.selectedIndex = change.layer; when.selectedIndex = change.step;
      seen.selectedIndex = change.source; } },
    { kind: "head", parts: ["Switch off", head, "of the", attention],
      read: () => ({ node: attentions[attention.selectedIndex].node, head: head.selectedIndex }),
      write: (change) => { head.selectedIndex = change.head; attention.selectedIndex =
        attentions.findIndex(({ node }) => node === change.node); } },
    { kind: "positions", parts: ["Take away the positions of", side],
      read: () => ({ side: ["src", "tgt"][side.selectedIndex] }),
      write: (change) => { side.selectedIndex = ["src", "tgt"].indexOf(change.side); } },
    { kind: "mask", parts: ["Invert the decoder’s mask: each word sees itself and later words"],
      read: () => ({}), write: () => {} },
  ];
  let likely = [];
  for (const row of rows) {
    row.box = make("input", { type: "checkbox", role: "switch", change: () => told() });
    row.element = make("div", { class: "o-change" },
      make("label", {}, row.box, make("span", {}, row.parts[0])), ...row.parts.slice(1));
  }

  /* The likeliest words at the chosen step; the second is the first choice. */
  function offer(id) {
    likely = words().likely(step.selectedIndex);
    if (id !== undefined && !likely.some((each) => each.id === id)) {
      likely = [...likely, { id, text: words().name(id) }];
    }
    const at = likely.findIndex((each) => each.id === id);
    fill(word, likely.map(({ text }) => text), at < 0 ? Math.min(1, likely.length - 1) : at);
  }

  function told() {
    const on = rows.filter(({ box }) => box.checked);
    changed(on.map(({ kind, read }) => ({ kind, ...read() })));
  }

  /* Show the words of a run, those that the page follows first, and the changes it has. */
  function show(changes) {
    const { source, written, ...now } = words();
    for (const list of [step, when]) fill(list, numbered(written), now.step);
    fill(seen, source, now.row);
    offer();
    for (const row of rows) {
      const own = changes.find(({ kind }) => kind === row.kind);
      row.box.checked = Boolean(own);
      if (own) row.write(own);
    }
  }

  return { element: make("div", { class: "o-changes" }, rows.map(({ element }) => element)),
    show };
}
