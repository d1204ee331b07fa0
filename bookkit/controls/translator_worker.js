/* What computes, beside the page, so that the page never waits. It is sent the packed
   weights first, and then sentences; it sends back what it has written so far after every
   step, and at last all that there is to show. */

/* Hypotheses, the best first. Greedy search has one, and no score; what it writes is told
   by what it asks the model, one token after another. */
function search({ model, alpha }, src, beam, onTokens) {
  if (beam > 1) {
    const onStep = (step) => /* what has just ended stands before the rest */
      onTokens((step.find(({ ended }) => !ended) ?? step[0]).tokens);
    return beamSearch(model, src, { beamSize: beam, alpha, onStep });
  }
  const written = [], watched = Object.create(model);
  watched.decode = (token, ...others) => {
    written.push(token);
    onTokens(written.slice(1));
    return model.decode(token, ...others);
  };
  const tokens = greedyDecode(watched, src);
  return [{ tokens, ended: tokens.length < lengthLimit(model, src) }];
}

/* The translation, the probability of each of its tokens, and the weights of the
   cross-attention: layers, then heads, then German tokens, then English ones. */
function translate(translator, src, beam, onText) {
  const { model, tokenizer } = translator;
  const text = (tokens) => tokenizer.clean(tokenizer.decode(tokens));
  const began = performance.now();
  const found = search(translator, src, beam, (tokens) => onText(text(tokens)));
  const took = Math.round(performance.now() - began);
  const [{ tokens, ended }] = found;
  const target = ended ? [...tokens, tokenizer.eosId] : tokens;
  const probabilities = [];
  const maps = recordAttention(model, () => {
    const logits = model.forward(src, [tokenizer.bosId, ...target.slice(0, -1)]);
    logits.forEach((next, t) => {
      next[model.config.pad_id] = -Infinity; /* never written */
      probabilities.push(Math.exp(next[target[t]] - logSumExp(next)));
    });
  });
  /* Tokens of one byte are what is left where training has joined nothing. */
  const bytes = src.slice(0, -1).filter((id) => id < SPECIAL_TOKENS.length + 256);
  return {
    found: found.map(({ tokens, score }) => ({ text: text(tokens), score })),
    took, isCut: !ended, isBytes: bytes.length > (src.length - 1) / 2, probabilities,
    source: tokenizer.pieces(src), target: tokenizer.pieces(target),
    cross: model.decoder.layers.map((_, i) =>
      maps[`decoder.layers.${i}.cross_attention`]),
  };
}

let translator;

self.onmessage = ({ data: { packed, sentence, beam, most } }) => {
  translator ??= new Translator(packed);
  const src = translator.encode(sentence);
  if (src.length === 1 || src.length > most) {
    postMessage({ refused: src.length });
    return;
  }
  const result = translate(translator, src, beam, (text) => postMessage({ text }));
  postMessage({ result });
};
