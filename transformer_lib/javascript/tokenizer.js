/* Subwords: text to token ids and back. The twin of transformer_lib/data/tokenizer.py, which
   leaves the work to the package "tokenizers". */

/* A character for each byte: the printable ones as they are, the others from 256 on. */
const BYTES = [];
for (let byte = 0, other = 256; byte < 256; byte++) {
  const printable = (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
  BYTES.push(String.fromCodePoint(printable ? byte : other++));
}

/* What byte-pair encoding works on: endings such as 's, words, numbers and signs, with
   the space before them. JavaScript's own \s is not quite Unicode's white space. */
const SPACES = /\p{White_Space}+/gu;
const WORDS =
  /'(?:s|t|re|ve|m|ll|d)| ?\p{L}+| ?\p{N}+| ?[^\p{White_Space}\p{L}\p{N}]+/gu;
const SPECIAL_TOKENS = ["<pad>", "<s>", "</s>"];

class Tokenizer {
  padId = 0;
  bosId = 1;
  eosId = 2;

  /* What tokenizer.json holds: each token's id, and the merges, the first first. */
  constructor({ model: { vocab, merges } }) {
    this.ids = new Map(Object.entries(vocab));
    this.tokens = [];
    for (const [token, id] of this.ids) this.tokens[id] = token;
    this.ranks = new Map(merges.map((pair, rank) => [pair.join(" "), rank]));
  }

  clean(text) {
    return text.normalize("NFC").replace(SPACES, " ").replace(/^ | $/g, "");
  }

  /* Token ids, without BOS and EOS. Half a character (a lone surrogate), which Python
     refuses, is read as U+FFFD. */
  encode(text) {
    const clean = this.clean(text);
    if (clean === "") return [];
    return (" " + clean).match(WORDS).flatMap((word) => {
      const bytes = Array.from(new TextEncoder().encode(word), (byte) => BYTES[byte]);
      return this.merge(bytes).map((token) => this.ids.get(token));
    });
  }

  /* Join the pair that was learned first, everywhere, until no pair is known. */
  merge(pieces) {
    for (;;) {
      const ranks = pieces.slice(1).map((right, i) =>
        this.ranks.get(`${pieces[i]} ${right}`) ?? Infinity);
      const first = ranks.reduce((a, b) => Math.min(a, b), Infinity);
      if (first === Infinity) return pieces;
      const joined = [];
      for (let i = 0; i < pieces.length; i++) {
        joined.push(ranks[i] === first ? pieces[i] + pieces[++i] : pieces[i]);
      }
      pieces = joined;
    }
  }

  decode(ids) {
    return this.read(ids.filter((id) => id >= SPECIAL_TOKENS.length)).replace(/^ /, "");
  }

  /* Each token by itself; "▁" is the space that begins a word. */
  pieces(ids) {
    return ids.map((id) => SPECIAL_TOKENS[id] ?? this.read([id]).replaceAll(" ", "▁"));
  }

  /* Bytes that are not a whole character become U+FFFD. */
  read(ids) {
    const characters = [...ids.map((id) => this.tokens[id]).join("")];
    const bytes = Uint8Array.from(characters, (character) => BYTES.indexOf(character));
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
  }
}
