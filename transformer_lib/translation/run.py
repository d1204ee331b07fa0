"""A training run in a folder: from sentences to a translator, and what that took."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from random import Random

import torch
from tqdm import tqdm

from transformer_lib.checks import (
    require_no_faults,
    require_not_negative,
    require_probability,
    require_type,
)
from transformer_lib.data import Batch, Pair, Tokenizer, token_batches
from transformer_lib.faster import ScaleConfig, ScaleEpoch, train_at_scale
from transformer_lib.faster.distributed import is_main, wait_for_main, world_size
from transformer_lib.files import folder_lock, write_json
from transformer_lib.model import LAYOUTS, Transformer, TransformerConfig
from transformer_lib.training.run import MAY_CHANGE, STATE
from transformer_lib.translation.corpus import Corpus
from transformer_lib.translation.scores import Scores, score
from transformer_lib.translation.translator import (
    ALPHA,
    MODEL,
    TOKENIZER,
    Translator,
)
from transformer_lib.variants import ModernConfig, ModernTransformer

Recipe = Mapping[str, object]
Sentences = tuple[str, str]

RECORD = "run.json"
PRESETS: dict[str, Recipe] = {
    "grammar": {
        "vocab_size": 1000,
        "max_tokens": 600,
        "d_model": 64,
        "num_heads": 4,
        "d_ff": 256,
        "num_layers": 2,
        "dropout": 0.0,
        "norm_first": True,
        "epochs": 10,
        "warmup_steps": 500,
        "factor": 1.0,
        "cooldown": 4,
        "average": 4,
    },
    "multi30k": {  # the sizes of Wu et al. (2021)
        "vocab_size": 9700,
        "max_tokens": 4096,
        "d_model": 128,
        "num_heads": 4,
        "d_ff": 256,
        "num_layers": 4,
        "dropout": 0.2,
        "norm_first": True,
        "epochs": 88,
        "warmup_steps": 1000,
        "factor": 1.5,
        "cooldown": 22,
        "average": 10,
        "r_drop": 5.0,
    },
}

SET_BY_TOKENIZER = {"src_vocab_size", "tgt_vocab_size", "pad_id", "bos_id", "eos_id"}
MODEL_CHOICES = {
    field.name: field.type
    for field in fields(ModernConfig)
    if field.name not in SET_BY_TOKENIZER
}
TRAINING_CHOICES = {field.name: field.type for field in fields(ScaleConfig)}
RECIPE_CHOICES = {
    **MODEL_CHOICES,
    **TRAINING_CHOICES,
    "vocab_size": int,
    "max_tokens": int,
    "bpe_dropout": float,
    "bpe_dropout_epochs": int,
}
MUST_STAY = RECIPE_CHOICES.keys() - MAY_CHANGE | {"sentences_sha256"}


def require_choices(recipe: Recipe) -> None:
    """Refuse a choice that is unknown, not of its type or not of 64 bits.

    Args:
        recipe: ``vocab_size``, ``max_tokens`` of a batch, ``bpe_dropout`` (see
            ``Tokenizer.encode_at_random``; where such a cut is too long, the usual one
            stays), ``bpe_dropout_epochs``, how many epochs before the cooldown have it
            (otherwise all), and any argument of ``TransformerConfig`` and
            ``ScaleConfig``, by name.

    Raises:
        ValueError: If one is no such choice.
    """
    for name, value in recipe.items():
        if name not in RECIPE_CHOICES:
            known = ", ".join(sorted(RECIPE_CHOICES))
            raise ValueError(f"choices are {known}; got {name}")
        require_type(RECIPE_CHOICES[name], **{name: value})
        if isinstance(value, int | float) and not abs(value) < 2**63:  # as nan is not
            raise ValueError(f"{name} must be between -2**63 and 2**63, got {value}")


def train_translator(
    corpus: Corpus,
    recipe: Recipe,
    folder: str | Path,
    *,
    device: str = "cpu",
    command: str = "",
    on_epoch: Callable[[ScaleEpoch], None] | None = None,
) -> Scores:
    """Train a translator, or go on where the folder's run was stopped.

    The folder comes to hold ``run.json`` (what this is, and in the end its scores),
    ``tokenizer.json``, after each epoch ``training.safetensors`` and ``log.csv``, and
    in the end ``model.safetensors``. A progress bar runs on a terminal's stderr.

    Args:
        corpus: Its "train" is learned from, its "validation" watched.
        recipe: The choices; the rest are those of ``TransformerConfig.base`` and
            ``ScaleConfig``.
        folder: Made if it does not exist.
        device: "cpu" or "cuda".
        command: What the user typed, for the record.
        on_epoch: Called after each epoch.

    Returns:
        How good its greedy translations of "validation" are.

    Raises:
        ValueError: If the folder holds another run, or another process trains there; if
            a pair is too long for the model or a batch, or a choice is impossible, such
            as a cooldown as long as the run.
    """
    require_choices(recipe)
    folder = Path(folder)
    config = ScaleConfig(**_chosen(recipe, TRAINING_CHOICES))
    last = config.epochs - config.cooldown  # before the cooldown
    if last < 1:
        raise ValueError(
            f"cooldown must be below epochs, got {config.cooldown} and {config.epochs}"
        )
    dropout = recipe.get("bpe_dropout", 0.0)
    require_probability(bpe_dropout=dropout)
    require_not_negative(bpe_dropout_epochs=recipe.get("bpe_dropout_epochs", 0))
    pairs = {split: corpus.pairs(split) for split in ("train", "validation")}
    torch.manual_seed(config.seed)
    translator = untrained(pairs["train"], recipe)
    model = translator.model.to(device)
    max_tokens = recipe["max_tokens"]
    encoded = {
        split: encode_pairs(translator, found, max_tokens, corpus.title(split))
        for split, found in pairs.items()
    }
    on_cpu = f"CPU, {torch.get_num_threads()} threads"
    record = {
        "command": command,
        "corpus": asdict(corpus),
        "sentences_sha256": {split: digest(pairs[split]) for split in pairs},
        **recipe,
        "parameters": sum(p.numel() for p in model.parameters()),
        "device": torch.cuda.get_device_name() if device == "cuda" else on_cpu,
        "processes": world_size(),
        "torch": torch.__version__,
    }
    first = last + 1 - recipe.get("bpe_dropout_epochs", last)  # with BPE-dropout

    def batches(epoch: int) -> Iterable[Batch]:
        seed, learned = f"{config.seed} {epoch}", encoded["train"]
        if dropout and first <= epoch <= last:
            learned = cut_at_random(
                translator, pairs["train"], max_tokens, dropout, Random(seed)
            )
        drawn = token_batches(learned, max_tokens, seed=seed)
        return tqdm(list(drawn), f"epoch {epoch}", leave=False, disable=None)

    validation = list(token_batches(encoded["validation"], max_tokens))
    with folder_lock(folder if is_main() else None):
        if is_main():
            _begin(folder, record)
            translator.tokenizer.save(folder / TOKENIZER)
        wait_for_main()  # which may refuse
        history = train_at_scale(
            model, batches, validation, config, folder=folder, on_epoch=on_epoch
        )
        if is_main():
            translator.save(folder)
        scores = measure(translator, pairs["validation"])
        reached = {
            "epochs_trained": len(history),
            "minutes": round(sum(epoch.seconds for epoch in history) / 60, 1),
            "validation": asdict(scores),
        }
        if is_main():
            write_json(folder / RECORD, {**record, **reached})
    return scores


def untrained(pairs: Sequence[Sentences], recipe: Recipe) -> Translator:
    """Learn the vocabulary from the pairs, and draw the first weights from torch."""
    sentences = [sentence for pair in pairs for sentence in pair]
    tokenizer = Tokenizer.train(sentences, recipe["vocab_size"])
    choices = _chosen(recipe, MODEL_CHOICES)
    of_2017 = {field.name for field in fields(TransformerConfig)}
    positions = choices.get("positions", TransformerConfig.positions)
    is_plain = choices.keys() <= of_2017 and positions in LAYOUTS
    family = Transformer if is_plain else ModernTransformer
    config = family.config_type.base(tokenizer.vocab_size, **choices)
    try:
        return Translator(family(config), tokenizer)
    except RuntimeError as error:  # torch cannot even name so many numbers
        raise ValueError(f"a model of these sizes fits no memory: {error}") from error


def measure(
    translator: Translator,
    pairs: Sequence[Sentences],
    beam: int = 1,
    alpha: float = ALPHA,
) -> Scores:
    """Translate the source sentences and compare with the target sentences.

    The latter are cleaned as the tokenizer does, which no score should depend on.
    """
    translations = translator.translate([source for source, _ in pairs], beam, alpha)
    clean = translator.tokenizer.clean
    return score(translations, [clean(target) for _, target in pairs])


def encode_pairs(
    translator: Translator,
    pairs: Sequence[Sentences],
    max_tokens: int,
    name: str = "pairs",
) -> list[Pair]:
    """Turn pairs of sentences into pairs of token ids; nothing is cut off.

    Args:
        translator: Its model says how long a sentence may be.
        pairs: Sentences; a pair that has no text is left out.
        max_tokens: How long else a sentence may be.
        name: What the error calls them.

    Raises:
        ValueError: If sentences have more tokens, EOS or BOS counted; the message says
            how many and which.
    """
    encode = translator.tokenizer.encode
    longest = min(max_tokens, translator.model.config.max_len)
    ids = [(encode(source), encode(target)) for source, target in pairs]
    lengths = {n: max(map(len, pair)) + 1 for n, pair in enumerate(ids, 1)}
    require_no_faults(
        {
            n: f"{name}, pair {n} must have at most {longest} tokens a side with "
            f"the end, got {length}: cut it into shorter ones"
            for n, length in lengths.items()
            if length > longest
        },
        "pairs",
    )
    return [pair for pair in ids if any(pair)]


def cut_at_random(
    translator: Translator,
    pairs: Sequence[Sentences],
    max_tokens: int,
    dropout: float,
    random: Random,
) -> list[Pair]:
    """Encode pairs with BPE-dropout; where that makes too many tokens, without."""
    tokenizer = translator.tokenizer
    longest = min(max_tokens, translator.model.config.max_len)

    def cut(sentence: str) -> list[int]:
        ids = tokenizer.encode_at_random(sentence, dropout, random)
        return ids if len(ids) < longest else tokenizer.encode(sentence)

    cuts = [(cut(source), cut(target)) for source, target in pairs]
    return [pair for pair in cuts if any(pair)]


def digest(pairs: Sequence[Sentences]) -> str:
    """Compute the SHA-256 that tells whether a run goes on with the same sentences."""
    return hashlib.sha256(json.dumps(pairs).encode()).hexdigest()


def read_record(folder: str | Path) -> dict[str, object]:
    """Read the ``run.json`` of a folder.

    Raises:
        FileNotFoundError: If there is none.
        ValueError: If it is damaged.
    """
    path = Path(folder) / RECORD
    try:
        record = json.loads(path.read_text("utf-8"))
        corpus = asdict(Corpus(**record["corpus"]))
        return {**record, "corpus": corpus}
    except (LookupError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is not a whole record: {error}") from error


def _begin(folder: Path, record: Mapping[str, object]) -> None:
    """Write what the run is; refuse a folder that holds another run."""
    path = folder / RECORD
    if not any((folder / name).exists() for name in (STATE, MODEL)):
        write_json(path, record)
        return
    found = read_record(folder)  # the scores in it hold until this run ends
    for name in sorted(MUST_STAY):
        if record.get(name) != found.get(name):
            raise ValueError(
                f"{path} is of another run: {name} must be {found.get(name)}, "
                f"got {record.get(name)}; choose another folder"
            )


def _chosen(recipe: Recipe, names: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in recipe.items() if name in names}
