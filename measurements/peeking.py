"""Two small translators that differ in one thing: the decoder's mask in training."""

import argparse
from collections.abc import Iterable
from pathlib import Path

import torch
from tables import add, read
from torch import Tensor

from transformer_lib.data import Batch, Tokenizer, token_batches
from transformer_lib.faster.quantization import dequantize, quantize_rows
from transformer_lib.model import Transformer, TransformerConfig, padding_mask
from transformer_lib.training import TrainingConfig, evaluate, save_model, train
from transformer_lib.translation import Translator
from transformer_lib.translation.corpus import Corpus
from transformer_lib.translation.run import encode_pairs, measure

HERE = Path(__file__).resolve()
TABLE = HERE.with_suffix(".csv")
MODELS = HERE.parents[1] / "models" / "peeking"
TOKENIZER = HERE.parents[1] / "models" / "grammar-en-de" / "tokenizer.json"
MASKS = {"masked": True, "peeking": False}  # is the future hidden in training?
MAX_TOKENS, EPOCHS, COOLDOWN, SEED = 600, 8, 4, 0
SIZES = {"d_model": 32, "num_heads": 4, "d_ff": 128, "num_layers": 2}


class Peeking(Transformer):
    """A Transformer whose decoder hides padding and shows the future."""

    def target_mask(self, tgt: Tensor) -> Tensor:
        return padding_mask(tgt, self.config.pad_id)


def fit(name: str) -> dict[str, object]:
    """Train one of the two, save it, and measure it as trained and behind the mask."""
    torch.manual_seed(SEED)
    tokenizer = Tokenizer.load(TOKENIZER)
    size = tokenizer.vocab_size
    config = TransformerConfig(
        src_vocab_size=size, tgt_vocab_size=size, dropout=0.0, norm_first=True,
        tie_output=True, share_embeddings=True, **SIZES,
    )  # fmt: skip
    model = (Transformer if MASKS[name] else Peeking)(config)
    translator = Translator(model, tokenizer, fast=False)
    pairs = {split: Corpus().pairs(split) for split in ("train", "validation")}
    encoded = {
        name: encode_pairs(translator, pairs[name], MAX_TOKENS) for name in pairs
    }

    def batches(epoch: int) -> Iterable[Batch]:
        return token_batches(encoded["train"], MAX_TOKENS, seed=f"{SEED} {epoch}")

    validation = list(token_batches(encoded["validation"], MAX_TOKENS))
    training = TrainingConfig(
        epochs=EPOCHS, cooldown=COOLDOWN, average=COOLDOWN, warmup_steps=500, seed=SEED
    )
    train(model, batches, validation, training)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 2:  # the page gets these as whole numbers, exactly
                weight.copy_(dequantize(*quantize_rows(weight)))
    behind_mask = Transformer(config)  # as when it writes
    behind_mask.load_state_dict(model.state_dict())
    translator = Translator(behind_mask.eval(), tokenizer, fast=False)
    MODELS.mkdir(exist_ok=True)
    save_model(MODELS / f"{name}.safetensors", behind_mask)
    return {
        "trained": name,
        "accuracy as trained": round(evaluate(model, validation)[1], 4),
        "accuracy behind the mask": round(evaluate(behind_mask, validation)[1], 4),
        "exact": round(measure(translator, pairs["validation"]).exact, 4),
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=MASKS)
    only = parser.parse_args(arguments).only
    torch.set_num_threads(1)
    done = {row["trained"] for row in read(TABLE)}
    for name in [only] if only else MASKS:
        if name not in done:
            add(TABLE, [fit(name)])


if __name__ == "__main__":
    main()
