"""The decoder once more, for writing only: the same logits with fewer operations."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.module import _has_any_global_hook

from transformer_lib.faster.known_parts import unknown_part
from transformer_lib.model import (
    Decoder,
    DecoderLayer,
    FeedForward,
    MultiHeadAttention,
    Residual,
    Transformer,
    TransformerConfig,
)
from transformer_lib.variants import (
    CausalLayer,
    CausalStack,
    DecoderAlone,
    GroupedAttention,
    ModernTransformer,
)

ROOM = 64  # positions reserved at first; twice as many whenever they are full
MANY = 8  # sentences, from which on the matrix of the output is worth a copy
MODELS = {Transformer, ModernTransformer, DecoderAlone}
KNOWN = MODELS | {Decoder, DecoderLayer, CausalStack, CausalLayer, FeedForward}
KNOWN |= {MultiHeadAttention, GroupedAttention, Residual}
KNOWN |= {nn.Dropout, nn.LayerNorm, nn.Linear, nn.ModuleList}


class FastDecoder(nn.Module):
    """A model that only writes, and takes the model's place in ``decoding``.

        greedy_decode(FastDecoder(model), src)

    It keeps nothing of the weights: they are packed anew for every batch, so that the
    model may go on learning in between.

    Args:
        model: The model that it writes for.
    """

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    @property
    def config(self) -> TransformerConfig:
        """The model's sizes and choices."""
        return self.model.config

    def encode(self, src: Tensor) -> Tensor:
        """Read the source, as the model does."""
        return self.model.encode(src)

    def new_cache(self) -> "FastCache":
        """Make the empty cache that a new batch needs.

        Raises:
            ValueError: If the model is in training mode, or ``why_unsupported`` finds a
                reason.
        """
        if any(module.training for module in self.model.modules()):
            raise ValueError("model must be in evaluation mode, got training mode")
        found = why_unsupported(self.model)
        if found is not None:
            raise ValueError(f"model must hold only what is known here, got {found}")
        return FastCache(self.model.decoder, self.model.output)

    @torch.inference_mode()
    def decode(
        self,
        tgt: Tensor,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: "FastCache | None" = None,
    ) -> Tensor:
        """Score the next token, as ``Transformer.decode`` does with a cache.

        Args:
            tgt: The newest token of every row, shape (B, 1).
            memory: What ``encode`` returned, shape (B, S, d_model), the same tensor
                with every token; None for a ``DecoderAlone``.
            memory_mask: Shape (B, 1, 1, S); with ``memory``. Only the first token's
                call reads the two.
            cache: What ``new_cache`` returned for this batch.

        Returns:
            Logits, shape (B, 1, tgt_vocab_size).

        Raises:
            TypeError: If ``cache`` does not come from ``new_cache``.
            ValueError: As for ``Transformer.decode``.
        """
        if not isinstance(cache, FastCache):
            kind = type(cache).__name__
            raise TypeError(f"cache must come from new_cache, got {kind}")
        if tgt.dim() == 2 and tgt.size(1) != 1:
            raise ValueError(f"tgt must be one new position, got {tgt.size(1)}")
        model = self.model
        x = model.tgt_positions(model.tgt_embedding(tgt), cache.length)
        if cache.length == 0:
            cache.begin(len(tgt), memory, memory_mask)
        elif memory is not cache.memory:
            raise ValueError(
                "memory must be the one that the cache was filled from, got another"
            )
        elif len(tgt) != len(cache.past):
            raise ValueError(
                "tgt must have as many rows as the cache, "
                f"got {len(tgt)} and {len(cache.past)}"
            )
        x = cache.step(x[:, 0])
        if model.decoder.norm is not None:
            x = model.decoder.norm(x)  # (B, d_model)
        return cache.output(x)[:, None]  # (B, 1, tgt_vocab_size)


class FastCache:
    """What one batch needs from step to step: packed layers, keys, values and masks.

    The rows of a sentence lie side by side, ``width`` of them, and share its source. In
    a beam no key ever moves: ``past`` says which of the sentence's keys are whose.

    Args:
        decoder: The decoder to be packed.
        output: The last product, to the vocabulary.

    Attributes:
        length: The number of target positions kept, which is the next token's position.
    """

    def __init__(self, decoder: Decoder, output: nn.Module) -> None:
        self.decoder, self.output = decoder, output
        self.length = 0

    def begin(
        self, rows: int, memory: Tensor | None, memory_mask: Tensor | None
    ) -> None:
        """Pack the weights, reserve room, and project the memory.

        Args:
            rows: The number of sentences.
            memory: Shape (B, S, d_model), or None without cross-attention.
            memory_mask: Shape (B, 1, 1, S); True = may attend.

        Raises:
            ValueError: If ``memory`` or its mask is missing, or is one too many.
        """
        if memory is not None and memory_mask is None:
            raise ValueError("memory_mask must come with memory, got None")
        if (memory is None) != isinstance(self.decoder, CausalStack):
            shape = None if memory is None else tuple(memory.shape)
            raise ValueError(
                f"memory must be given with cross-attention and not else, got {shape}"
            )
        self.layers = [FastLayer(layer, rows) for layer in self.decoder.layers]
        if rows >= MANY and unknown_part([("output", self.output)], KNOWN) is None:
            self.output = column_major(self.output)
        self.memory, self.hidden = memory, None
        self._share(rows, 1)
        if memory is not None:
            hidden = torch.where(memory_mask, 0.0, float("-inf"))  # (B, 1, 1, S)
            self.hidden = hidden.to(memory.dtype)
            for layer in self.layers:
                layer.read(memory)

    def step(self, x: Tensor) -> Tensor:
        """Run the layers for the newest position of every row, each (rows, d_model)."""
        own = self.own.repeat(len(x) // self.width, 1)[:, None]  # (rows, 1, width)
        self.past = torch.cat([self.past, own], dim=1)  # (rows, length, width)
        past = None  # a row alone sees all that is kept
        if self.width > 1:
            past = self.past.view(len(x) // self.width, 1, self.width, -1)
        for layer in self.layers:
            x = layer.step(x, self.length, past, self.hidden)
        self.length += 1
        return x

    @torch.inference_mode()
    def select(self, rows: Tensor, *, same_memory: bool = False) -> None:
        """Keep only these rows of the batch, in this order; a row may come twice.

        Args:
            rows: Row numbers, shape (rows).
            same_memory: True says that every row gets one of the same sentence. Then
                no key moves.
        """
        if self.length == 0:
            return
        self.past = self.past.index_select(0, rows)  # (rows, length, width)
        if same_memory:
            return
        owners = rows // self.width
        sentences, counts = owners.unique_consecutive(return_counts=True)
        if counts.min() != counts.max():  # then every row gets a source of its own
            sentences = owners
        if self.hidden is not None:
            self.hidden = self.hidden.index_select(0, sentences)
        width = len(rows) // len(sentences)
        if width == self.width:  # whole sentences leave
            for layer in self.layers:
                layer.keep(sentences, self.length)
            return
        slots = self.past.argmax(dim=-1)  # (rows, length)
        for layer in self.layers:
            layer.regroup(owners, slots, sentences)
        self._share(len(rows), width)

    def _share(self, rows: int, width: int) -> None:
        """Let every row see its own slot of its sentence, at all positions so far."""
        hidden = self.layers[0].room.new_full((width, width), float("-inf"))
        self.own = hidden.fill_diagonal_(0.0)
        self.width = width
        self.past = self.own.repeat(rows // width, 1)[:, None].repeat(1, self.length, 1)


class FastLayer:
    """A decoder layer for one batch: its weights packed, its keys and values.

    Args:
        layer: The layer of the model.
        sentences: The number of sentences.
    """

    def __init__(self, layer: DecoderLayer, sentences: int) -> None:
        own, inner = layer.self_attention, layer.feed_forward
        self.w_qkv, self.w_o = packed(own.w_q, own.w_k, own.w_v), packed(own.w_o)
        self.around_self = residual_of(layer.self_attention_residual)
        # Of keys and values, (2, B, H, room, width, d_k).
        d_k = own.w_q.out_features // own.num_heads
        self.room = own.w_q.weight.new_zeros(2, sentences, own.num_heads, ROOM, 1, d_k)
        self.cross = getattr(layer, "cross_attention", None)
        if self.cross is not None:
            self.cross_q, self.cross_o = packed(self.cross.w_q), packed(self.cross.w_o)
            self.around_cross = residual_of(layer.cross_attention_residual)
        self.w_1, self.activation = packed(inner.w_1), inner.activation
        self.w_2 = packed(inner.w_2)
        self.around_feed_forward = residual_of(layer.feed_forward_residual)

    def read(self, memory: Tensor) -> None:
        """Project the memory (B, S, d_model), once for all rows of a sentence."""
        k, v = self.cross._project(memory, memory)  # (B, H, S, d_k), (B, H, S, d_k)
        self.source = k.contiguous(), v.contiguous()

    def step(
        self, x: Tensor, length: int, past: Tensor | None, hidden: Tensor | None
    ) -> Tensor:
        """Run the layer for the newest position of every row.

        Args:
            x: Shape (rows, d_model).
            length: How many positions are kept.
            past: What is added to the scores of the target, shape (B, 1, width,
                (length + 1) * width): 0 or minus infinity.
            hidden: What is added to those of the source, shape (B, 1, 1, S).

        Returns:
            Shape (rows, d_model).
        """
        x = self.around_self(x, lambda x: self._attend_to_past(x, length, past))
        if self.cross is not None:
            x = self.around_cross(x, lambda x: self._attend_to_source(x, hidden))
        return self.around_feed_forward(
            x, lambda x: self.w_2(self.activation(self.w_1(x)))
        )

    def keep(self, sentences: Tensor, length: int) -> None:
        """Keep only these sentences, and move what is used of their room.

        Args:
            sentences: Their numbers, shape (B).
            length: How many positions are kept.
        """
        kept = self.room[:, :, :, :length].index_select(1, sentences)
        if len(sentences) > self.room.size(1):
            self.room = kept.new_zeros(2, len(sentences), *self.room.shape[2:])
        self.room = self.room[:, : len(sentences)]  # (2, B, H, room, width, d_k)
        self.room[:, :, :, :length] = kept
        self._keep_source(sentences)

    def regroup(self, owners: Tensor, slots: Tensor, sentences: Tensor) -> None:
        """Lay the room out anew for another number of rows in each sentence.

        Args:
            owners: The sentence that each row comes from, shape (rows).
            slots: Where its keys are, at each position, shape (rows, length).
            sentences: The sentences that are kept, shape (B).
        """
        length, width = slots.size(1), len(owners) // len(sentences)
        positions = torch.arange(length, device=slots.device)
        kept = self.room.permute(1, 3, 4, 0, 2, 5)  # (B, room, width, 2, H, d_k)
        kept = kept[owners[:, None], positions, slots]  # (rows, length, 2, H, d_k)
        kept = kept.unflatten(0, (-1, width)).permute(3, 0, 4, 2, 1, 5)
        _, _, heads, room, _, d_k = self.room.shape
        self.room = kept.new_zeros(2, len(sentences), heads, room, width, d_k)
        self.room[:, :, :, :length] = kept
        self._keep_source(sentences)

    def _keep_source(self, sentences: Tensor) -> None:
        if self.cross is not None:
            k, v = self.source
            self.source = k.index_select(0, sentences), v.index_select(0, sentences)

    def _attend_to_past(self, x: Tensor, length: int, past: Tensor | None) -> Tensor:
        if length == self.room.size(3):
            self.room = F.pad(self.room, (0, 0, 0, 0, 0, length))
        _, _, heads, _, width, d_k = self.room.shape
        new = self.w_qkv(x).view(-1, width, 3, heads, d_k)
        new = new.permute(2, 0, 3, 1, 4)  # (3, B, H, width, d_k)
        self.room[:, :, :, length] = new[1:]
        kept = self.room[:, :, :, : length + 1].flatten(3, 4)
        k, v = kept.unbind()  # (B, H, S, d_k), (B, H, S, d_k)
        heads = F.scaled_dot_product_attention(new[0], k, v, past)
        return self.w_o(merge_heads(heads))

    def _attend_to_source(self, x: Tensor, hidden: Tensor) -> Tensor:
        k, v = self.source
        q = self.cross_q(x).view(len(k), -1, k.size(1), k.size(3))
        q = q.transpose(1, 2)  # (B, H, width, d_k)
        return self.cross_o(
            merge_heads(F.scaled_dot_product_attention(q, k, v, hidden))
        )


def merge_heads(heads: Tensor) -> Tensor:
    """Lay the heads side by side: (B, H, width, d_k) to (B * width, H * d_k)."""
    return heads.transpose(1, 2).flatten(2).flatten(0, 1)


def packed(*linears: nn.Linear) -> Callable[[Tensor], Tensor]:
    """Make one product of several that read the same; their outputs lie side by side.

    Args:
        *linears: Layers of the model, all with a bias or all without.
    """
    weight, bias = linears[0].weight, linears[0].bias
    if len(linears) > 1:
        weight = torch.cat([linear.weight for linear in linears])
        if bias is not None:
            bias = torch.cat([linear.bias for linear in linears])
    return lambda x: F.linear(x, weight, bias)


def column_major(linear: nn.Linear) -> Callable[[Tensor], Tensor]:
    """Make the same product from a copy of the matrix that lies column by column.

    A large matrix is read faster that way by a batch, once the copy has been paid for.
    """
    weight, bias = linear.weight.t().contiguous().t(), linear.bias
    return lambda x: F.linear(x, weight, bias)


def residual_of(residual: Residual) -> Callable[[Tensor, Callable], Tensor]:
    """Make a ``Residual`` without dropout, which takes the same arguments."""
    norm = residual.norm
    settings = norm.normalized_shape, norm.weight, norm.bias, norm.eps
    if residual.norm_first:
        return lambda x, sublayer: x + sublayer(F.layer_norm(x, *settings))
    return lambda x, sublayer: F.layer_norm(x + sublayer(x), *settings)


def why_unsupported(model: Transformer) -> str | None:
    """Name what of a model only the model itself can compute, if there is anything.

    That is a layer of another kind, such as a quantised one, attention that is computed
    otherwise or recorded, projections that cannot be packed, and a hook or a method
    that replaces one of a class, since the modules of the decoder are not called.

    Args:
        model: The model. Its encoder, embedding and output may be anything, since they
            are called.

    Returns:
        What is first found, and where; None if there is nothing.
    """
    if _has_any_global_hook():
        return "a hook at every module"
    if type(model) not in MODELS:
        return f"a {type(model).__name__}"
    modules = dict(model.decoder.named_modules(prefix="decoder"))
    found = unknown_part([*modules.items(), ("", model)], KNOWN)
    if found is not None:
        return found
    for name, module in modules.items():
        if isinstance(module, MultiHeadAttention):
            projections = module.w_q, module.w_k, module.w_v
            if len({(x.weight.shape, x.bias is None) for x in projections}) > 1:
                return f"projections of different shapes or biases at {name}"
    return None
