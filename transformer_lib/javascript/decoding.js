/* Decoding: write a translation token by token. The twin of
   transformer_lib/decoding, for one sentence. */

/* What has been written so far, and what the model needs to go on. */
class Prefix {
  constructor(model, memory) {
    const { bos_id: newest } = model.config;
    Object.assign(this, { model, memory, newest, tokens: [], logProb: 0 });
    this.cache = new DecoderCache(model.config.num_layers);
  }

  nextLogits() {
    const logits = this.model.decode(this.newest, this.memory, this.cache);
    logits[this.model.config.pad_id] = -Infinity; /* never written */
    return logits;
  }

  /* The same with one token more; the old one can be extended in other ways, too. */
  extend({ token, logProb }) {
    const longer = Object.create(Prefix.prototype);
    return Object.assign(longer, this, { logProb, newest: token,
      tokens: [...this.tokens, token], cache: this.cache.copy() });
  }
}

/* How many tokens may be written, EOS included. */
function lengthLimit(model, src, maxLen = src.length + 50) {
  return Math.min(maxLen, model.config.max_len);
}

function lengthPenalty(length, alpha) {
  return ((5 + length) / 6) ** alpha;
}

/* Where the greatest values are, the greatest first; of equals, the first. */
function topk(values, number) {
  const best = [];
  for (let i = 0; i < values.length; i++) {
    if (best.length === number && values[i] <= values[best[number - 1]]) continue;
    let place = best.length;
    while (place > 0 && values[i] > values[best[place - 1]]) place--;
    best.splice(place, 0, i);
    best.length = Math.min(best.length, number);
  }
  return best;
}

/* A logit minus this is the logarithm of a probability. */
function logSumExp(logits) {
  let most = -Infinity, sum = 0;
  for (const logit of logits) most = Math.max(most, logit);
  for (const logit of logits) sum += Math.exp(logit - most);
  return most + Math.log(sum);
}

function greedyDecode(model, src, { maxLen } = {}) {
  const limit = lengthLimit(model, src, maxLen);
  let prefix = new Prefix(model, model.encode(src));
  while (prefix.tokens.length < limit) {
    const [token] = topk(prefix.nextLogits(), 1);
    if (token === model.config.eos_id) break;
    prefix = prefix.extend({ token });
  }
  return prefix.tokens;
}

/* The likeliest ways to write one more token, over all hypotheses. */
function extensions(prefixes, number) {
  const each = prefixes.flatMap((prefix) => {
    const logits = prefix.nextLogits();
    const sofar = prefix.logProb - logSumExp(logits);
    return topk(logits, number).map((token) =>
      ({ prefix, token, logProb: sofar + logits[token] }));
  });
  return each.sort((a, b) => b.logProb - a.logProb).slice(0, number);
}

/* Follow `beamSize` beginnings at a time; return the translations found, best first. */
function beamSearch(model, src,
  { beamSize = 4, alpha = 0.6, maxLen, onStep = () => {} } = {}) {
  const { eos_id: eosId } = model.config;
  const limit = lengthLimit(model, src, maxLen);
  const hypothesis = ({ prefix, token, logProb }) => {
    const ended = token === eosId;
    const score = logProb / lengthPenalty(prefix.tokens.length + 1, alpha);
    const tokens = ended ? prefix.tokens : [...prefix.tokens, token];
    return { tokens, logProb, score, ended };
  };
  const found = [];
  let prefixes = [new Prefix(model, model.encode(src))];
  for (let length = 1; found.length < beamSize && length <= limit; length++) {
    const candidates = extensions(prefixes, 2 * beamSize);
    const ended = candidates.slice(0, beamSize).filter((c) => c.token === eosId);
    const goingOn = candidates.filter((c) => c.token !== eosId).slice(0, beamSize);
    onStep([...ended, ...goingOn].map(hypothesis));
    found.push(...ended.map(hypothesis));
    if (length === limit) found.push(...goingOn.map(hypothesis));
    prefixes = goingOn.map((extension) => extension.prefix.extend(extension));
  }
  found.sort((a, b) => b.ended - a.ended || b.score - a.score);
  return found.slice(0, beamSize);
}
