"""How good translations are, by the measures that papers quote."""

from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics import BLEU, CHRF


@dataclass(frozen=True)
class Scores:
    """What a set of translations comes to.

    Args:
        sentences: How many were compared.
        bleu: BLEU of the text as it is, capitals and all, in [0, 100].
        bleu_signature: How it was computed, in sacreBLEU's words.
        chrf: chrF of the same text, in [0, 100].
        chrf_signature: How it was computed.
        bleu_lowercased: BLEU of the text in small letters, as papers on Multi30k quote
            it, in [0, 100]. They cut the text into words with Moses' tokenizer; this
            is sacreBLEU's 13a, which may differ in the first decimal.
        bleu_lowercased_signature: How it was computed.
        exact: Share of translations that equal their reference, in [0, 1].

    Source: Papineni et al. (2002); Popović (2015); signatures: Post (2018).
    """

    sentences: int
    bleu: float
    bleu_signature: str
    chrf: float
    chrf_signature: str
    bleu_lowercased: float
    bleu_lowercased_signature: str
    exact: float


def score(translations: Sequence[str], references: Sequence[str]) -> Scores:
    """Compare translations with one reference each.

    Args:
        translations: Plain text, not cut into words.
        references: As many, likewise. A pair without text does not count.

    Raises:
        ValueError: If there is none with text, or their numbers differ.
    """
    counts = len(translations), len(references)
    pairs = zip(translations, references, strict=False)
    pairs = [pair for pair in pairs if any(map(str.strip, pair))]
    if counts[0] != counts[1] or not pairs:
        raise ValueError(
            "translations and references must be as many, at least 1 with text, "
            f"got {counts[0]} and {counts[1]}"
        )
    translations, references = zip(*pairs, strict=True)
    measured: list[float | str] = []
    for metric in (BLEU(), CHRF(), BLEU(lowercase=True)):
        result = metric.corpus_score(translations, [references])
        measured += [result.score, metric.get_signature().format()]
    same = sum(ours == theirs for ours, theirs in pairs)
    return Scores(len(pairs), *measured, same / len(pairs))
