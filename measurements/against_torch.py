"""Time and memory of our Transformer beside torch.nn.Transformer, in one process.

    python measurements/against_torch.py               # the models, one and two threads
    python measurements/against_torch.py --attention   # one attention layer, memory
    python measurements/against_torch.py --decoding    # greedy decoding, one thread

Both sides have the same sizes, embeddings, positions, output projection and optimiser;
only the encoder and the decoder differ. Dropout is 0 on both. Runs are interleaved,
the side that goes first alternates, and the table gives medians with the quartiles of
the ratio between neighbouring runs. Memory is the peak of what one run allocates,
counted by the profiler. Close other programs first; ``--decoding`` measures processor
time, which they disturb less.
"""

import argparse
import platform
import statistics
import time
import warnings
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from transformer_lib.decoding import greedy_decode
from transformer_lib.faster import FastDecoder, autocast, checkpoint_layers
from transformer_lib.model import (
    MultiHeadAttention,
    Transformer,
    TransformerConfig,
    causal_mask,
    fused_attention,
    record_attention,
)
from transformer_lib.patching import patched

BATCH, LENGTH, VOCABULARY, PAD, BOS = 32, 24, 1000, 0, 1
SIZES = (  # a translator for small data, one in between, and the paper's base model
    {"d_model": 128, "num_heads": 4, "d_ff": 256, "num_layers": 4},
    {"d_model": 256, "num_heads": 8, "d_ff": 1024, "num_layers": 3},
    {"d_model": 512, "num_heads": 8, "d_ff": 2048, "num_layers": 6},
)


class TorchTransformer(nn.Module):
    """nn.Transformer as a user would build it, inside our embeddings and output."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.around = Transformer(config)
        del self.around.encoder, self.around.decoder
        self.transformer = nn.Transformer(
            config.d_model,
            config.num_heads,
            config.num_layers,
            config.num_layers,
            config.d_ff,
            dropout=config.dropout,
            batch_first=True,
        )

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        around, padding = self.around, src == PAD
        hidden = self.transformer(
            around.src_positions(around.src_embedding(src)),
            around.tgt_positions(around.tgt_embedding(tgt)),
            tgt_mask=~causal_mask(tgt.size(1))[0, 0],
            src_key_padding_mask=padding,
            tgt_key_padding_mask=tgt == PAD,
            memory_key_padding_mask=padding,
        )
        return around.output(hidden)


def batch() -> tuple[Tensor, Tensor]:
    """Source and target ids, shape (BATCH, LENGTH); a fifth of them is padding."""
    lengths = torch.linspace(0.6, 1.0, BATCH).mul(LENGTH).round()
    padding = torch.arange(LENGTH) >= lengths[:, None]
    src, tgt = torch.randint(1, VOCABULARY, (2, BATCH, LENGTH))
    return src.masked_fill(padding, PAD), tgt.masked_fill(padding, PAD)


def training_step(
    model: nn.Module, src: Tensor, tgt: Tensor, precision: str = "float32"
) -> Callable[[], None]:
    optimiser = torch.optim.Adam(model.parameters())

    def step() -> None:
        model.train()
        optimiser.zero_grad()
        with autocast(src.device, precision):
            logits = model(src, tgt[:, :-1]).flatten(0, 1)
            loss = F.cross_entropy(logits, tgt[:, 1:].flatten(), ignore_index=PAD)
        loss.backward()
        optimiser.step()

    return step


def bfloat16_step(model: nn.Module, src: Tensor, tgt: Tensor) -> Callable[[], None]:
    return training_step(model, src, tgt, "bfloat16")


def checkpointed_step(model: nn.Module, src: Tensor, tgt: Tensor) -> Callable[[], None]:
    """A training step that keeps the layers' inputs and computes the rest twice."""
    step = training_step(model, src, tgt)
    kinds = nn.TransformerEncoderLayer, nn.TransformerDecoderLayer
    torchs = [module for module in model.modules() if isinstance(module, kinds)]

    def checkpointed() -> None:
        theirs = patched(
            (layer, "forward", partial(checkpoint, layer.forward, use_reentrant=False))
            for layer in torchs
        )
        with theirs, checkpoint_layers(model):
            step()

    return checkpointed


def inference(model: nn.Module, src: Tensor, tgt: Tensor) -> Callable[[], None]:
    @torch.inference_mode()
    def run() -> None:
        model.eval()
        model(src, tgt)

    return run


def dense_inference(model: nn.Module, src: Tensor, tgt: Tensor) -> Callable[[], None]:
    """Inference with torch's encoder computing padded positions too, as ours does."""
    run = inference(model, src, tgt)
    if not isinstance(model, TorchTransformer):
        return run
    encoder = model.transformer.encoder

    def dense() -> None:
        encoder.use_nested_tensor = False
        run()
        encoder.use_nested_tensor = True

    return dense


def our_decoding(model: nn.Module, src: Tensor) -> Callable[[], None]:
    """Write LENGTH tokens for each sentence, with a model whose EOS is PAD."""

    def run() -> None:
        written = greedy_decode(model, src, max_len=LENGTH)
        assert [len(tokens) for tokens in written] == [LENGTH] * len(src)

    return run


def torch_decoding(
    model: TorchTransformer, src: Tensor, new_tokens: int = LENGTH
) -> Callable[[], None]:
    """The same with torch's layers, which have no cache: the prefix is read anew."""
    around, padding = model.around, src == PAD

    @torch.inference_mode()
    def run() -> None:
        model.eval()
        encoder, decoder = model.transformer.encoder, model.transformer.decoder
        source = around.src_positions(around.src_embedding(src))
        memory = encoder(source, src_key_padding_mask=padding)
        tgt = torch.full((len(src), 1), BOS)
        for _ in range(new_tokens):
            hidden = decoder(
                around.tgt_positions(around.tgt_embedding(tgt)),
                memory,
                tgt_mask=~causal_mask(tgt.size(1))[0, 0],
                tgt_is_causal=True,
                memory_key_padding_mask=padding,
            )
            tokens = around.output(hidden[:, -1:]).argmax(dim=-1)
            tgt = torch.cat([tgt, tokens], dim=1)

    return run


def interleaved(
    ours: Callable[[], None],
    theirs: Callable[[], None],
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[float, float, list[float]]:
    """Median milliseconds of each, and the quartiles of the ratio ours / theirs."""
    sides, times = [ours, theirs], ([], [])
    for run in sides:
        run()
        run()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 10:
        for side in (0, 1) if len(times[0]) % 2 else (1, 0):
            start = clock()
            sides[side]()
            times[side].append(clock() - start)
    ratios = [a / b for a, b in zip(*times, strict=True)]
    medians = [statistics.median(side) * 1000 for side in times]
    return *medians, statistics.quantiles(ratios, n=4)


def peak_megabytes(run: Callable[[], None]) -> float:
    """The most that one run holds at a time beyond what was there before it."""
    run()
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        run()
    events = profile.profiler.kineto_results.events()
    changes = [(e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]"]
    held = peak = 0
    for _, change in sorted(changes):
        held += change
        peak = max(peak, held)
    return peak / 1e6


def compare_models(seconds: float) -> None:
    print("| d_model | d_ff | layers | threads | what | ours ms | torch ms "
          "| ratio (quartiles) | ours MB | torch MB |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|---|")
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for sizes in SIZES:
            config = TransformerConfig(
                src_vocab_size=VOCABULARY,
                tgt_vocab_size=VOCABULARY,
                dropout=0.0,
                **sizes,
            )
            models = Transformer(config), TorchTransformer(config)
            tokens = batch()
            for what in (
                training_step,
                checkpointed_step,
                bfloat16_step,
                inference,
                dense_inference,
            ):
                ours, theirs = (what(model, *tokens) for model in models)
                a, b, (low, mid, high) = interleaved(ours, theirs, seconds)
                memory = f"{peak_megabytes(ours):.0f} | {peak_megabytes(theirs):.0f}"
                print(
                    f"| {config.d_model} | {config.d_ff} | {config.num_layers} + "
                    f"{config.num_layers} | {threads} | "
                    f"{what.__name__.replace('_', ' ')} | {a:.1f} | {b:.1f} | "
                    f"{mid:.2f} ({low:.2f} to {high:.2f}) | {memory} |",
                    flush=True,
                )


def compare_decoding(seconds: float) -> None:
    print("| d_model | d_ff | layers | what | ours ms | torch ms "
          "| ratio (quartiles) |\n|---|---|---|---|---|---|---|")  # fmt: skip
    torch.set_num_threads(1)
    for sizes in SIZES:
        config = TransformerConfig(
            src_vocab_size=VOCABULARY,
            tgt_vocab_size=VOCABULARY,
            eos_id=PAD,
            dropout=0.0,
            **sizes,
        )
        model, src = Transformer(config), batch()[0]
        theirs = torch_decoding(TorchTransformer(config), src)
        for what, ours in (
            ("readable decoder", our_decoding(model, src)),
            ("fast decoder", our_decoding(FastDecoder(model), src)),
        ):
            a, b, (low, mid, high) = interleaved(
                ours, theirs, seconds, clock=time.thread_time
            )
            print(
                f"| {config.d_model} | {config.d_ff} | {config.num_layers} + "
                f"{config.num_layers} | {what} | {a:.1f} | {b:.1f} | "
                f"{mid:.2f} ({low:.2f} to {high:.2f}) |",
                flush=True,
            )


def compare_attention() -> None:
    """Extra memory of one layer at 2,048 positions: fused against explicit."""
    layer = MultiHeadAttention(512, 8)
    x = torch.randn(4, 2048, 512, requires_grad=True)

    def forward() -> None:
        with torch.no_grad():
            layer(x, x, x)

    def both() -> None:
        layer(x, x, x).sum().backward()

    print("| one attention layer | fused MB | explicit MB |\n|---|---|---|")
    for what, run in (("forward", forward), ("forward and backward", both)):
        both()  # so that the gradients exist already
        fused = peak_megabytes(run)
        with record_attention(layer):
            explicit = peak_megabytes(run)
        assert layer.attend is fused_attention
        print(f"| {what} | {fused:.0f} | {explicit:.0f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--attention", action="store_true")
    parser.add_argument("--decoding", action="store_true")
    parser.add_argument("--seconds", type=float, default=20, help="for each comparison")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # torch's nested tensors warn that they are new
    torch.manual_seed(0)
    print(f"torch {torch.__version__}, Python {platform.python_version()}, "
          f"{platform.machine()}\n")  # fmt: skip
    if arguments.attention:
        compare_attention()
    elif arguments.decoding:
        compare_decoding(arguments.seconds)
    else:
        compare_models(arguments.seconds)


if __name__ == "__main__":
    main()
