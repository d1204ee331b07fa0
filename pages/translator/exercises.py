"""The exercises of the chapter on the translator."""

import math
from collections import Counter

from bookkit.exercises import Break, Build, Idea, Predict

# -- Said twice ------------------------------------------------------------------------

SENTENCE = "Ein brauner Hund rennt über den Strand .".split()


def right_of(candidate, reference, n):
    ours, theirs = (
        Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))
        for words in (candidate, reference)
    )
    return sum((ours & theirs).values())


TWICE = Predict(
    name="translator-1",
    title="said twice",
    task="""A candidate says its reference, *Ein brauner Hund rennt über den Strand .*,
twice, one copy after the other. The reference has 8 words, the candidate 16. How many
of the candidate's 13 4-grams count as right?""",
    right=5,
    replies={
        5: "The reference has five 4-grams, and each counts only as often as there.",
        10: "Each copy has five of them. How often does the reference have each?",
        13: "Three of them cross from one copy to the other. And the rest are clipped.",
        8: "Count the reference's runs of *four* words: 8 words have fewer.",
        4: "Four is the length of a run. How many runs of four do 8 words have?",
    },
    otherwise="How many runs of four words has a sentence of 8 words?",
    hints=(
        "How many 4-grams does the reference have, and what does clipping do to the "
        "second copy?",
    ),
    answer="""Five: the reference has 8 - 3 = 5 runs of four words, and clipping
leaves the second copy without credit. So $p_4 = 5/13$ and $p_1 = 8/16$. The candidate
is too long, not too short, so the brevity penalty is 1, and BLEU is 44.3.""",
    computed=lambda: right_of(SENTENCE * 2, SENTENCE, 4),
)

# -- Clipped n-grams -------------------------------------------------------------------


def pair(candidate, reference, n=1):
    return {"candidate": candidate.split(), "reference": reference.split(), "n": n}


GRAMS = Build(
    name="translator-2",
    title="clipped n-grams",
    task="""Write `right_grams(candidate, reference, n)` for two lists of words: return
how many n-grams of the candidate are right, clipped as in BLEU, and how many it has in
total. Both are integers.""",
    call="right_grams(candidate, reference, n)",
    returns={"right": int, "total": int},
    example=pair("ein Hund rennt am Strand", "ein Hund rennt über den Strand", 2),
    ideas=[
        Idea(
            "total",
            "The total is the number of the candidate's n-grams.",
            "How many runs of n words begin in the candidate?",
            [pair("a b c", "d"), pair("a b c", "d e f g", 2)],
        ),
        Idea(
            "matches",
            "An n-gram that the reference has is right, wherever it stands.",
            "Compare runs of words, not positions.",
            [pair("a b", "a c"), pair("x a b", "a b x", 2)],
        ),
        Idea(
            "clipping",
            "An n-gram counts at most as often as the reference has it.",
            "What does “der der der der” get for “der Hund und der Ball”?",
            [
                pair("der der der der", "der Hund und der Ball"),
                pair("a b a b", "a b", 2),
                pair("a a", "a a a"),
            ],
        ),
        Idea(
            "order",
            "The words of an n-gram have an order.",
            "Is “Hund ein” the same pair as “ein Hund”?",
            [pair("b a", "a b", 2)],
        ),
        Idea(
            "short",
            "A sentence may have fewer than n words.",
            "How many pairs does a single word have?",
            [pair("a", "a b", 2), pair("a b", "a", 2)],
        ),
    ],
    hints=(
        "Count the n-grams of each sentence: a `Counter` of tuples.",
        "The smaller of two counts is what clipping leaves.",
        "For `Counter`, `&` takes the smaller of both counts.",
    ),
    answer="""The intersection of the two counters has the smaller of both counts for
each n-gram. BLEU adds up both numbers over all sentences before it divides.""",
)


@GRAMS.right
def right_grams(candidate, reference, n):
    ours, theirs = (
        Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))
        for words in (candidate, reference)
    )
    return sum((ours & theirs).values()), sum(ours.values())


def runs(words, n):
    return [" ".join(words[i : i + n]) for i in range(len(words) - n + 1)]


@GRAMS.right
def by_crossing_out(candidate, reference, n):
    left, right = runs(reference, n), 0
    for gram in runs(candidate, n):
        if gram in left:
            left.remove(gram)
            right += 1
    return right, len(runs(candidate, n))


@GRAMS.right
def by_minimum(candidate, reference, n):
    ours, theirs = runs(candidate, n), runs(reference, n)
    return sum(min(ours.count(x), theirs.count(x)) for x in set(ours)), len(ours)


@GRAMS.right
def by_shifted_lists(candidate, reference, n):
    ours, theirs = (
        Counter(zip(*(words[i:] for i in range(n)), strict=False))
        for words in (candidate, reference)
    )
    return (ours & theirs).total(), ours.total()


# -- BLEU without clipping -------------------------------------------------------------


def bleu(candidate, reference, clip=True):
    """BLEU of one sentence with words and pairs only."""
    candidate, reference = candidate.split(), reference.split()
    score = min(1.0, math.exp(1 - len(reference) / len(candidate)))
    for n in (1, 2):
        ours, theirs = runs(candidate, n), runs(reference, n)
        right = sum(gram in theirs for gram in ours)
        if clip:
            right = (Counter(ours) & Counter(theirs)).total()
        score *= (right / max(len(ours), 1)) ** 0.5
    return 100 * score


def unclipped(candidate, reference):
    return bleu(candidate, reference, clip=False)


CLIPPING = Break(
    name="translator-3",
    title="BLEU without clipping",
    task="""Take BLEU of one sentence, with single words and pairs only. Someone counts
every n-gram that the reference has, however often the candidate repeats it. Which of
these checks fail?""",
    broken=unclipped,
    intact=bleu,
    checks={
        "a": (
            "A candidate that equals its reference scores 100.",
            lambda score: abs(score("ein Hund rennt", "ein Hund rennt") - 100) < 1e-6,
            "Check a holds: nothing is repeated, so there is nothing to clip.",
        ),
        "b": (
            "A reference of four words, said twice, scores less than 60.",
            lambda score: score("ein Hund rennt . " * 2, "ein Hund rennt .") < 60,
            "Check b fails: all words and all pairs but one are in the reference.",
        ),
        "c": (
            "“der der der der” scores 0 for “der Hund und der Ball”.",
            lambda score: score("der der der der", "der Hund und der Ball") == 0,
            "Check c holds: the pair “der der” is not in the reference, and one zero "
            "makes the geometric mean zero.",
        ),
        "d": (
            "The first half of a sentence scores less than the whole sentence.",
            lambda score: score("ein Hund", "ein Hund rennt .") < 70,
            "Check d holds: the brevity penalty does this.",
        ),
        "e": (
            "A candidate without a right word scores 0.",
            lambda score: score("eine Katze", "ein Hund rennt") == 0,
            "Check e holds: no n-gram is right, clipped or not.",
        ),
    },
    hints=("In which candidates does a right n-gram occur too often?",),
    answer="""Only check b fails. Saying everything twice is rewarded without clipping:
all 8 words and 6 of 7 pairs are right. Repeating a single word is caught by the pairs,
which is one reason why BLEU uses runs of several lengths.""",
)

EXERCISES = [TWICE, GRAMS, CLIPPING]
