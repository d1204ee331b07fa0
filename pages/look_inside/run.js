/* One translation: its tokens, and the tensor of each node. */
const NOISE = 1e-5; /* two numbers so near are the same */

/* Floats of 16 bits, as the recording holds them. */
function halves(base64) {
  const text = atob(base64), numbers = new Float32Array(text.length / 2);
  for (let i = 0; i < numbers.length; i++) {
    const bits = text.charCodeAt(2 * i) + 256 * text.charCodeAt(2 * i + 1);
    const [sign, exponent, part] = [bits >> 15 ? -1 : 1, (bits >> 10) & 31, bits & 1023];
    numbers[i] = sign * (exponent === 31 ? (part ? NaN : Infinity)
      : exponent ? 2 ** (exponent - 15) * (1 + part / 1024) : 2 ** -14 * (part / 1024));
  }
  return numbers;
}

class Run {
  constructor(held, written) {
    Object.assign(this, { held, written });
    this.src = [...this.tensor("src.ids").data];
    this.tgt = [...this.tensor("tgt.ids").data];
  }

  has(...names) {
    return names.every((name) => name in this.held);
  }

  tensor(name) {
    const held = this.held[name];
    if (typeof held.data === "string") held.data = halves(held.data);
    return held;
  }

  row(name, r) {
    const { data, shape } = this.tensor(name);
    return data.subarray(r * shape.at(-1), (r + 1) * shape.at(-1));
  }

  /* The rows of a tensor; of one head, if it has heads. */
  slice(name, head = 0) {
    const { shape, data } = this.tensor(name);
    const [rows, columns] = shape.length === 1 ? [shape[0], 1] : shape.slice(-2);
    const heads = shape.length === 3 ? shape[0] : 1;
    const from = heads > 1 ? head * rows * columns : 0;
    return { heads, rows, columns, at: (r, c) => data[from + r * columns + c] };
  }

  /* Whether a tensor has other numbers than another run's, as far as a row and a key. */
  differs(other, name, rows, keys) {
    for (let head = 0; head < this.slice(name).heads; head++) {
      const [own, its] = [this, other].map((run) => run.slice(name, head));
      for (let r = 0; r < Math.min(rows, own.rows, its.rows); r++) {
        for (let c = 0; c < Math.min(keys, own.columns, its.columns); c++) {
          if (Math.abs(own.at(r, c) - its.at(r, c)) > NOISE) return true;
        }
      }
    }
    return false;
  }

  /* The likeliest words after a step, with their probabilities. */
  likely(step, count) {
    const shares = this.row("probabilities", step);
    return topk(shares, count).map((id) => ({ id, share: shares[id] }));
  }
}
