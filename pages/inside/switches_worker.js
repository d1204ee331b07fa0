/* What computes, beside the page. It is sent the packed model first, and then sentences
   with the heads that are on. */

/* The attention layers in the order of the switches. */
const attentionLayers = ({ encoder, decoder }) => [
  ...encoder.layers.map(({ self_attention }) => self_attention),
  ...decoder.layers.map(({ self_attention }) => self_attention),
  ...decoder.layers.map(({ cross_attention }) => cross_attention)];

/* Multiply what each head hands to w_o by a factor: 1 if it is on, 0 if it is off. */
function setFactors(model, factors) {
  const attend = MultiHeadAttention.prototype.attend;
  attentionLayers(model).forEach((layer, i) => {
    const own = factors.slice(i * layer.num_heads, (i + 1) * layer.num_heads);
    layer.attend = (q, k, v) => attend.call(layer, q, k, v).map((head, h) =>
      head.map((vector) => vector.map((value) => own[h] * value)));
  });
}

/* The probability of a whole translation: the product over its tokens. */
function probabilityOf({ model, tokenizer }, src, target) {
  const logs = model.forward(src, [tokenizer.bosId, ...target.slice(0, -1)])
    .map((logits, t) => {
      logits[model.config.pad_id] = -Infinity; /* never written */
      return logits[target[t]] - logSumExp(logits);
    });
  return Math.exp(logs.reduce((sum, log) => sum + log, 0));
}

let translator;

self.onmessage = ({ data: { packed, number, src, target, factors } }) => {
  translator ??= new Translator(packed);
  const { model, tokenizer } = translator;
  setFactors(model, factors);
  const maxLen = 2 * target.length; /* without some heads it never ends */
  const tokens = greedyDecode(model, src, { maxLen });
  postMessage({ number, german: tokenizer.clean(tokenizer.decode(tokens)),
    isCut: tokens.length === maxLen, probability: probabilityOf(translator, src, target) });
};
