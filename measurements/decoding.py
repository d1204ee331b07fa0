"""Tokens per second while decoding: ours twice, Hugging Face's Marian, torch.nn.

    python measurements/decoding.py

16 sentences of 15 to 20 tokens, random weights, a vocabulary of 8,000, and exactly 60
new tokens for each sentence: nothing ends early, since EOS is never written. Marian
runs ``generate`` with its key/value cache; torch.nn.Transformer has none and reads the
prefix anew for every token, as does ours without its cache. "Fast" is ours with its
fast decoder. All sides run in one
process on one thread, one after the other in every round, and the table gives the
median rate and the median over the rounds of ours divided by theirs. Times are those of
the processor, so that other programs disturb them less.
"""

import argparse
import platform
import statistics
import time
from collections.abc import Callable

import torch
import transformers
from against_torch import BOS, PAD, SIZES, TorchTransformer, torch_decoding
from torch import Tensor, nn

from transformer_lib.decoding import beam_search, greedy_decode
from transformer_lib.faster import FastDecoder
from transformer_lib.model import Transformer, TransformerConfig

SENTENCES, NEW_TOKENS, VOCABULARY, BEAM = 16, 60, 8000, 4


def batch() -> Tensor:
    """Source ids, shape (SENTENCES, 20); lengths from 15 to 20."""
    src = torch.randint(2, VOCABULARY, (SENTENCES, 20))
    lengths = 15 + torch.arange(SENTENCES) % 6
    return src.masked_fill(torch.arange(20) >= lengths[:, None], PAD)


def marian(config: TransformerConfig) -> transformers.MarianMTModel:
    """Marian with the sizes of ours; its generation never looks for EOS."""
    theirs = transformers.MarianMTModel(
        transformers.MarianConfig(
            vocab_size=VOCABULARY,
            d_model=config.d_model,
            encoder_layers=config.num_layers,
            decoder_layers=config.num_layers,
            encoder_attention_heads=config.num_heads,
            decoder_attention_heads=config.num_heads,
            encoder_ffn_dim=config.d_ff,
            decoder_ffn_dim=config.d_ff,
            activation_function="relu",
            max_position_embeddings=config.max_len,
            scale_embedding=True,
            pad_token_id=PAD,
            bos_token_id=None,
            eos_token_id=None,
            forced_eos_token_id=None,
            decoder_start_token_id=BOS,
        )
    )
    return theirs.eval()


def marian_decoding(
    model: transformers.MarianMTModel, src: Tensor, beams: int
) -> Callable[[], None]:
    def run() -> None:
        written = model.generate(
            src,
            attention_mask=(src != PAD).long(),
            num_beams=beams,
            do_sample=False,
            max_new_tokens=NEW_TOKENS,
            use_cache=True,
        )
        assert written.shape == (SENTENCES, 1 + NEW_TOKENS)

    return run


def decoders(config: TransformerConfig) -> dict[str, Callable[[], None]]:
    """Everything to be measured, by its column in the table."""
    src = batch()
    ours, theirs = Transformer(config), marian(config)
    fast = FastDecoder(ours)

    def greedy(model: nn.Module, use_cache: bool = True) -> None:
        written = greedy_decode(model, src, max_len=NEW_TOKENS, use_cache=use_cache)
        assert [len(tokens) for tokens in written] == [NEW_TOKENS] * SENTENCES

    def beam(model: nn.Module) -> None:
        found = beam_search(model, src, max_len=NEW_TOKENS, beam_size=BEAM)
        assert all(len(h.tokens) == NEW_TOKENS for best in found for h in best)

    return {
        "greedy": lambda: greedy(ours),
        "fast greedy": lambda: greedy(fast),
        "Marian greedy": marian_decoding(theirs, src, 1),
        "beam": lambda: beam(ours),
        "fast beam": lambda: beam(fast),
        "Marian beam": marian_decoding(theirs, src, BEAM),
        "no cache": lambda: greedy(ours, use_cache=False),
        "torch.nn": torch_decoding(TorchTransformer(config), src, NEW_TOKENS),
    }


def compare(config: TransformerConfig, rounds: int) -> str:
    """Measure all of them, interleaved; one row of the table."""
    runs = decoders(config)
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(1 + rounds):  # the first is for warming up
        for name, run in runs.items():
            start = time.process_time()
            run()
            if number > 0:
                seconds[name].append(time.process_time() - start)

    def rate(name: str) -> str:
        return f"{SENTENCES * NEW_TOKENS / statistics.median(seconds[name]):,.0f}"

    def ratio(ours: str, theirs: str) -> str:
        pairs = zip(seconds[theirs], seconds[ours], strict=True)
        return f"{statistics.median(a / b for a, b in pairs):.2f}"

    layers = f"{config.num_layers} + {config.num_layers}"
    cells = [config.d_model, config.d_ff, layers, *map(rate, runs)]
    cells += [
        ratio("greedy", "Marian greedy"),
        ratio("fast greedy", "Marian greedy"),
        ratio("beam", "Marian beam"),
        ratio("fast beam", "Marian beam"),
        ratio("greedy", "no cache"),
        ratio("greedy", "torch.nn"),
    ]
    return "| " + " | ".join(map(str, cells)) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9, help="for each size")
    parser.add_argument("--width", type=int, help="this d_model only")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, "
          f"Python {platform.python_version()}, {platform.machine()}\n")  # fmt: skip
    print("| d_model | d_ff | layers | greedy | fast greedy | Marian greedy | beam "
          "| fast beam | Marian beam | no cache | torch.nn | greedy : Marian "
          "| fast greedy : Marian | beam : Marian | fast beam : Marian "
          "| greedy : no cache | greedy : torch.nn |")  # fmt: skip
    print("|---" * 17 + "|")
    for sizes in SIZES:
        if arguments.width in (None, sizes["d_model"]):
            config = TransformerConfig.base(
                VOCABULARY, dropout=0.0, max_len=128, eos_id=PAD, **sizes
            )
            print(compare(config, arguments.rounds), flush=True)


if __name__ == "__main__":
    main()
