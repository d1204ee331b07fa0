/* The open model: every node of the graph is computed by its rule, one position at a time.
   The row of a node holds all numbers of one position. Heads lie side by side in it, so that
   neither cutting a vector into heads nor merging them moves a number. The parts with weights
   are those of transformer.js. */

/* Each rule gets the position, the rows of the nodes that it reads, the part of the model with
   its weights, and the sizes: `heads`, and `keys`, the number of keys. */
const RULES = {
  lookup: (t, [ids], table) => table.forward(ids[t])[0],
  positions: (t, _, encoding, { width }) => encoding.forward([new Float32Array(width)], t)[0],
  add: (t, [a, b]) => a[t].map((value, i) => value + b[t][i]),
  norm: (t, [x], norm) => norm.forward([x[t]])[0],
  linear: (t, [x], matrix) => matrix.multiply(x[t]),
  heads: (t, [x], matrix) => matrix.multiply(x[t]),
  dot: (t, [q, k], _, { heads, keys }) => {
    const width = q[t].length / heads;
    return Float32Array.from({ length: heads * keys }, (_, at) => {
      const s = at % keys, from = width * Math.floor(at / keys);
      let sum = 0;
      for (let i = from; i < from + width; i++) sum += q[t][i] * k[s][i];
      return sum / Math.sqrt(width);
    });
  },
  mask: (t, [scores], _, { keys }) =>
    scores[t].map((score, at) => (at % keys <= t ? score : -Infinity)),
  softmax: (t, [scores], _, { heads, keys }) => {
    const weights = new Float32Array(heads * keys);
    for (let h = 0; h < heads; h++) {
      weights.set(softmax(scores[t].subarray(h * keys, (h + 1) * keys)), h * keys);
    }
    return weights;
  },
  blend: (t, [weights, v], _, { heads }) => {
    const keys = weights[t].length / heads, width = v[0].length / heads;
    return v[0].map((_, i) => {
      const from = keys * Math.floor(i / width);
      let sum = 0;
      for (let s = 0; s < keys; s++) sum += weights[t][from + s] * v[s][i];
      return sum;
    });
  },
  merge: (t, [attended]) => attended[t],
  same: (t, [x]) => x[t],
  activate: (t, [inner], _, { activation }) => inner[t].map(activation),
  chances: (t, [logits], _, { padId }) => softmax(withoutPad(logits[t], padId)),
};

/* Padding is never written. */
function withoutPad(logits, padId) {
  const allowed = logits.slice();
  allowed[padId] = -Infinity;
  return allowed;
}

/* What each change does: it forces a word, or edits rows. An edit gets what the rule made, the
   position, the rows that the rule read, and the sizes. From row `from` on, the edited node
   differs from that of a pass without changes. A change that fits nowhere changes nothing. */
const CHANGES = {
  token: ({ step, id }) => ({ step, id }),
  look: ({ layer, step, source }) => ({
    from: step,
    edits: ({ name }, t) => name === `decoder.${layer}.cross_attention.weights` && t === step,
    edit: (row, t, _, { keys }) =>
      (source < keys ? row.map((_, at) => Number(at % keys === source)) : row),
  }),
  head: ({ node, head }) => ({
    from: 0,
    edits: ({ name }) => name === `${node}.attended`,
    edit: (row, t, _, { heads }) =>
      row.fill(0, head * row.length / heads, (head + 1) * row.length / heads),
  }),
  positions: ({ side }) => ({
    from: 0,
    edits: ({ name }) => name === `${side}.positions`,
    edit: (row) => row.fill(0),
  }),
  mask: () => ({
    from: 0,
    seesLater: true,
    edits: ({ how }) => how === "mask",
    edit: (row, t, [scores], { keys }) =>
      scores[t].map((score, at) => (at % keys >= t ? score : -Infinity)),
  }),
};

/* The graph, and the model and the ids of a Translator, of weights.js. */
class OpenModel {
  constructor(graph, { model, tokenizer: { bosId, eosId } }) {
    const { num_heads: heads, d_model: width, pad_id: padId, activation } = model.config;
    const sizes = { heads, width, padId, activation: ACTIVATIONS[activation] };
    Object.assign(this, { graph, model, bosId, eosId, sizes });
    this.parts = Object.fromEntries(graph.map(({ name, weights }) =>
      [name, weights.split(".").reduce((part, key) => part?.[key], model)]));
  }
}

/* The rows of every node for one sentence and the translation that `write` writes. With a
   `base`, a pass of the same sentence without changes, it computes only what the changes
   affect. */
class Pass {
  constructor(open, src, changes = [], base = undefined) {
    const known = changes.filter(({ kind }) => Object.hasOwn(CHANGES, kind));
    const edits = known.map((change) => CHANGES[change.kind](change));
    const from = {}; /* the first row of each node that differs from the base's */
    Object.assign(this, { open, edits, rows: {}, written: [] });
    this.lengths = { source: src.length, target: 0 };
    for (const node of open.graph) {
      const { name, of } = node;
      const own = edits.filter(({ edits, from }) => edits?.(node, from));
      from[name] = Math.min(...own.map((each) => each.from), ...of.map((each) => from[each]));
      this.rows[name] = base ? base.rows[name].slice(0, from[name]) : [];
    }
    this.rows["src.ids"] = Array.from(src, (id) => [id]);
    this.rows["tgt.ids"][0] = [open.bosId];
  }

  nodes(side) {
    return this.open.graph.filter(({ sides }) => sides[0] === side);
  }

  /* One row by its rule, and then as the changes want it, unless it is there. */
  compute(node, t) {
    const { name, how, of, sides } = node;
    if (this.rows[name][t]) return;
    const read = of.map((each) => this.rows[each]);
    const sizes = { ...this.open.sizes, keys: this.lengths[sides[1]] };
    this.rows[name][t] = this.edits.filter(({ edits }) => edits?.(node, t)).reduce(
      (row, { edit }) => edit(row, t, read, sizes),
      RULES[how](t, read, this.open.parts[name], sizes));
  }

  fill(node) {
    for (let t = 0; t < this.lengths[node.sides[0]]; t++) this.compute(node, t);
  }

  /* Write greedily: yields the id of each word, EOS included. The pass is complete when all
     words are taken; whoever takes no more has cancelled it. */
  * write() {
    const { model, eosId } = this.open;
    this.nodes("source").forEach((node) => this.fill(node));
    const nodes = this.nodes("target"), limit = lengthLimit(model, this.rows["src.ids"]);
    for (let step = 0; step < limit; step++) {
      this.lengths.target = step + 1;
      nodes.forEach((node) => this.compute(node, step));
      const chosen = this.choose(step);
      this.written.push(chosen.id);
      yield chosen;
      if (chosen.id === eosId) break;
      this.append(step + 1, chosen.id);
    }
    this.finish();
  }

  /* The forced word, or the likeliest one. */
  choose(step) {
    const allowed = withoutPad(this.rows.logits[step], this.open.sizes.padId);
    const forced = this.edits.find((edit) => edit.step === step)?.id;
    return { step, id: allowed[forced] > -Infinity ? forced : topk(allowed, 1)[0] };
  }

  /* A word that the base has not written there makes all later rows different. */
  append(t, id) {
    if (this.rows["tgt.ids"][t]?.[0] === id) return;
    for (const { name } of this.nodes("target")) this.rows[name].splice(t);
    this.rows["tgt.ids"][t] = [id];
  }

  /* While words are written, a row sees the keys so far. Here the maps get those of all words;
     under an inverted mask, which lets words see later ones, everything does. */
  finish() {
    const seeLater = this.edits.some(({ seesLater }) => seesLater);
    for (const node of this.nodes("target")) {
      const rows = this.rows[node.name];
      const isPart = node.sides[1] === "target" || (seeLater && node.of.length > 0);
      rows.splice(isPart ? 0 : this.lengths.target);
      this.fill(node);
    }
  }

  /* A node's tensor, as PyTorch has it. */
  value(name) {
    const { axes } = this.open.graph.find((node) => node.name === name);
    const rows = this.rows[name], width = rows[0].length;
    const heads = axes[0] === "head" ? this.open.sizes.heads : 1, each = width / heads;
    const data = new Float32Array(rows.length * width);
    rows.forEach((row, t) => {
      for (let h = 0; h < heads; h++) {
        data.set(row.slice(h * each, (h + 1) * each), (h * rows.length + t) * each);
      }
    });
    const sizes = { head: heads, source: rows.length, target: rows.length, query: rows.length };
    return { shape: axes.map((axis) => sizes[axis] ?? each), data };
  }
}
