"""Count what the pages say of Multi30k: numbers, since its text may not be shipped.

Run from the root of the repository, with the captions in place (`python -m
transformer_lib.translation download`). It takes some minutes on two cores. The three
test sets are put together here, so that each group below has enough sentences.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from multi30k_scores import TESTS
from sacrebleu.metrics import BLEU

from transformer_lib.data import Tokenizer, pad
from transformer_lib.data.corpora.multi30k import SPLITS, multi30k
from transformer_lib.decoding import greedy_decode
from transformer_lib.files import write_csv
from transformer_lib.model import padding_mask
from transformer_lib.translation import Translator

ROOT = Path(__file__).resolve().parents[1]
MODEL = ROOT / "models/multi30k-en-de"
STATISTICS = ROOT / "measurements/multi30k/statistics.csv"
BEAM = 5
LENGTHS = (8, 11, 14, 19, 999)  # the most words of each group
COUNTS = (0, 2, 10, 50, 200, 10**9)  # how often training has seen a word, at most
FREQUENT = 8
END_MARKS = tuple('.!?"“”')
WORDS = ("hedgehog", "teapot", "harp", "candle", "swan", "spoon", "guitar", "not")

Row = tuple[str, str, int | float]
into_words = BLEU().tokenizer  # sacreBLEU's 13a


def corpus_rows(translator: Translator) -> Iterator[Row]:
    """Count sentences, words and pieces of the training set."""
    for split in SPLITS:
        yield "pairs", split, len(multi30k(split))
    tokenizer = translator.tokenizer
    used = {}
    sides = zip(*multi30k("train"), strict=True)
    for language, sentences in zip(("en", "de"), sides, strict=True):
        cleaned = [tokenizer.clean(sentence) for sentence in sentences]
        changed = sum(a != b for a, b in zip(sentences, cleaned, strict=True))
        yield "sentences changed by cleaning", language, changed
        words = Counter(word for s in cleaned for word in into_words(s).split())
        yield "words per sentence", language, words.total() / len(cleaned)
        yield "different words", language, len(words)
        yield "words seen once", language, sum(n == 1 for n in words.values())
        cut = Counter()
        for word, count in words.items():
            if word[0].isalpha():
                cut[min(len(tokenizer.encode(word)), 4)] += count
        for pieces in sorted(cut):
            name = f"{language} {pieces}"
            yield "share of words by pieces", name, cut[pieces] / cut.total()
        ids = Counter(i for sentence in cleaned for i in tokenizer.encode(sentence))
        yield "tokens per sentence", language, ids.total() / len(cleaned)
        for piece, count in ids.most_common(FREQUENT):
            yield f"most frequent pieces, {language}", *tokenizer.pieces([piece]), count
        used[language] = set(ids)
    yield "pieces used", "both", len(used["en"] & used["de"])
    yield "pieces used", "en", len(used["en"] - used["de"])
    yield "pieces used", "de", len(used["de"] - used["en"])


def word_rows(translator: Translator) -> Iterator[Row]:
    """Count some words of chapter 14 in the English training captions."""
    seen = Counter(
        word
        for source, _ in multi30k("train")
        for word in into_words(translator.tokenizer.clean(source).lower()).split()
    )
    for word in WORDS:
        yield "times in the training captions", word, seen[word]


def capital_rows(translator: Translator) -> Iterator[Row]:
    """Count the tokens of a validation reference as it is, and in small letters."""
    captions = [text.lower() for pair in multi30k("train") for text in pair]
    small = Tokenizer.train(captions, translator.tokenizer.vocab_size)
    references = [target for _, target in multi30k("validation")]
    lowered = [text.lower() for text in references]
    for name, tokenizer, texts in (
        ("as written", translator.tokenizer, references),
        ("in small letters", small, lowered),
    ):
        tokens = sum(len(tokenizer.encode(text)) + 1 for text in texts)  # with EOS
        yield "tokens of a validation reference", name, tokens / len(texts)


def precision_rows(translator: Translator) -> Iterator[Row]:
    """Count how often the last digits tip a translation."""
    sentences = [source for source, _ in multi30k("validation")]
    single = translator.translate(sentences)
    translator.model.double()
    double = translator.translate(sentences)
    translator.model.float()
    changed = sum(a != b for a, b in zip(single, double, strict=True))
    yield "greedy translations changed by float64", "validation", changed


def end_rows(translator: Translator) -> Iterator[Row]:
    """Count captions without a mark at their end, and how they are translated."""
    clean, bare = translator.tokenizer.clean, {}
    for split in ("train", "validation"):
        pairs = [tuple(map(clean, pair)) for pair in multi30k(split)]
        bare[split] = [pair for pair in pairs if not pair[0].endswith(END_MARKS)]
        marked = sum(target.endswith(END_MARKS) for _, target in bare[split])
        yield "captions without an end mark", split, len(bare[split])
        yield "their references with one", split, marked
    sources, references = zip(*pairs, strict=True)  # of the validation set
    translations = translator.translate(sources, BEAM)
    like_the_source = [
        translation.rstrip(".") if pair in bare["validation"] else translation
        for pair, translation in zip(pairs, translations, strict=True)
    ]
    changed = sum(a != b for a, b in zip(translations, like_the_source, strict=True))
    yield "their translations with a full stop", "validation", changed
    for name, texts in (("as written", translations), ("without", like_the_source)):
        result = BLEU(lowercase=True).corpus_score(texts, [references])
        yield "validation BLEU, full stops", name, result.score
        yield "validation brevity penalty, full stops", name, result.bp


def inverted(tokens, pad_id):
    """Build the padding mask the wrong way round."""
    return ~padding_mask(tokens, pad_id)


def fault_rows(translator: Translator) -> Iterator[Row]:
    """Score the faults of chapter 14 on the validation set, with the greedy loop."""
    tokenizer = translator.tokenizer
    sources, targets = zip(*multi30k("validation"), strict=True)
    references = [tokenizer.clean(target) for target in targets]
    encoded = [[*tokenizer.encode(source), tokenizer.eos_id] for source in sources]
    order = sorted(range(len(encoded)), key=lambda i: len(encoded[i]))

    def bleu(cut: int | None = None, **ids: int) -> float:
        model, written = translator.model, {}
        with patch.object(model, "config", replace(model.config, **ids)):
            for begin in range(0, len(order), 100):
                batch = order[begin : begin + 100]
                src = pad([encoded[i][:cut] for i in batch], tokenizer.pad_id)
                found = map(tokenizer.decode, greedy_decode(model, src))
                written |= dict(zip(batch, found, strict=True))
        texts = [written[i] for i in range(len(order))]
        return BLEU(lowercase=True).corpus_score(texts, [references]).score

    table = "validation BLEU, faults"
    yield table, "no fault", bleu()
    yield table, "source without its EOS", bleu(-1)
    yield table, "EOS in place of BOS", bleu(bos_id=tokenizer.eos_id)
    yield table, "EOS ignored by the loop", bleu(eos_id=tokenizer.pad_id)
    with patch("transformer_lib.decoding.prefixes.padding_mask", inverted):
        yield table, "mask inverted, cross-attention", bleu()
        with patch("transformer_lib.model.transformer.padding_mask", inverted):
            yield table, "mask inverted, everywhere", bleu()


def score_rows(translator: Translator) -> Iterator[Row]:
    """Score the translations of the test sets by length and by rarity."""
    pairs = [pair for split in TESTS for pair in multi30k(split)]
    for split in TESTS:
        words = sum(len(into_words(target).split()) for _, target in multi30k(split))
        yield "words in references", split, words
    translations = translator.translate([source for source, _ in pairs], BEAM)
    references = [translator.tokenizer.clean(target) for _, target in pairs]
    shortest = 1
    for longest in LENGTHS:
        chosen = [
            i
            for i, (source, _) in enumerate(pairs)
            if shortest <= len(into_words(source).split()) <= longest
        ]
        group = f"{shortest} and more" if longest == 999 else f"{shortest} to {longest}"
        yield "sentences by words", group, len(chosen)
        bleu = BLEU(lowercase=True).corpus_score(
            [translations[i] for i in chosen], [[references[i] for i in chosen]]
        )
        yield "BLEU by words", group, bleu.score
        shortest = longest + 1

    seen = Counter(
        word for _, target in multi30k("train") for word in into_words(target).split()
    )
    wanted, found = Counter(), Counter()
    for translation, reference in zip(translations, references, strict=True):
        needed = Counter(into_words(reference).split())
        right = needed & Counter(into_words(translation).split())
        for word, count in needed.items():
            group = next(most for most in COUNTS if seen[word] <= most)
            wanted[group] += count
            found[group] += right[word]
    least = 0
    for most in COUNTS:
        name = "0" if most == 0 else f"{least} to {most}"
        name = f"over {least - 1}" if most == COUNTS[-1] else name
        yield "words by training count", name, wanted[most]
        yield "found by training count", name, found[most] / wanted[most]
        least = most + 1


def main() -> None:
    translator = Translator.load(MODEL)
    rows = [
        {"table": table, "row": row, "value": value}
        for measured in (
            corpus_rows,
            word_rows,
            capital_rows,
            precision_rows,
            end_rows,
            fault_rows,
            score_rows,
        )
        for table, row, value in measured(translator)
    ]
    for row in rows:
        if isinstance(row["value"], float):
            row["value"] = f"{row['value']:.4f}"
    write_csv(STATISTICS, rows)


if __name__ == "__main__":
    main()
