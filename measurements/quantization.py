"""What fewer bits cost the translator of captions, and what time they take.

    python measurements/quantization.py scores      # an hour of one core
    python measurements/quantization.py pairs       # some minutes
    python measurements/quantization.py times       # some minutes

Run from the root of the repository, with the captions in place; one thread. A row that
is in a table is not measured again. Ranges are measured on the first captions of the
training set, and choices between them are made on others of that set, by how often the
translation is that of float32. BLEU is of the validation set, which chose nothing here.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path

import numpy as np
import torch
from sacrebleu.metrics import BLEU
from tables import add, read
from torch import nn

from transformer_lib.data.corpora.multi30k import multi30k
from transformer_lib.faster.quantization import (
    QuantizedLinear,
    calibrate,
    dequantize,
    fake_quantize,
    largest_inputs,
    quantize,
    quantize_rows,
)
from transformer_lib.model import FeedForward, Transformer
from transformer_lib.translation import Translator

ROOT = Path(__file__).resolve().parents[1]
SCORES = ROOT / "measurements/quantization.csv"
TIMES = ROOT / "measurements/quantization_times.csv"
CALIBRATION = slice(0, 200)  # of the training captions
CHOICE = slice(1000, 1500)
SHARES = (1.0, 0.999, 0.99, 0.95, 0.9)
FAULT = 20  # how many times as large the input of the planted position is
RESAMPLED = 2000

Way = tuple[str, str, int]  # name, setting, beam
PAIRS = (  # ways that are compared with each other, not with float32
    (("rows", "5"), ("rows", "6")),
    (("groups", "4"), ("rows", "4")),
    (("groups", "3"), ("rows", "3")),
)


def rounded_by_matrix(model: Transformer, bits: int) -> Transformer:
    """Round every matrix with one scale for all of its rows."""
    model, most = deepcopy(model), 2 ** (bits - 1) - 1
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 2:
                scale = weight.abs().max() / most
                weight.copy_((weight / scale).round() * scale)
    return model


def rounded_by_group(model: Transformer, bits: int, columns: int = 32) -> Transformer:
    """Round every matrix with one scale for each group of columns of a row."""
    model = deepcopy(model)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 2:
                rounded = quantize_rows(weight.view(-1, columns), bits)
                weight.copy_(dequantize(*rounded).view_as(weight))
    return model


def torchs_dynamic(model: Transformer, by_row: bool) -> Transformer:
    """Quantize with torch, all linear layers but the tied output."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is on its way out
        import torch.ao.quantization as ao

        choice = (
            ao.per_channel_dynamic_qconfig if by_row else ao.default_dynamic_qconfig
        )
        layers = {
            name: choice
            for name, module in model.named_modules()
            if isinstance(module, nn.Linear) and name != "output"
        }
        return ao.quantize_dynamic(deepcopy(model).eval(), layers)


def static(
    translator: Translator, captions: list[str], share: float, planted: bool = False
) -> Transformer:
    """Quantize with ranges that were measured while these captions were translated."""
    seen = calibrate(translator.model, lambda: translator.translate(captions))
    if planted:  # one position of every layer
        for sizes in seen.values():
            sizes.append(FAULT * torch.cat(sizes).max()[None])
    return quantize(translator.model, largest_inputs(seen, share))


def ways(
    translator: Translator, captions: list[str]
) -> Iterator[tuple[Way, Callable[[], Transformer]]]:
    """Name what is compared, and how to make it."""
    model = translator.model
    yield ("float32", "", 1), lambda: model
    yield ("dynamic", "", 1), lambda: quantize(model)
    for bits in (8, 7, 6, 5, 4, 3, 2):
        yield ("rows", str(bits), 1), lambda bits=bits: fake_quantize(model, bits)
    for share in SHARES:
        setting = f"200 captions, share {share}"
        yield (
            ("static", setting, 1),
            lambda share=share: static(translator, captions, share),
        )
    for count in (1, 10):
        few = f"{count} captions" if count > 1 else "1 caption"
        yield (
            ("static", f"{few}, share 1.0", 1),
            lambda count=count: static(translator, captions[:count], 1.0),
        )
    for share in (1.0, 0.999):
        yield (
            ("static", f"200 captions and a fault, share {share}", 1),
            lambda share=share: static(translator, captions, share, planted=True),
        )
    for bits in (8, 6, 5, 4, 3):
        yield ("matrix", str(bits), 1), lambda bits=bits: rounded_by_matrix(model, bits)
    for bits in (8, 6, 5, 4, 3):
        yield ("groups", str(bits), 1), lambda bits=bits: rounded_by_group(model, bits)
    yield ("torch", "by matrix", 1), lambda: torchs_dynamic(model, by_row=False)
    yield ("torch", "by row", 1), lambda: torchs_dynamic(model, by_row=True)
    yield ("float32", "", 5), lambda: model
    yield ("rows", "8", 5), lambda: fake_quantize(model, 8)
    yield ("dynamic", "", 5), lambda: quantize(model)


def counts(translations: list[str], references: list[str]) -> np.ndarray:
    """Count what BLEU adds up, a row for each sentence."""
    metric = BLEU(lowercase=True, effective_order=True)
    rows = []
    for ours, reference in zip(translations, references, strict=True):
        found = metric.sentence_score(ours, [reference])
        rows.append([*found.counts, *found.totals, found.sys_len, found.ref_len])
    return np.array(rows)


def bleu(sums: np.ndarray) -> float:
    """Turn the sums of some sentences' counts into BLEU."""
    four = sums.astype(int).tolist()
    return BLEU.compute_bleu(four[:4], four[4:8], four[8], four[9]).score


def difference(ours: np.ndarray, theirs: np.ndarray) -> tuple[float, float]:
    """Resample the sentences: where 95 % of the differences in BLEU lie."""
    random = np.random.default_rng(0)
    found = []
    for _ in range(RESAMPLED):
        drawn = random.integers(len(ours), size=len(ours))
        found.append(bleu(ours[drawn].sum(0)) - bleu(theirs[drawn].sum(0)))
    low, high = np.quantile(found, [0.025, 0.975])
    return low, high


def scores() -> None:
    """Translate in every way that is not in the table yet."""
    translator = Translator.load(ROOT / "models/multi30k-en-de")
    training = [english for english, _ in multi30k("train")]
    sources, references = map(list, zip(*multi30k("validation"), strict=True))
    done = {(row["way"], row["setting"], int(row["beam"])) for row in read(SCORES)}
    originals: dict[int, tuple[list[str], list[str], np.ndarray]] = {}
    for way, make in ways(translator, training[CALIBRATION]):
        if way in done:
            continue
        beam = way[2]
        if beam not in originals:
            written = translator.translate(sources, beam)
            others = translator.translate(training[CHOICE], beam)
            originals[beam] = others, written, counts(written, references)
        other = Translator(make(), translator.tokenizer)
        found = other.translate(sources, beam)
        others = other.translate(training[CHOICE], beam)
        counted = counts(found, references)
        low, high = difference(counted, originals[beam][2])
        score, original = bleu(counted.sum(0)), bleu(originals[beam][2].sum(0))
        row = {
            "way": way[0],
            "setting": way[1],
            "beam": beam,
            "same_training": f"{share_of_same(others, originals[beam][0]):.4f}",
            "same": f"{share_of_same(found, originals[beam][1]):.4f}",
            "bleu_lc_13a": f"{score:.4f}",
            "difference": f"{score - original:.4f}",
            "low": f"{low:.2f}",
            "high": f"{high:.2f}",
        }
        add(SCORES, [row])
        print(row, flush=True)


def pairs() -> None:
    """Compare two ways with each other on the validation captions."""
    translator = Translator.load(ROOT / "models/multi30k-en-de")
    sources, references = map(list, zip(*multi30k("validation"), strict=True))
    make = {way[:2]: made for way, made in ways(translator, []) if way[2] == 1}
    for one, other in PAIRS:
        row = {"way": "pair", "setting": f"{' '.join(one)} against {' '.join(other)}"}
        if any(row.items() <= known.items() for known in read(SCORES)):
            continue
        found, others = (
            Translator(make[way](), translator.tokenizer).translate(sources)
            for way in (one, other)
        )
        counted, other_counts = counts(found, references), counts(others, references)
        low, high = difference(counted, other_counts)
        score = bleu(counted.sum(0))
        row |= {
            "beam": 1,
            "same_training": "",
            "same": f"{share_of_same(found, others):.4f}",
            "bleu_lc_13a": f"{score:.4f}",
            "difference": f"{score - bleu(other_counts.sum(0)):.4f}",
            "low": f"{low:.2f}",
            "high": f"{high:.2f}",
        }
        add(SCORES, [row])
        print(row, flush=True)


def share_of_same(ours: list[str], theirs: list[str]) -> float:
    """Share of translations that are the same to the letter."""
    same = [one == other for one, other in zip(ours, theirs, strict=True)]
    return sum(same) / len(same)


def feed_forward(width: int, make: Callable[[nn.Linear], nn.Module]) -> nn.Module:
    """Make a feed-forward network four times as wide inside, its layers replaced."""
    torch.manual_seed(0)
    network = FeedForward(width, 4 * width).eval().requires_grad_(False)
    network.w_1, network.w_2 = make(network.w_1), make(network.w_2)
    return network


def torchs_layer(linear: nn.Linear) -> nn.Module:
    """Quantize one layer with torch."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torch.ao.quantization as ao

        return ao.quantize_dynamic(nn.Sequential(linear), {nn.Linear})[0]


def times(rounds: int = 15) -> None:
    """Time a feed-forward network of several sizes, and the whole translator."""
    made: dict[str, Callable[[nn.Linear], nn.Module]] = {
        "float32": lambda linear: linear,
        "torch": torchs_layer,
        "ours": QuantizedLinear,
    }
    for width in (128, 512, 1024):
        networks = {way: feed_forward(width, make) for way, make in made.items()}
        for positions in (1, 32, 256):
            x = torch.randn(positions, width)
            runs = {way: lambda f=f, x=x: f(x) for way, f in networks.items()}
            note(f"feed-forward {width}", positions, runs, rounds)
    translator = Translator.load(ROOT / "models/multi30k-en-de")
    captions = [english for english, _ in multi30k("validation")[:64]]
    models = {
        "float32": translator.model,
        "torch": torchs_dynamic(translator.model, by_row=False),
        "ours": quantize(translator.model),
    }
    translators = {  # all with the readable decoder: the fast one takes none of these
        way: Translator(model, translator.tokenizer, fast=False)
        for way, model in models.items()
    }
    runs = {way: lambda t=t: t.translate(captions) for way, t in translators.items()}
    note("translator, 64 captions", 64, runs, 7)
    runs = {
        way: lambda t=t: t.translate(captions[:1]) for way, t in translators.items()
    }
    note("translator, 1 caption", 1, runs, 15)


def note(what: str, rows: int, runs: dict[str, Callable], rounds: int) -> None:
    """Run all in turn; write the least time of each, in milliseconds."""
    row = {"processor": torch.backends.cpu.get_cpu_capability()}
    row |= {"what": what, "rows": str(rows)}
    if any(row.items() <= known.items() for known in read(TIMES)):
        return
    least = dict.fromkeys(runs, float("inf"))
    with torch.inference_mode():
        for number in range(1 + rounds):
            for way, run in runs.items():
                start, repeats = time.thread_time(), 0
                while time.thread_time() - start < 0.02:
                    run()
                    repeats += 1
                if number:
                    spent = (time.thread_time() - start) / repeats
                    least[way] = min(least[way], spent)
    row |= {f"{way} ms": f"{1000 * spent:.3g}" for way, spent in least.items()}
    add(TIMES, [row])
    print(row, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=["scores", "pairs", "times"])
    torch.set_num_threads(1)
    {"scores": scores, "pairs": pairs, "times": times}[parser.parse_args().what]()
