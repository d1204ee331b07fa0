/* The whole model: what transformer_lib's modules say in Python, for one sentence and
   without training. A vector is a Float32Array; a sequence is a list of vectors, one
   for each position. Without a batch there is no padding to hide; words are written
   one by one, so there is no future to hide: no masks. */

class Linear {
  /* A row of the matrix for each feature of the output, one row after another. */
  constructor({ weight, bias }) {
    Object.assign(this, { weight, bias });
  }

  forward(x) {
    return x.map((vector) => this.multiply(vector));
  }

  /* Four sums for a row, since a sum waits for the one before it: this is where nearly
     all of the time goes. So widths are multiples of four. */
  multiply(vector) {
    const { weight, bias } = this;
    const output = new Float32Array(weight.length / vector.length);
    for (let row = 0, at = 0; row < output.length; row++) {
      let a = 0, b = 0, c = 0, d = 0;
      for (let i = 0; i < vector.length; i += 4, at += 4) {
        a += weight[at] * vector[i];
        b += weight[at + 1] * vector[i + 1];
        c += weight[at + 2] * vector[i + 2];
        d += weight[at + 3] * vector[i + 3];
      }
      output[row] = a + b + c + d + (bias ? bias[row] : 0);
    }
    return output;
  }
}

class LayerNorm {
  constructor({ weight, bias }, eps) {
    Object.assign(this, { weight, bias, eps });
  }

  forward(x) {
    return x.map((vector) => {
      const mean = vector.reduce((sum, value) => sum + value, 0) / vector.length;
      const variance =
        vector.reduce((sum, value) => sum + (value - mean) ** 2, 0) / vector.length;
      const deviation = Math.sqrt(variance + this.eps);
      return vector.map((value, i) =>
        ((value - mean) / deviation) * this.weight[i] + this.bias[i]);
    });
  }
}

class TokenEmbedding {
  constructor({ table }, d_model) {
    Object.assign(this, { table, d_model });
  }

  forward(tokens) {
    return tokens.map((token) =>
      this.table.weight.subarray(token * this.d_model, (token + 1) * this.d_model)
        .map((value) => value * Math.sqrt(this.d_model)));
  }
}

/* Sines and cosines alternate, the later the slower. */
class PositionalEncoding {
  forward(x, start = 0) {
    return x.map((vector, t) => vector.map((value, i) => {
      const angle = (start + t) / 10000 ** ((i - (i % 2)) / vector.length);
      return value + (i % 2 ? Math.cos(angle) : Math.sin(angle));
    }));
  }
}

function softmax(scores) {
  const most = Math.max(...scores); /* so that no exponential overflows */
  const parts = scores.map((score) => Math.exp(score - most));
  const total = parts.reduce((sum, part) => sum + part, 0);
  return parts.map((part) => part / total);
}

/* One head. The weights have a row for each query and a column for each key. */
function scaledDotProductAttention(query, key, value) {
  const dot = (a, b) => a.reduce((sum, feature, i) => sum + feature * b[i], 0);
  const weights = query.map((q) =>
    softmax(key.map((k) => dot(q, k) / Math.sqrt(q.length))));
  const attended = weights.map((row) => {
    const blend = new Float32Array(value[0].length);
    row.forEach((weight, s) => value[s].forEach((v, i) => { blend[i] += weight * v; }));
    return blend;
  });
  return { attended, weights };
}

class MultiHeadAttention {
  constructor({ w_q, w_k, w_v, w_o }, num_heads) {
    this.num_heads = num_heads;
    this.w_q = new Linear(w_q);
    this.w_k = new Linear(w_k);
    this.w_v = new Linear(w_v);
    this.w_o = new Linear(w_o);
  }

  forward(query, key, value, cache) {
    const q = this.splitHeads(this.w_q.forward(query));
    const project = () => ({ k: this.splitHeads(this.w_k.forward(key)),
      v: this.splitHeads(this.w_v.forward(value)) });
    const { k, v } = cache ? cache.update(project) : project();
    return this.w_o.forward(this.mergeHeads(this.attend(q, k, v)));
  }

  attend(q, k, v) {
    return q.map((head, h) => scaledDotProductAttention(head, k[h], v[h]).attended);
  }

  /* A sequence of narrow vectors for each head; nothing is copied. */
  splitHeads(x) {
    const d_k = x[0].length / this.num_heads;
    return Array.from({ length: this.num_heads }, (_, h) =>
      x.map((vector) => vector.subarray(h * d_k, (h + 1) * d_k)));
  }

  mergeHeads(heads) {
    return heads[0].map((_, t) => {
      const merged = new Float32Array(heads.length * heads[0][t].length);
      heads.forEach((head, h) => merged.set(head[t], h * head[t].length));
      return merged;
    });
  }
}

/* What becomes of each inner feature. The exact "gelu" is left out: JavaScript has no
   error function. */
const ACTIVATIONS = {
  relu: (x) => Math.max(x, 0),
  gelu_tanh: (x) =>
    x / 2 * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
  silu: (x) => x / (1 + Math.exp(-x)),
};

class FeedForward {
  constructor({ w_1, w_2 }, activation = "relu") {
    this.w_1 = new Linear(w_1);
    this.w_2 = new Linear(w_2);
    this.activation = ACTIVATIONS[activation];
  }

  forward(x) {
    const inner = this.w_1.forward(x);
    return this.w_2.forward(inner.map((vector) => vector.map(this.activation)));
  }
}

class Residual {
  constructor({ norm }, { norm_first, norm_eps }) {
    this.norm = new LayerNorm(norm, norm_eps);
    this.norm_first = norm_first;
  }

  forward(x, sublayer) {
    const add = (y) => x.map((vector, t) => vector.map((value, i) => value + y[t][i]));
    if (this.norm_first) return add(sublayer(this.norm.forward(x)));
    return this.norm.forward(add(sublayer(x)));
  }
}

class EncoderLayer {
  constructor(weights, config) {
    this.self_attention =
      new MultiHeadAttention(weights.self_attention, config.num_heads);
    this.feed_forward = new FeedForward(weights.feed_forward, config.activation);
    for (const name of ["self_attention_residual", "feed_forward_residual"]) {
      this[name] = new Residual(weights[name], config);
    }
  }

  forward(x) {
    x = this.self_attention_residual.forward(x, (x) =>
      this.self_attention.forward(x, x, x));
    return this.feed_forward_residual.forward(x, (x) => this.feed_forward.forward(x));
  }
}

/* An encoder layer with one sublayer more, and with a cache for each attention. */
class DecoderLayer extends EncoderLayer {
  constructor(weights, config) {
    super(weights, config);
    this.cross_attention =
      new MultiHeadAttention(weights.cross_attention, config.num_heads);
    this.cross_attention_residual =
      new Residual(weights.cross_attention_residual, config);
  }

  forward(x, memory, [past, source]) {
    x = this.self_attention_residual.forward(x, (x) =>
      this.self_attention.forward(x, x, x, past));
    x = this.cross_attention_residual.forward(x, (x) =>
      this.cross_attention.forward(x, memory, memory, source));
    return this.feed_forward_residual.forward(x, (x) => this.feed_forward.forward(x));
  }
}

/* The layers, and the final norm that pre-norm layers need. */
class Encoder {
  constructor({ layers, norm }, config, Layer = EncoderLayer) {
    this.layers = Object.values(layers).map((weights) => new Layer(weights, config));
    this.norm = norm ? new LayerNorm(norm, config.norm_eps) : { forward: (x) => x };
  }

  forward(x) {
    return this.norm.forward(this.layers.reduce((x, layer) => layer.forward(x), x));
  }
}

class Decoder extends Encoder {
  constructor(weights, config) {
    super(weights, config, DecoderLayer);
  }

  forward(x, memory, cache) {
    return this.norm.forward(this.layers.reduce((x, layer, i) =>
      layer.forward(x, memory, cache.layers[i]), x));
  }
}

/* Keys and values of the target so far: with every token, one position more. */
class SelfAttentionCache {
  constructor(k = [], v = []) {
    Object.assign(this, { k, v });
  }

  update(project) {
    const { k, v } = project();
    this.k = k.map((head, h) => [...(this.k[h] ?? []), ...head]);
    this.v = v.map((head, h) => [...(this.v[h] ?? []), ...head]);
    return this;
  }
}

/* Keys and values of the memory: projected for the first token, then only read. */
class CrossAttentionCache {
  update(project) {
    return Object.assign(this, this.k ? {} : project());
  }
}

class DecoderCache {
  constructor(num_layers) {
    this.length = 0;
    this.layers = Array.from({ length: num_layers }, () =>
      [new SelfAttentionCache(), new CrossAttentionCache()]);
  }

  /* For another hypothesis about the same sentence. The vectors are shared. */
  copy() {
    const copy = new DecoderCache(0);
    copy.length = this.length;
    copy.layers = this.layers.map(([past, source]) =>
      [new SelfAttentionCache(past.k, past.v), source]);
    return copy;
  }
}

class Transformer {
  constructor(config, weights) {
    const source = weights.src_embedding;
    const target = weights.tgt_embedding ?? source; /* a shared table comes once */
    this.config = config;
    this.src_embedding = new TokenEmbedding(source, config.d_model);
    this.src_positions = new PositionalEncoding();
    this.encoder = new Encoder(weights.encoder, config);
    this.tgt_embedding = new TokenEmbedding(target, config.d_model);
    this.tgt_positions = new PositionalEncoding();
    this.decoder = new Decoder(weights.decoder, config);
    this.output = new Linear({ ...target.table, ...weights.output }); /* tied or not */
  }

  /* Scores for the token after every target prefix. */
  forward(src, tgt) {
    const memory = this.encode(src);
    const cache = new DecoderCache(this.config.num_layers);
    return tgt.map((token) => this.decode(token, memory, cache));
  }

  encode(src) {
    const x = this.src_positions.forward(this.src_embedding.forward(src));
    return this.encoder.forward(x);
  }

  /* Scores for the token after this one, whose past is in the cache. */
  decode(token, memory, cache) {
    let x = this.tgt_embedding.forward([token]);
    x = this.tgt_positions.forward(x, cache.length++);
    return this.output.forward(this.decoder.forward(x, memory, cache))[0];
  }
}
