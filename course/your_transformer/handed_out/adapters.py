"""Your Transformer: one function per piece.

Write your code here or in files beside this one, in any style: classes, functions,
other names, other layouts. The functions below are all that ``check.py`` calls, so
each may be one line that calls your own code. Do not import ``transformer_lib`` here.

Axes: B batch, T target or query positions, S source or key positions, H heads,
V vocabulary. A mask is boolean, True means "may attend", and all heads share it.
``weights`` maps the names of the book's checkpoint to tensors; matrices have the shape
(out, in), as in ``nn.Linear``. The tests use float64, and layers that you make inside
the tests have that dtype too. Dropout is 0 everywhere. The model is pre-norm.
"""


def attention(query, key, value, mask):
    """Average the values, weighted by how well each key matches the query.

    query: (B, H, T, D). key: (B, H, S, D). value: (B, H, S, D_v).
    mask: (B or 1, 1, T or 1, S). Each query may attend to at least one key.
    Returns (B, H, T, D_v).

    Example: two equal keys with values 2 and 4 give 3; with the second one hidden, 2.
    """
    raise NotImplementedError


def multi_head_attention(query, memory, mask, weights, num_heads):
    """Attend with several heads at once.

    query: (B, T, d_model). memory: (B, S, d_model), for the keys and the values; it is
    the same tensor as query in self-attention.
    mask: (B or 1, 1, T or 1, S).
    weights: "w_q.weight", "w_k.weight", "w_v.weight", "w_o.weight", each (d_model,
    d_model), and the same names with ".bias", each (d_model,).
    Returns (B, T, d_model).

    Example: with 2 heads and d_model 6, the first head owns features 0 to 2 of each
    projection.
    """
    raise NotImplementedError


def padding_mask(tokens, pad_id):
    """Hide padding from every query. tokens: ids, (B, S). Returns boolean (B, 1, 1, S).

    Example: [[5, 7, 0]] with pad_id 0 gives [[[[True, True, False]]]].
    """
    raise NotImplementedError


def causal_mask(size):
    """Hide later positions. size: T, an int. Returns boolean (1, 1, T, T).

    Example: size 2 gives [[[[True, False], [True, True]]]].
    """
    raise NotImplementedError


def feed_forward(x, weights):
    """Transform each position by itself, with a ReLU. x: (B, T, d_model).

    weights: "w_1.weight" (d_ff, d_model), "w_1.bias" (d_ff,), "w_2.weight" (d_model,
    d_ff), "w_2.bias" (d_model,).
    Returns (B, T, d_model).

    Example: if all weights are 1 and all biases 0, with d_model 1 and d_ff 3, then 2
    becomes 6 and -2 becomes 0.
    """
    raise NotImplementedError


def sublayer(x, function, weights):
    """Put a norm before a function and a residual connection around both.

    x: (B, T, d_model). function: from (B, T, d_model) to the same shape.
    weights: "norm.weight" and "norm.bias", each (d_model,); eps is 1e-5.
    Returns (B, T, d_model).

    Example: if the function returns zeros, x comes back.
    """
    raise NotImplementedError


def encoder(x, mask, weights, num_heads):
    """Run all encoder layers and the final norm.

    x: (B, S, d_model). mask: (B or 1, 1, 1, S).
    weights, for layer i = 0, 1, ... as many as there are:
        "layers.i.self_attention." + the names of multi_head_attention
        "layers.i.self_attention_residual." + the names of sublayer
        "layers.i.feed_forward." + the names of feed_forward
        "layers.i.feed_forward_residual." + the names of sublayer
    and "norm.weight", "norm.bias" for the final norm.
    Returns the memory, (B, S, d_model).

    Example: without layers, the memory would be the norm of x.
    """
    raise NotImplementedError


def decoder(x, memory, mask, memory_mask, weights, num_heads):
    """Run all decoder layers and the final norm.

    x: (B, T, d_model). memory: (B, S, d_model).
    mask: for the self-attention, causal, (1, 1, T, T).
    memory_mask: for the cross-attention, (B or 1, 1, 1, S).
    weights: those of the encoder, and in each layer also
        "layers.i.cross_attention." + the names of multi_head_attention
        "layers.i.cross_attention_residual." + the names of sublayer
    Returns (B, T, d_model).

    Example: with T = 1, `mask` hides nothing, and x reads itself and the memory.
    """
    raise NotImplementedError


def build(config):
    """Make your model, an nn.Module of any layout.

    config: has src_vocab_size and tgt_vocab_size (equal), pad_id, d_model, num_heads,
    d_ff, num_layers, max_len. One table embeds the source, embeds the target and
    scores the output (without bias). Embedded tokens are multiplied by sqrt(d_model),
    and padding becomes zero. Positions are sines and cosines, interleaved.
    Returns the module; what its parameters hold does not matter.
    """
    raise NotImplementedError


def load(model, weights):
    """Copy weights into your model, so that it can be trained from there.

    weights: "src_embedding.table.weight", (V, d_model), the one table; "encoder." + the
    names of encoder; "decoder." + the names of decoder.
    Returns nothing.
    """
    raise NotImplementedError


def logits(model, src, tgt):
    """Score every possible next token after every target prefix.

    src: ids, (B, S), with EOS, then padding. tgt: ids, (B, T), beginning with BOS.
    Your model makes its masks itself. The tests of build, load and logits are one step.
    Returns (B, T, V), with gradients to the parameters of the model.

    Example: the logits at t do not change when tgt[:, t + 1] does.
    """
    raise NotImplementedError


def greedy(model, src, bos_id, eos_id, limit):
    """Write the likeliest token at every step, for one sentence.

    src: ids, (1, S), with EOS, then padding.
    limit: the most tokens to write, EOS counted.
    Returns a list of ints, without BOS and EOS.

    Example: with limit 1, the list has the best token after BOS, or it is empty if that
    is EOS.
    """
    raise NotImplementedError


def greedy_cached(model, src, bos_id, eos_id, limit):
    """The same as greedy, but no token enters the decoder twice.

    Keep the keys and values of earlier tokens. The encoder runs once.
    """
    raise NotImplementedError
