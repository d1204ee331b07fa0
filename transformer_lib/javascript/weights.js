/* Unpack what transformer_lib/javascript/weights.py packed. */

/* A list of numbers, taken from the front piece by piece. */
function packed(base64, Numbers) {
  const text = atob(base64); /* a character for each byte */
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = text.charCodeAt(i);
  const numbers = new Numbers(bytes.buffer);
  let at = 0;
  return (length) => numbers.subarray(at, at += length);
}

/* Weights by name, "encoder.norm.weight", as a tree: weights.encoder.norm.weight. A
   matrix has whole numbers from -127 to 127, and a scale for each of its rows. */
function unpackWeights({ shapes, floats, integers }) {
  const takeFloats = packed(floats, Float32Array);
  const takeIntegers = packed(integers, Int8Array);
  const weights = {};
  for (const [name, [rows, columns]] of Object.entries(shapes)) {
    const path = name.split(".");
    const leaf = path.pop();
    const branch = path.reduce((branch, part) => branch[part] ??= {}, weights);
    const numbers = takeFloats(rows); /* a vector's own numbers, or a matrix's scales */
    branch[leaf] = columns === undefined ? numbers
      : new Float32Array(takeIntegers(rows * columns))
        .map((value, i) => value * numbers[Math.floor(i / columns)]);
  }
  return weights;
}

/* Text in, text out: a model with its tokenizer. */
class Translator {
  constructor({ config, alpha, tokenizer, ...weights }) {
    this.alpha = alpha;
    this.tokenizer = new Tokenizer(tokenizer);
    const { bosId: bos_id, eosId: eos_id } = this.tokenizer; /* older files name neither */
    this.model = new Transformer({ bos_id, eos_id, ...config }, unpackWeights(weights));
  }

  /* What the encoder reads. */
  encode(sentence) {
    return [...this.tokenizer.encode(sentence), this.tokenizer.eosId];
  }

  /* The ids of the best translation; a beam of 1 is greedy. */
  decode(src, beam) {
    if (beam === 1) return greedyDecode(this.model, src);
    const options = { beamSize: beam, alpha: this.alpha };
    return beamSearch(this.model, src, options)[0].tokens;
  }

  translate(sentence, beam = 1) {
    const src = this.encode(sentence);
    if (src.length === 1) return "";
    const { tokenizer } = this;
    return tokenizer.clean(tokenizer.decode(this.decode(src, beam)));
  }
}
