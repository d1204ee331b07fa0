/* How one number came to be. Each is a sum of products a[j] * b[j], plus something, over
   something. SUMS finds these for each rule, from what the rule reads and from `at`, the
   number's place in its row. */
const one = (a, b, others) => ({ a: [a], b: [b], ...others });

/* One part of a softmax: its exponential over all of them. */
function share(scores, at) {
  const most = Math.max(...scores);
  const total = scores.reduce((sum, score) => sum + Math.exp(score - most), 0);
  return one(Math.exp(scores[at] - most), 1, { over: total });
}

const SUMS = {
  lookup: (t, at, [ids], { table }, { width }) =>
    one(table.weight[ids[t][0] * width + at], Math.sqrt(width)),
  positions: (t, at, _, __, { row }) => one(row[at], 1),
  add: (t, at, [x, y]) => ({ a: [x[t][at], y[t][at]], b: [1, 1] }),
  norm: (t, at, [x], { weight, bias, eps }) => {
    const mean = x[t].reduce((sum, value) => sum + value, 0) / x[t].length;
    const squares = x[t].reduce((sum, value) => sum + (value - mean) ** 2, 0);
    const deviation = Math.sqrt(squares / x[t].length + eps);
    return one((x[t][at] - mean) / deviation, weight[at], { plus: bias[at] });
  },
  linear: (t, at, [x], { weight, bias }) => ({ a: x[t], plus: bias?.[at] ?? 0,
    b: weight.subarray(at * x[t].length, (at + 1) * x[t].length) }),
  dot: (t, at, [q, k], _, { heads, keys }) => {
    const width = q[t].length / heads, from = width * Math.floor(at / keys);
    const head = (vector) => vector.subarray(from, from + width);
    return { a: head(q[t]), b: head(k[at % keys]), over: Math.sqrt(width) };
  },
  mask: (t, at, [scores], _, { row }) =>
    one(scores[t][at], 1, { plus: row[at] - scores[t][at] }),
  softmax: (t, at, [scores], _, { keys }) =>
    share(scores[t].subarray(at - at % keys, at - at % keys + keys), at % keys),
  blend: (t, at, [weights, v], _, { heads }) => {
    const keys = v.length, from = keys * Math.floor(at / (v[0].length / heads));
    const b = v.map((value) => value[at]);
    return { a: weights[t].subarray(from, from + keys), b };
  },
  merge: (t, at, [x]) => one(x[t][at], 1),
  activate: (t, at, [x], _, { row }) => one(x[t][at], x[t][at] && row[at] / x[t][at]),
  chances: (t, at, [logits], _, { padId }) => share(withoutPad(logits[t], padId), at),
};
SUMS.heads = SUMS.linear;
SUMS.same = SUMS.merge;

/* The sum behind a node's number; `place` is its [head,] row and column. `isChanged` says
   that a what-if has put the number there instead. */
function sumOf(pass, name, place) {
  const node = pass.open.graph.find((each) => each.name === name);
  const [column, t, head = 0] = [...place].reverse();
  const row = pass.rows[name][t], { read, sizes, part } = pass.reads(node);
  const at = node.axes[0] === "head" ? head * row.length / sizes.heads + column : column;
  const isChanged = RULES[node.how](t, read, part, sizes)[at] !== row[at];
  const sum = SUMS[node.how](t, at, read, part, { ...sizes, row });
  return { value: row[at], isChanged, plus: 0, over: 1, ...sum };
}
