"""What a large run needs, on paper: memory, operations, bytes to send, seconds.

Everything is an estimate from a handful of numbers. It knows which plan cannot work,
and roughly where the time of one that can will go. What every message costs however
short it is, and the products of queries with keys, are left out; what a run really
takes is for a run to say.

``memory``, ``traffic`` and ``seconds`` take the ``model`` that is trained, the
``split`` that says how it is shared out, and the ``tokens`` of a whole step, over all
workers.
"""

from dataclasses import dataclass
from typing import Self

from transformer_lib.checks import require_one_of, require_positive

WEIGHT, GRADIENT, STATE = 2, 2, 12  # bytes: bfloat16 twice, then three float32
SHORT = 2  # bytes of a number that travels or is kept for the gradients
SHARDED = ("nothing", "optimiser", "everything")


@dataclass(frozen=True, kw_only=True)
class ModelSize:
    """What of a model decides how much it needs.

    Args:
        parameters: All of them.
        d_model: Width of the vectors between the layers.
        d_ff: Inner width of the feed-forward networks.
        d_kv: Width of all keys of a position together.
        attentions: Attention sublayers that a token goes through.
        feed_forwards: Feed-forward sublayers that a token goes through.
        vocab_size: Scores for each token.
        gated: Whether the feed-forward networks have a third matrix, a gate.
        dropout: Whether it has dropout, whose masks are kept.

    Raises:
        ValueError: If a size is not positive.
    """

    parameters: int
    d_model: int
    d_ff: int
    d_kv: int
    attentions: int
    feed_forwards: int
    vocab_size: int
    gated: bool = False
    dropout: bool = False

    def __post_init__(self) -> None:
        sizes = {name: size for name, size in vars(self).items() if size is not False}
        require_positive(**sizes)

    @classmethod
    def base(cls) -> Self:
        """Describe the paper's base model.

        A token stands for a pair here, one of the source and one of the target:
        together they go through all layers of both stacks.

        Source: Vaswani et al. (2017), table 3.
        """
        return cls(
            parameters=63_082_496,
            d_model=512,
            d_ff=2048,
            d_kv=512,
            attentions=18,
            feed_forwards=12,
            vocab_size=37_000,
            dropout=True,
        )

    @classmethod
    def llama_2_70b(cls) -> Self:
        """Describe a decoder-only model of 70 billion parameters.

        Its keys and values have 8 heads of 128 features, its queries 64.

        Source: Touvron et al. (2023), table 1 and section 2.2; the widths are those of
        the checkpoint's configuration.
        """
        d_model, d_ff, d_kv, layers, vocab_size = 8192, 28_672, 1024, 80, 32_000
        layer = 2 * d_model**2 + 2 * d_model * d_kv + 3 * d_model * d_ff + 2 * d_model
        return cls(
            parameters=layers * layer + 2 * vocab_size * d_model + d_model,
            d_model=d_model,
            d_ff=d_ff,
            d_kv=d_kv,
            attentions=layers,
            feed_forwards=layers,
            vocab_size=vocab_size,
            gated=True,
        )


@dataclass(frozen=True, kw_only=True)
class Split:
    """How a step is shared out among workers: ``data * tensor * pipeline`` of them.

    Args:
        data: Groups that have parts of the batch each.
        tensor: Workers that have a part of every matrix each.
        pipeline: Stages, which have some of the layers each.
        sharded: What the data groups share out instead of each keeping all of it:
            ``"nothing"``, the ``"optimiser"`` state, or ``"everything"``: the weights
            and gradients, too.
        parts: Parts of a group's batch that are worked on one after another.
        recompute: Whether a layer keeps its input alone, and the rest is computed
            twice.

    Raises:
        ValueError: If a number is below 1, or ``sharded`` is unknown.
    """

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    sharded: str = "nothing"
    parts: int = 1
    recompute: bool = False

    def __post_init__(self) -> None:
        require_positive(data=self.data, tensor=self.tensor)
        require_positive(pipeline=self.pipeline, parts=self.parts)
        require_one_of(SHARDED, sharded=self.sharded)

    @property
    def workers(self) -> int:
        """How many there are."""
        return self.data * self.tensor * self.pipeline


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What a worker is, and what lies between workers.

    Args:
        operations: In a second, at best.
        memory: Bytes of a worker.
        inside: Bytes in a second that a worker sends to others of its machine.
        between: Bytes in a second that it sends to other machines.
        workers: In a machine.
        reached: The share of ``operations`` that products reach, in (0, 1].

    Raises:
        ValueError: If a number is not positive, or ``reached`` is above 1.
    """

    operations: float
    memory: float
    inside: float
    between: float
    workers: int = 8
    reached: float = 0.4

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:  # as nan is not
                raise ValueError(f"{name} must be above 0, got {value}")
        if self.reached > 1:
            raise ValueError(f"reached must be at most 1, got {self.reached}")

    @classmethod
    def h100(cls) -> Self:
        """Describe one of eight GPUs in a machine, with a network card for each.

        Source: NVIDIA's data sheets of the H100 SXM (bfloat16 without sparsity; NVLink
        in one direction) and of the DGX H100 (400 Gb/s for each GPU).
        """
        return cls(operations=989e12, memory=80e9, inside=450e9, between=50e9)


def training_operations(model: ModelSize, tokens: float) -> float:
    """Count the operations of training on so many tokens.

    Every parameter is multiplied and added once for a token on the way forward, which
    makes two operations, and twice on the way back. The products of queries with keys,
    a few per cent at usual lengths, are left out.

    Source: Kaplan et al. (2020), section 2.1.
    """
    return 6 * model.parameters * tokens


def kept_per_token(model: ModelSize, recompute: bool = False) -> tuple[float, float]:
    """Count what a forward pass keeps of a token for the gradients, in bytes.

    Numbers have two bytes, a mask of dropout one, the scores of the vocabulary four.
    Attention is fused, so that its scores are not kept.

    Returns:
        For all layers, and for the scores of the vocabulary.

    Source: Korthikanti et al. (2022), section 4.1, for other shapes.
    """
    d, d_kv, d_ff = model.d_model, model.d_kv, model.d_ff
    if recompute:
        return SHORT * d * model.feed_forwards, 4 * model.vocab_size
    mask = d if model.dropout else 0
    attention = SHORT * (4 * d + 2 * d_kv) + mask  # x, query, key, value, w_o's, norm
    inner = 4 if model.gated else 2  # before and after the activation; the gate's two
    feed_forward = SHORT * (2 * d + inner * d_ff) + mask  # x, inner ones, norm
    layers = model.attentions * attention + model.feed_forwards * feed_forward
    return layers, 4 * model.vocab_size


def memory(model: ModelSize, split: Split, tokens: float) -> dict[str, float]:
    """Count what the fullest worker holds, in bytes, by part.

    Returns:
        The weights, gradients, the state of the optimiser (Adam's two averages, and the
        weights in float32), and activations. Sharded weights are brought together for
        a layer at a time: that one, and the next, are counted with the weights.

    Source: Rajbhandari et al. (2020), sections 3.1 and 5; Narayanan et al. (2021),
    section 2.2, for the parts of a pipeline that are on their way.
    """
    mine = model.parameters / (split.tensor * split.pipeline)
    whole = split.data if split.sharded == "everything" else 1
    state = 1 if split.sharded == "nothing" else split.data
    layers = model.feed_forwards / split.pipeline
    together = 0 if whole == 1 else 2 * WEIGHT * mine / layers
    kept, scores = kept_per_token(model, split.recompute)
    part = tokens / (split.data * split.parts) / split.tensor  # a worker's own tokens
    under_way = min(split.parts, split.pipeline) / split.pipeline
    if split.recompute:  # one layer has all of its activations, too
        scores += kept_per_token(model)[0] / model.feed_forwards
    return {
        "weights": WEIGHT * mine / whole + together,
        "gradients": GRADIENT * mine / whole,
        "optimiser": STATE * mine / state,
        "activations": part * (kept * under_way + scores),
    }


def traffic(model: ModelSize, split: Split, tokens: float) -> dict[str, float]:
    """Count what a worker sends in a step, in bytes, by the reason.

    Returns:
        ``"data"``: the gradients are added up, which sends nearly twice their size; if
        everything is sharded, each part needs the weights twice and hands its gradients
        over. ``"tensor"``: two all-reduces of the vectors for each sublayer, one on
        either way. ``"pipeline"``: the vectors to the next stage, and the gradients
        back.

    Source: Patarasuk and Yuan (2009) for the ring; Rajbhandari et al. (2020), section
    7; Shoeybi et al. (2019), section 3; Narayanan et al. (2021), section 3.
    """
    mine = SHORT * model.parameters / (split.tensor * split.pipeline)
    vectors = SHORT * model.d_model * tokens / split.data
    sublayers = (model.attentions + model.feed_forwards) / split.pipeline
    times = 3 * split.parts if split.sharded == "everything" else 2
    return {
        "data": times * ring_share(split.data) * mine,
        "tensor": 2 * sublayers * 2 * ring_share(split.tensor) * vectors,
        "pipeline": 2 * vectors if split.pipeline > 1 else 0.0,
    }


def ring_share(workers: int) -> float:
    """Give the share of a tensor that each worker sends in half a ring all-reduce."""
    return (workers - 1) / workers


def seconds(
    model: ModelSize, split: Split, tokens: float, machine: Machine
) -> dict[str, float]:
    """Estimate where the time of a step goes on a machine, in seconds, by the reason.

    Workers of a tensor group stand side by side.

    Returns:
        ``"compute"``, ``"idle"`` (a pipeline that fills and empties), ``"tensor"`` and
        ``"pipeline"``, which the computing waits for, and ``"data"``: what of that
        traffic is longer than all of the others, since it can be sent meanwhile.

    Source: Huang et al. (2019), section 2.3, for the idle time.
    """
    compute = training_operations(model, tokens) / (
        split.workers * machine.operations * machine.reached
    )
    if split.recompute:
        compute *= 4 / 3  # one more pass forward
    far = machine.between if split.workers > machine.workers else machine.inside
    near = machine.between if split.tensor > machine.workers else machine.inside
    sent = traffic(model, split, tokens)
    spent = {
        "compute": compute,
        "idle": compute * (split.pipeline - 1) / split.parts,
        "tensor": sent["tensor"] / near,
        "pipeline": sent["pipeline"] / far,
    }
    return spent | {"data": max(0.0, sent["data"] / far - sum(spent.values()))}
