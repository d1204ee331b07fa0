import subprocess
import sys
from itertools import pairwise

import pytest

from transformer_lib.data.corpora.grammar import (
    RUNNING,
    Clause,
    NounPhrase,
    aligned_pairs,
    sentence,
    sentence_pairs,
    splits,
)

MANY = 20_000


def one(*words):
    determiner, *adjective, noun = words
    return NounPhrase(determiner, "".join(adjective), noun)


def many(*words):
    return one(*words)._replace(plural=True)


HE, SHE, WE, THEY = (NounPhrase("", "", word) for word in ("he", "she", "we", "they"))
THE_CAT, THE_DOG, THE_MAN = one("the", "cat"), one("the", "dog"), one("the", "man")
THE_DOG_SLEEPS = Clause(THE_DOG, "sleep")
A_BOOK, THE_DOOR = (one("a", "book"),), (one("the", "door"),)
IN_THE_GARDEN = ("in", one("the", "garden"))

BY_HAND = [
    # The book's own pairs
    (
        "the cat reads a red book",
        "die Katze liest ein rotes Buch",
        [("", Clause(THE_CAT, "read", (one("a", "red", "book"),)))],
    ),
    ("a dog sleeps", "ein Hund schläft", [("", Clause(one("a", "dog"), "sleep"))]),
    # Gender, case and the three sets of adjective endings
    (
        "the red dog sees the red cat",
        "der rote Hund sieht die rote Katze",
        [("", Clause(one("the", "red", "dog"), "see", (one("the", "red", "cat"),)))],
    ),
    (
        "the red cat sees the red dog",
        "die rote Katze sieht den roten Hund",
        [("", Clause(one("the", "red", "cat"), "see", (one("the", "red", "dog"),)))],
    ),
    (
        "a small dog sees a small dog",
        "ein kleiner Hund sieht einen kleinen Hund",
        [("", Clause(one("a", "small", "dog"), "see", (one("a", "small", "dog"),)))],
    ),
    (
        "an old cat buys an old window",
        "eine alte Katze kauft ein altes Fenster",
        [("", Clause(one("a", "old", "cat"), "buy", (one("a", "old", "window"),)))],
    ),
    (
        "a small cat sleeps beside the old dog",
        "eine kleine Katze schläft neben dem alten Hund",
        [
            (
                "",
                Clause(
                    one("a", "small", "cat"),
                    "sleep",
                    place=("beside", one("the", "old", "dog")),
                ),
            )
        ],
    ),
    (
        "this big horse helps a tired woman",
        "dieses große Pferd hilft einer müden Frau",
        [
            (
                "",
                Clause(
                    one("this", "big", "horse"), "help", (one("a", "tired", "woman"),)
                ),
            )
        ],
    ),
    (
        "my tired dog follows the beautiful woman",
        "mein müder Hund folgt der schönen Frau",
        [
            (
                "",
                Clause(
                    one("my", "tired", "dog"),
                    "follow",
                    (one("the", "beautiful", "woman"),),
                ),
            )
        ],
    ),
    (
        "she finds my new letter",
        "sie findet meinen neuen Brief",
        [("", Clause(SHE, "find", (one("my", "new", "letter"),)))],
    ),
    (
        "he carries this big bed",
        "er trägt dieses große Bett",
        [("", Clause(HE, "carry", (one("this", "big", "bed"),)))],
    ),
    # Number, and the dative plural
    (
        "tired dogs see green flowers",
        "müde Hunde sehen grüne Blumen",
        [
            (
                "",
                Clause(many("", "tired", "dog"), "see", (many("", "green", "flower"),)),
            )
        ],
    ),
    (
        "the old cats see these new books",
        "die alten Katzen sehen diese neuen Bücher",
        [
            (
                "",
                Clause(
                    many("the", "old", "cat"), "see", (many("this", "new", "book"),)
                ),
            )
        ],
    ),
    (
        "we help small children",
        "wir helfen kleinen Kindern",
        [("", Clause(WE, "help", (many("", "small", "child"),)))],
    ),
    (
        "they thank the old teachers",
        "sie danken den alten Lehrern",
        [("", Clause(THEY, "thank", (many("the", "old", "teacher"),)))],
    ),
    (
        "the girls follow my small mice",
        "die Mädchen folgen meinen kleinen Mäusen",
        [("", Clause(many("the", "girl"), "follow", (many("my", "small", "mouse"),)))],
    ),
    (
        "he works in parks",
        "er arbeitet in Parks",
        [("", Clause(HE, "work", place=("in", many("", "park"))))],
    ),
    (
        "we laugh in the gardens",
        "wir lachen in den Gärten",
        [("", Clause(WE, "laugh", place=("in", many("the", "garden"))))],
    ),
    # Weak nouns
    (
        "a boy sees the boy",
        "ein Junge sieht den Jungen",
        [("", Clause(one("a", "boy"), "see", (one("the", "boy"),)))],
    ),
    (
        "the bear thanks the student",
        "der Bär dankt dem Studenten",
        [("", Clause(one("the", "bear"), "thank", (one("the", "student"),)))],
    ),
    (
        "the students invite a student",
        "die Studenten laden einen Studenten ein",
        [("", Clause(many("the", "student"), "invite", (one("a", "student"),)))],
    ),
    (
        "the man follows the bears",
        "der Mann folgt den Bären",
        [("", Clause(THE_MAN, "follow", (many("the", "bear"),)))],
    ),
    # Two objects; prepositions with either case
    (
        "the man gives the woman an apple",
        "der Mann gibt der Frau einen Apfel",
        [("", Clause(THE_MAN, "give", (one("the", "woman"), one("a", "apple"))))],
    ),
    (
        "she shows the child the old egg",
        "sie zeigt dem Kind das alte Ei",
        [
            (
                "",
                Clause(SHE, "show", (one("the", "child"), one("the", "old", "egg"))),
            )
        ],
    ),
    (
        "the dog plays on my table",
        "der Hund spielt auf meinem Tisch",
        [("", Clause(THE_DOG, "play", place=("on", one("my", "table"))))],
    ),
    (
        "she works for the boy",
        "sie arbeitet für den Jungen",
        [("", Clause(SHE, "work", place=("for", one("the", "boy"))))],
    ),
    (
        "the cats play without this dog",
        "die Katzen spielen ohne diesen Hund",
        [
            (
                "",
                Clause(
                    many("the", "cat"), "play", place=("without", one("this", "dog"))
                ),
            )
        ],
    ),
    # Verb second
    (
        "today the cat reads a book",
        "heute liest die Katze ein Buch",
        [("", Clause(THE_CAT, "read", A_BOOK, adverb="today", first="adverb"))],
    ),
    (
        "the cat reads a book in the garden today",
        "die Katze liest heute ein Buch im Garten",
        [("", Clause(THE_CAT, "read", A_BOOK, adverb="today", place=IN_THE_GARDEN))],
    ),
    (
        "in the garden the cat reads a book sometimes",
        "im Garten liest die Katze manchmal ein Buch",
        [
            (
                "",
                Clause(
                    THE_CAT,
                    "read",
                    A_BOOK,
                    adverb="sometimes",
                    place=IN_THE_GARDEN,
                    first="place",
                ),
            )
        ],
    ),
    (
        "in the kitchen she sleeps",
        "in der Küche schläft sie",
        [
            (
                "",
                Clause(
                    SHE, "sleep", place=("in", one("the", "kitchen")), first="place"
                ),
            )
        ],
    ),
    # Verb last
    (
        "the dog sleeps because the cat reads a book",
        "der Hund schläft, weil die Katze ein Buch liest",
        [("", THE_DOG_SLEEPS), ("because", Clause(THE_CAT, "read", A_BOOK))],
    ),
    (
        "if the cat reads a book often, the dog sleeps",
        "wenn die Katze oft ein Buch liest, schläft der Hund",
        [("if", Clause(THE_CAT, "read", A_BOOK, adverb="often")), ("", THE_DOG_SLEEPS)],
    ),
    # Separable verbs, apart and joined
    (
        "the man opens the door",
        "der Mann macht die Tür auf",
        [("", Clause(THE_MAN, "open", THE_DOOR))],
    ),
    (
        "now she closes the window",
        "jetzt macht sie das Fenster zu",
        [
            (
                "",
                Clause(
                    SHE, "close", (one("the", "window"),), adverb="now", first="adverb"
                ),
            )
        ],
    ),
    (
        "the dog sleeps although the man opens the door",
        "der Hund schläft, obwohl der Mann die Tür aufmacht",
        [("", THE_DOG_SLEEPS), ("although", Clause(THE_MAN, "open", THE_DOOR))],
    ),
    (
        "while we paint a bench, the girl arrives",
        "während wir eine Bank anmalen, kommt das Mädchen an",
        [
            ("while", Clause(WE, "paint", (one("a", "bench"),))),
            ("", Clause(one("the", "girl"), "arrive")),
        ],
    ),
    (
        "the woman must call the man",
        "die Frau muss den Mann anrufen",
        [("", Clause(one("the", "woman"), "call", (THE_MAN,), "must"))],
    ),
    (
        "he stays if they can invite the boy",
        "er bleibt, wenn sie den Jungen einladen können",
        [
            ("", Clause(HE, "stay")),
            ("if", Clause(THEY, "invite", (one("the", "boy"),), "can")),
        ],
    ),
    # The perfect, with haben and with sein
    (
        "the cat has read the book",
        "die Katze hat das Buch gelesen",
        [("", Clause(THE_CAT, "read", (one("the", "book"),), "perfect"))],
    ),
    (
        "today the man has opened the door",
        "heute hat der Mann die Tür aufgemacht",
        [("", Clause(THE_MAN, "open", THE_DOOR, "perfect", "today", first="adverb"))],
    ),
    (
        "they have arrived",
        "sie sind angekommen",
        [("", Clause(THEY, "arrive", (), "perfect"))],
    ),
    (
        "she laughs because the dog has stayed",
        "sie lacht, weil der Hund geblieben ist",
        [
            ("", Clause(SHE, "laugh")),
            ("because", Clause(THE_DOG, "stay", (), "perfect")),
        ],
    ),
    (
        "although he has followed a bear, the dog sleeps",
        "obwohl er einem Bären gefolgt ist, schläft der Hund",
        [
            ("although", Clause(HE, "follow", (one("a", "bear"),), "perfect")),
            ("", THE_DOG_SLEEPS),
        ],
    ),
    # Longer chains
    (
        "the dog sleeps, and today the man works, but we play",
        "der Hund schläft, und heute arbeitet der Mann, aber wir spielen",
        [
            ("", THE_DOG_SLEEPS),
            ("and", Clause(THE_MAN, "work", adverb="today", first="adverb")),
            ("but", Clause(WE, "play")),
        ],
    ),
    (
        "he brings the child a ball because she works while we sleep, and they laugh",
        "er bringt dem Kind einen Ball, weil sie arbeitet, während wir schlafen, "
        "und sie lachen",
        [
            ("", Clause(HE, "bring", (one("the", "child"), one("a", "ball")))),
            ("because", Clause(SHE, "work")),
            ("while", Clause(WE, "sleep")),
            ("and", Clause(THEY, "laugh")),
        ],
    ),
]


@pytest.fixture(scope="module")
def drawn():
    return aligned_pairs(MANY, seed=1)


@pytest.fixture(scope="module")
def default():
    return splits()


@pytest.mark.parametrize(("english", "german", "parts"), BY_HAND)
def test_a_sentence_is_what_a_person_would_write(english, german, parts):
    assert sentence(parts)[:2] == (english, german)


def test_the_books_own_pairs_are_among_the_sentences_written_by_hand():
    written = [(english, german) for english, german, _ in BY_HAND]
    assert written[: len(RUNNING)] == RUNNING


@pytest.mark.parametrize(
    ("english", "alignment"),
    [
        # die Katze liest ein rotes Buch
        ("the cat reads a red book", (0, 1, 2, 3, 4, 5)),
        # heute liest die Katze ein Buch
        ("today the cat reads a book", (0, 3, 1, 2, 4, 5)),
        # der Mann macht die Tür auf: two words from "opens"
        ("the man opens the door", (0, 1, 2, 3, 4, 2)),
        # der Hund schläft, obwohl der Mann die Tür aufmacht
        (
            "the dog sleeps although the man opens the door",
            (0, 1, 2, 3, 4, 5, 7, 8, 6),
        ),
        # heute hat der Mann die Tür aufgemacht
        ("today the man has opened the door", (0, 3, 1, 2, 5, 6, 4)),
        # im Garten liest die Katze manchmal ein Buch: nothing from the first "the"
        ("in the garden the cat reads a book sometimes", (0, 2, 5, 3, 4, 8, 6, 7)),
        # während wir eine Bank anmalen, kommt das Mädchen an
        ("while we paint a bench, the girl arrives", (0, 1, 3, 4, 2, 7, 5, 6, 7)),
    ],
)
def test_each_german_word_knows_its_english_word(english, alignment):
    parts = next(parts for text, _, parts in BY_HAND if text == english)
    assert sentence(parts).alignment == alignment


def test_every_alignment_has_a_place_for_every_german_word(drawn):
    for english, german, alignment in drawn:
        assert len(alignment) == len(german.split())
        assert set(alignment) <= set(range(len(english.split())))
        skipped = set(range(len(english.split()))) - set(alignment)
        assert {english.split()[i] for i in skipped} <= {"the"}  # in dem: im


def test_word_order_crosses_in_most_sentences(drawn):
    crossing = [p for p in drawn if list(p.alignment) != sorted(p.alignment)]
    assert len(crossing) > MANY / 2


def test_an_alignment_joins_words_that_mean_the_same(drawn):
    meanings = {}
    for english, german, alignment in drawn:
        for i, word in enumerate(german.replace(",", "").split()):
            source = english.replace(",", "").split()[alignment[i]]
            meanings.setdefault(word, set()).add(source)
    assert meanings["Katze"] == {"cat"}
    assert meanings["Hunden"] == {"dogs"}
    assert meanings["Jungen"] == {"boy", "boys"}
    assert meanings["auf"] == {"open", "opens", "on"}
    assert meanings["aufmacht"] == {"opens"}
    assert meanings["ist"] == {"has"}
    assert meanings["im"] == {"in"}


def test_no_sentence_is_drawn_twice_in_either_language(drawn):
    assert len(drawn) == MANY
    assert len({pair.english for pair in drawn}) == MANY
    assert len({pair.german for pair in drawn}) == MANY


def test_an_english_sentence_has_one_translation_whatever_the_seed(drawn, default):
    known = {pair.english: pair.german for pair in drawn}
    back = {pair.german: pair.english for pair in drawn}
    for split in default:
        for english, german in split:
            assert known.get(english, german) == german
            assert back.get(german, english) == english


def test_every_table_and_every_construction_is_drawn(drawn):
    words = {word.strip(",") for pair in drawn for word in pair.german.split()}
    assert words >= set("aufmacht zumacht anmalt anruft einlädt ankommt".split())
    assert words >= set("kann können muss müssen hat haben ist sind".split())
    assert words >= set("und aber weil obwohl während wenn".split())
    assert words >= set("in im auf unter neben für ohne".split())
    assert words >= set("rotes rote roten roter Häusern Fenstern".split())
    assert words >= set("heute jetzt oft manchmal".split())


def test_the_words_are_few_enough_for_a_small_model(default):
    for language in (0, 1):
        words = {w.strip(",") for pair in default.train for w in pair[language].split()}
        assert 150 <= len(words) <= 250


def test_the_same_seed_gives_the_same_pairs_in_another_process():
    code = (
        "from transformer_lib.data.corpora.grammar import sentence_pairs;"
        "print(ascii(sentence_pairs(200, seed=3)))"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True
    ).stdout
    assert printed.strip() == ascii(sentence_pairs(200, seed=3))


def test_another_seed_gives_other_pairs():
    assert sentence_pairs(200, seed=3) != sentence_pairs(200, seed=4)


def test_sentence_pairs_are_the_aligned_pairs_without_their_alignment(drawn):
    assert sentence_pairs(200, seed=1) == [tuple(pair[:2]) for pair in drawn[:200]]


def test_lengths_are_counted_in_english_words():
    lengths = {
        len(english.split())
        for english, _ in sentence_pairs(500, seed=3, shortest=5, longest=7)
    }
    assert lengths == {5, 6, 7}


def test_one_clause_has_no_comma():
    assert not any("," in german for _, german in sentence_pairs(500, 3, clauses=1))


def test_splits_have_the_sizes_asked_for():
    asked = {"train": 7, "validation": 5, "test": 3, "longer": 2}
    made = splits(seed=3, **asked)
    assert {name: len(pairs) for name, pairs in made._asdict().items()} == asked


def test_the_seed_decides_every_split():
    few = {"train": 7, "validation": 5, "test": 3, "longer": 2}
    assert splits(3, **few) == splits(3, **few)
    for one_seed, other_seed in zip(splits(3, **few), splits(4, **few), strict=True):
        assert one_seed != other_seed


def test_no_sentence_is_in_two_splits_in_either_language(default):
    for language in (0, 1):
        texts = [pair[language] for split in default for pair in split]
        assert len(set(texts)) == len(texts) == 21_500


def test_the_books_own_pairs_are_in_no_split(default, monkeypatch):
    texts = {text for split in default for pair in split for text in pair}
    assert texts.isdisjoint(text for pair in RUNNING for text in pair)
    first = default.train[0]
    monkeypatch.setattr("transformer_lib.data.corpora.grammar.RUNNING", [first])
    made = splits()
    assert all(first not in split for split in made)
    assert len(made.train) == len(default.train)


def test_longer_sentences_are_longer_than_all_others_and_use_no_new_word(default):
    *usual, longer = default
    assert max(len(english.split()) for split in usual for english, _ in split) == 14
    assert {len(english.split()) for english, _ in longer} == set(range(15, 25))
    for language in (0, 1):
        known, needed = (
            {word.strip(",") for pair in pairs for word in pair[language].split()}
            for pairs in (default.train, longer)
        )
        assert needed <= known


def test_held_out_sentences_use_no_word_that_training_lacks(default):
    for language in (0, 1):
        known, needed = (
            {word.strip(",") for pair in pairs for word in pair[language].split()}
            for pairs in (default.train, default.validation + default.test)
        )
        assert needed <= known


def test_german_has_a_comma_before_every_clause_but_the_first(drawn):
    joins = {"und", "aber", "weil", "obwohl", "während", "wenn"}
    for pair in drawn:
        for word, following in pairwise(pair.german.split()):
            assert following not in joins or word.endswith(",")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"count": -1}, "count must be at least 0, got -1"),
        ({"shortest": 0}, "shortest must be at least 1, got 0"),
        ({"clauses": 0}, "clauses must be at least 1, got 0"),
        (
            {"shortest": 7, "longest": 5},
            "longest must be at least shortest, got 5 and 7",
        ),
        (
            {"count": 1000, "longest": 2, "clauses": 1},
            r"got 1000, but found only \d+ sentences of 2 to 2 words",
        ),
    ],
)
def test_draws_that_cannot_be_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        sentence_pairs(**{"count": 3, "seed": 3, **arguments})


@pytest.mark.parametrize("name", ["train", "validation", "test", "longer"])
def test_negative_splits_are_refused(name):
    with pytest.raises(ValueError, match=f"{name} must be at least 0, got -1"):
        splits(**{name: -1})


@pytest.mark.parametrize(
    ("subject", "message"),
    [
        (many("a", "cat"), "got 'a' and plural=True"),
        (one("", "cat"), "got '' and plural=False"),
    ],
)
def test_a_determiner_that_does_not_suit_the_number_is_refused(subject, message):
    with pytest.raises(ValueError, match=message):
        sentence([("", Clause(subject, "sleep"))])


def test_only_a_main_clause_may_begin_with_its_adverb():
    clause = Clause(SHE, "sleep", adverb="today", first="adverb")
    with pytest.raises(ValueError, match="got 'adverb' and a verb that is last"):
        sentence([("", THE_DOG_SLEEPS), ("because", clause)])
    with pytest.raises(ValueError, match="got 'adverb' and a verb that is first"):
        sentence([("because", THE_DOG_SLEEPS), ("", clause)])


def test_a_verb_gets_as_many_objects_as_it_takes():
    with pytest.raises(ValueError, match="as many as 'read' takes, got 0 and 1"):
        sentence([("", Clause(SHE, "read"))])


@pytest.mark.parametrize("first", ["adverb", "place"])
def test_a_clause_cannot_begin_with_what_it_lacks(first):
    with pytest.raises(ValueError, match=f"first must be .* has, got '{first}'"):
        sentence([("", Clause(SHE, "sleep", first=first))])


@pytest.mark.parametrize(
    "clause",
    [
        Clause(one("the", "man"), "see", (SHE,)),
        Clause(NounPhrase("the", "", "she"), "sleep"),
        Clause(NounPhrase("", "old", "she"), "sleep"),
    ],
)
def test_a_pronoun_is_a_subject_by_itself(clause):
    with pytest.raises(ValueError, match="pronoun must be a subject"):
        sentence([("", clause)])
