/* Keep the attention weights of every head while something runs. */
function recordAttention(model, run) {
  const maps = {}; /* layer's name -> heads, then queries, then keys */
  const layers = Object.entries({ encoder: model.encoder, decoder: model.decoder })
    .flatMap(([stack, { layers }]) => layers.flatMap((layer, i) =>
      ["self_attention", "cross_attention"].filter((name) => layer[name])
        .map((name) => [`${stack}.layers.${i}.${name}`, layer[name]])));
  for (const [name, layer] of layers) {
    maps[name] = Array.from({ length: layer.num_heads }, () => []);
    layer.attend = (q, k, v) => q.map((head, h) => {
      const { attended, weights } = scaledDotProductAttention(head, k[h], v[h]);
      maps[name][h].push(...weights);
      return attended;
    });
  }
  try {
    run();
  } finally {
    for (const [, layer] of layers) delete layer.attend; /* back to the class's own */
  }
  return maps;
}
