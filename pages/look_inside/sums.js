/* How one number was computed: by the rule of its node, from the numbers that it reads.
   `read(name)` gives a tensor. A sum has terms [name, a, b], further parts [name, value],
   or steps [name, value] in their order, and words. */
const PRODUCTS = 5; /* of a sum are shown */
const ACTIVATION_WORDS = { relu: "ReLU", gelu_tanh: "GELU", silu: "SiLU" };

/* The weights of modules, by their names; a shared table comes once. */
function unpackModules(packed) {
  const weights = unpackWeights(packed);
  weights.tgt_embedding ??= weights.src_embedding;
  weights.output = { ...weights.tgt_embedding.table, ...weights.output };
  return weights;
}

function sumOf(node, [h, r, c], { read, weights, config, wordsOf, labelOf, keysOf }) {
  const inputs = node.of.map(read), [x, y] = inputs;
  const at = (tensor, ...place) => tensor.data[place.reduce((sum, i, axis) =>
    sum * tensor.shape[tensor.shape.length - place.length + axis] + i, 0)];
  const d_k = config.d_model / config.num_heads;
  const { weight, bias, table } = node.weights.split(".")
    .reduce((part, key) => part[key], weights()) ?? {};
  const features = (count, term) => Array.from({ length: count }, (_, i) =>
    [`feature ${i}`, ...term(i)]);
  const shares = (row) => {
    const most = row.reduce((a, b) => Math.max(a, b), -Infinity);
    const total = row.reduce((sum, value) => sum + Math.exp(value - most), 0);
    return [["the score", row[c]], ["minus the largest of the row", row[c] - most],
      ["e to this power", Math.exp(row[c] - most)],
      [`divided by the row’s sum of such powers, ${exact(total)}`,
        Math.exp(row[c] - most) / total]];
  };

  const linear = (column) => {
    const width = x.shape.at(-1);
    return { words: `The ${width} numbers of ${wordsOf(0)[r]}, times the weights of this `
      + `${node.axes.at(-1) === "word" ? "word" : "feature"}.`,
    terms: features(width, (i) => [at(x, r, i), weight[column * width + i]]),
    parts: bias ? [["bias", bias[column]]] : [] };
  };

  const rules = {
    given: () => ({ words: "The tokenizer gives each token its number.", steps: [] }),
    lookup: () => ({ words: `Row ${x.data[r]} of the table, times the root of ${config.d_model}.`,
      terms: [[`number ${c} of the row`, table.weight[x.data[r] * config.d_model + c],
        Math.sqrt(config.d_model)]], parts: [] }),
    positions: () => {
      const angle = r / 10000 ** ((c - (c % 2)) / config.d_model);
      return { words: `Position ${r}: features come in pairs, a sine and a cosine, each `
        + "pair slower than the one before it.",
      steps: [[`the angle, ${r} / 10000^(${c - (c % 2)}/${config.d_model})`, angle],
        [c % 2 ? "its cosine" : "its sine", c % 2 ? Math.cos(angle) : Math.sin(angle)]] };
    },
    add: () => ({ words: "Two numbers, added. That is why it is called a stream: nothing is "
      + "replaced, only added.",
    terms: [], parts: node.of.map((name, i) => [labelOf(name), at(inputs[i], r, c)]) }),
    norm: () => {
      const width = x.shape.at(-1);
      const row = Array.from({ length: width }, (_, i) => at(x, r, i));
      const mean = row.reduce((sum, value) => sum + value, 0) / width;
      const variance = row.reduce((sum, value) => sum + (value - mean) ** 2, 0) / width;
      const unit = (row[c] - mean) / Math.sqrt(variance + config.norm_eps);
      return { words: `The vector of ${wordsOf(0)[r]} gets mean 0 and variance 1; then each `
        + "feature has a weight and a bias.",
      steps: [["the number", row[c]], [`minus the mean, ${exact(mean)}`, row[c] - mean],
        [`divided by the deviation, ${exact(Math.sqrt(variance + config.norm_eps))}`, unit],
        [`times its weight, ${exact(weight[c])}`, unit * weight[c]],
        [`plus its bias, ${exact(bias[c])}`, unit * weight[c] + bias[c]]] };
    },
    linear: () => linear(c),
    heads: () => linear(h * d_k + c),
    dot: () => ({ words: `The query of ${wordsOf(0)[r]}, times the key of ${wordsOf(1)[c]}: `
      + `${d_k} products. Their sum is divided by the root of ${d_k}.`,
    terms: features(d_k, (i) => [at(x, h, r, i), at(y, h, c, i)]), parts: [],
    divide: Math.sqrt(d_k) }),
    mask: () => ({ words: isHidden(read(node.name).data[(h * x.shape[1] + r) * x.shape[2] + c])
      ? `${wordsOf(1)[c]} is hidden from ${wordsOf(0)[r]}, so the score becomes minus infinity. `
        + "Its weight will be 0."
      : `${wordsOf(0)[r]} may look at ${wordsOf(1)[c]}, so the score stays.`,
    steps: [["the score", at(x, h, r, c)]] }),
    softmax: () => ({ words: `How much of its attention ${wordsOf(0)[r]} gives to `
      + `${wordsOf(1)[c]}. A row sums to 1.`,
    steps: shares(Array.from({ length: x.shape[2] }, (_, s) => at(x, h, r, s))) }),
    blend: () => ({ words: `The values of all tokens, each times the attention that `
      + `${wordsOf(0)[r]} gives to it.`,
    terms: Array.from({ length: y.shape[1] }, (_, s) =>
      [keysOf(node.of[1])[s], at(x, h, r, s), at(y, h, s, c)]), parts: [] }),
    merge: () => ({ words: `Feature ${c % d_k} of head ${Math.floor(c / d_k)}: the heads lie `
      + "side by side.", steps: [["the number", at(x, Math.floor(c / d_k), r, c % d_k)]] }),
    activate: () => ({ words: config.activation === "relu"
      ? "A negative number becomes 0, and any other stays."
      : `The activation ${ACTIVATION_WORDS[config.activation]}.`,
    steps: [["before", at(x, r, c)], ["after", read(node.name).data[r * x.shape[1] + c]]] }),
    chances: () => ({ words: "The share of this word among all words: the softmax of the row.",
      steps: shares(Array.from({ length: x.shape[1] }, (_, i) =>
        (i === config.pad_id ? -Infinity : at(x, r, i)))) }),
    same: () => ({ words: "Nothing changes here.", steps: [["the number", at(x, r, c)]] }),
  };
  return rules[node.how]();
}

/* What the rule gives. */
function totalOf({ terms = [], parts = [], divide = 1, steps = [] }) {
  if (steps.length) return steps.at(-1)[1];
  const products = terms.reduce((sum, [, a, b]) => sum + a * b, 0);
  return parts.reduce((sum, [, value]) => sum + value, products) / divide;
}

function sumTable(make, { terms = [], parts = [], divide, steps = [] }) {
  const entry = (label, text, value, isSum) => make("tr", { class: isSum ? "o-sum" : null },
    make("th", { scope: "row" }, make("bdi", {}, label)), make("td", {}, text),
    make("td", {}, exact(value)));
  const rows = steps.map(([label, value]) => entry(label, "", value));
  const order = terms.map(([label, a, b]) => [label, a, b, a * b])
    .sort((a, b) => Math.abs(b[3]) - Math.abs(a[3]));
  const most = order.slice(0, PRODUCTS), rest = order.slice(PRODUCTS);
  for (const [label, a, b, product] of most) {
    rows.push(entry(label, `${exact(a)} × ${exact(b)}`, product));
  }
  const add = (list, i) => list.reduce((sum, each) => sum + each[i], 0);
  if (rest.length) {
    rows.push(entry(`${rest.length} smaller product${rest.length > 1 ? "s" : ""}`, "",
      add(rest, 3)));
  }
  for (const [label, value] of parts) rows.push(entry(label, "", value));
  const total = totalOf({ terms, parts });
  if (rows.length > 1 && !steps.length) rows.push(entry("sum", "", total, true));
  if (divide) rows.push(entry(`divided by ${short(divide, 0)}`, "", total / divide, true));
  return make("table", { class: "o-products" },
    rows.length > 1 ? make("caption", {}, "Each number is rounded.") : [], rows);
}
