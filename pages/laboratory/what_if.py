"""What if a part of a trained model were weaker, stronger, or not there?"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from difflib import SequenceMatcher
from functools import partial

from torch import Tensor, nn

from pages.laboratory.decoding import read
from pages.laboratory.panel import Panel, Table, choose, slide, tick, write
from transformer_lib.data import make_batch
from transformer_lib.decoding import greedy_decode
from transformer_lib.model import MultiHeadAttention, Residual, Transformer
from transformer_lib.patching import patched
from transformer_lib.training import evaluate
from transformer_lib.translation import Translator

FACTORS = [0, 0.25, 0.5, 0.75, 1, 1.5, 2, 4]
ALL = "all"


def what_if_panel(translator: Translator) -> Panel:
    """Let the reader change a part of a model, and see how it then translates.

    Args:
        translator: Its model has pre-norm layers and is restored after each run.
    """
    heads = [ALL, *map(str, range(translator.model.config.num_heads))]

    def run(sentence: str, part: str, head: str, factor: float, causal: bool) -> tuple:
        model, only = translator.model, None if head == ALL else int(head)
        whole = translate(translator, sentence)
        calm = surprise(translator, sentence, whole)
        with (
            nullcontext() if causal else without_causal_mask(model),
            altered(model, part, factor, only),
        ):
            then = translate(translator, sentence)
            startled = surprise(translator, sentence, whole)
        rows = [["as trained", whole, f"{calm:.2f}"]]
        rows += [["altered", then, f"{startled:.2f}"]]
        columns = ["model", "translation", "surprise at the first, nats per token"]
        return Table(columns, rows), changes(whole, then)

    return Panel(
        "What if?",
        run,
        move={"part": "decoder.layers.1.cross_attention"},
        sentence=write("English", "the cat reads a red book"),
        part=choose("part", list(parts(translator.model)), "src_positions"),
        head=choose("head, of an attention", heads, ALL),
        factor=slide("times", FACTORS, 0),
        causal=tick("causal mask", True),
    )


def parts(model: Transformer) -> dict[str, list[nn.Module]]:
    """Map the name of each part that can be altered to its modules."""
    named = dict(model.named_modules())
    found = {name: [named[name]] for name in ("src_positions", "tgt_positions")}
    for name, module in named.items():
        layer = name.rpartition(".")[0].endswith("layers")
        if layer or isinstance(module, MultiHeadAttention):
            found[name] = [module]
    for half in ("encoder", "decoder"):
        modules = named[half].modules()
        residuals = [module for module in modules if isinstance(module, Residual)]
        found[f"{half}'s residuals"] = residuals
    return found


@contextmanager
def altered(
    model: Transformer, part: str, factor: float, head: int | None = None
) -> Iterator[None]:
    """Multiply the output of a part of a model for a while.

        with altered(model, "encoder.layers.0.self_attention", 0, head=2):
            model(src, tgt)  # without that head

    Afterwards the model is restored, whatever happens.

    Args:
        model: A model with pre-norm layers.
        part: One of ``parts``. For positions and layers, the factor multiplies what
            they add; for an attention, the results of its heads; for residuals, the
            input that bypasses each sublayer.
        factor: The factor; 1 changes nothing.
        head: The only head of an attention to alter; None alters all of them.

    Raises:
        ValueError: If there is no such part or no such head, a head is given for what
            has none, or the layers are post-norm and their residuals are asked for.
    """
    found = parts(model)
    if part not in found:
        raise ValueError(f"part must be one of {', '.join(found)}, got {part!r}")
    modules = found[part]
    if head is not None and not hasattr(modules[0], "attend"):
        raise ValueError(f"head must be all for {part}, got {head}: it has no heads")
    if head is not None and not 0 <= head < modules[0].num_heads:
        raise ValueError(f"head must be below {modules[0].num_heads}, got {head}")
    if part.endswith("residuals") and not model.config.norm_first:
        raise ValueError("residuals can be altered in pre-norm layers, got post-norm")
    heads = slice(None) if head is None else head
    past = part.endswith("residuals")
    with ExitStack() as changes:
        for module in modules:
            if hasattr(module, "attend"):
                attend = partial(_scaled_heads, module.attend, factor, heads)
                changes.enter_context(patched([(module, "attend", attend)]))
            else:
                hook = module.register_forward_hook(_scaled(factor, past))
                changes.enter_context(hook)
        yield


def without_causal_mask(model: Transformer) -> ExitStack:
    """Let the decoder's positions see those after them, inside a ``with`` block."""
    layers = [layer.self_attention for layer in model.decoder.layers]
    return patched(
        (layer, "attend", partial(_without_mask, layer.attend)) for layer in layers
    )


def _scaled_heads(
    attend: Callable, factor: float, heads: int | slice, *inputs
) -> Tensor:
    outputs = attend(*inputs)  # (B, H, T, d_k)
    outputs[:, heads] *= factor
    return outputs


def _without_mask(
    attend: Callable, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, dropout: float
) -> Tensor:
    return attend(q, k, v, None, dropout)


def _scaled(factor: float, past: bool) -> Callable:
    """Multiply what a module adds to its input, or the input itself."""

    def hook(module: nn.Module, inputs: tuple, output: Tensor) -> Tensor:
        x = inputs[0]
        return factor * x + (output - x) if past else x + factor * (output - x)

    return hook


def translate(translator: Translator, sentence: str) -> str:
    """Translate greedily, without the cache: with it, the causal mask is not needed.

    Raises:
        ValueError: If the sentence is empty or longer than 60 tokens.
    """
    tokenizer, src = translator.tokenizer, read(translator, sentence)
    longest = 2 * src.size(1) + 5
    written = greedy_decode(translator.model, src, max_len=longest, use_cache=False)
    return tokenizer.clean(tokenizer.decode(written[0]))


def surprise(translator: Translator, sentence: str, german: str) -> float:
    """Measure the loss of a translation, in nats per token."""
    encode = translator.tokenizer.encode
    return evaluate(
        translator.model, [make_batch([(encode(sentence), encode(german))])]
    )[0]


def changes(before: str, after: str) -> str:
    """Describe which words of a translation have changed."""
    old, new = before.split(), after.split()
    told = [
        f"“{' '.join(old[a:b])}” became “{' '.join(new[c:d])}”"
        if a < b and c < d
        else f"“{' '.join(old[a:b])}” is gone"
        if a < b
        else f"“{' '.join(new[c:d])}” was added"
        for kind, a, b, c, d in SequenceMatcher(None, old, new, False).get_opcodes()
        if kind != "equal"
    ]
    return f"{'; '.join(told)}." if told else "Not a word has changed."
