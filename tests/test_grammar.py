from itertools import chain

import pytest

from transformer_lib.data.corpora.grammar import (
    NOUNS,
    RUNNING,
    Clause,
    NounPhrase,
    aligned_pairs,
    sentence,
    sentence_pairs,
    splits,
)

MANY = 5_000
DETERMINERS = ("the", "a", "this", "my")

# Two languages, and the choices that make them: subject, verb, objects, and more by
# name; the clauses of a sentence are divided by semicolons.
BY_HAND = """
# The book's own pairs
the cat reads a red book
die Katze liest ein rotes Buch
    the cat, read, a red book
a dog sleeps
ein Hund schläft
    a dog, sleep
# Gender, case and the three sets of adjective endings
the red dog sees the red cat
der rote Hund sieht die rote Katze
    the red dog, see, the red cat
a small dog sees a small dog
ein kleiner Hund sieht einen kleinen Hund
    a small dog, see, a small dog
an old cat buys an old window
eine alte Katze kauft ein altes Fenster
    a old cat, buy, a old window
this big horse helps a tired woman
dieses große Pferd hilft einer müden Frau
    this big horse, help, a tired woman
my tired dog follows the beautiful woman
mein müder Hund folgt der schönen Frau
    my tired dog, follow, the beautiful woman
she finds my new letter
sie findet meinen neuen Brief
    she, find, my new letter
# Number, and the dative plural
tired dogs see green flowers
müde Hunde sehen grüne Blumen
    tired dogs, see, green flowers
the old cats see these new books
die alten Katzen sehen diese neuen Bücher
    the old cats, see, this new books
we help small children
wir helfen kleinen Kindern
    we, help, small children
he works in parks
er arbeitet in Parks
    he, work, place=in parks
we laugh in the gardens
wir lachen in den Gärten
    we, laugh, place=in the gardens
# Weak nouns
a boy sees the boy
ein Junge sieht den Jungen
    a boy, see, the boy
# Two objects; prepositions with either case
the man gives the woman an apple
der Mann gibt der Frau einen Apfel
    the man, give, the woman, a apple
the dog plays on my table
der Hund spielt auf meinem Tisch
    the dog, play, place=on my table
she works for the boy
sie arbeitet für den Jungen
    she, work, place=for the boy
# Verb second
today the cat reads a book
heute liest die Katze ein Buch
    the cat, read, a book, adverb=today, first=adverb
the cat reads a book in the garden today
die Katze liest heute ein Buch im Garten
    the cat, read, a book, adverb=today, place=in the garden
in the garden the cat reads a book sometimes
im Garten liest die Katze manchmal ein Buch
    the cat, read, a book, adverb=sometimes, place=in the garden, first=place
# Verb last
if the cat reads a book often, the dog sleeps
wenn die Katze oft ein Buch liest, schläft der Hund
    if: the cat, read, a book, adverb=often; the dog, sleep
# Separable verbs, apart and joined
the man opens the door
der Mann macht die Tür auf
    the man, open, the door
the dog sleeps although the man opens the door
der Hund schläft, obwohl der Mann die Tür aufmacht
    the dog, sleep; although: the man, open, the door
while we paint a bench, the girl arrives
während wir eine Bank anmalen, kommt das Mädchen an
    while: we, paint, a bench; the girl, arrive
the woman must call the man
die Frau muss den Mann anrufen
    the woman, call, the man, tense=must
he stays if they can invite the boy
er bleibt, wenn sie den Jungen einladen können
    he, stay; if: they, invite, the boy, tense=can
# The perfect, with haben and with sein
the cat has read the book
die Katze hat das Buch gelesen
    the cat, read, the book, tense=perfect
today the man has opened the door
heute hat der Mann die Tür aufgemacht
    the man, open, the door, tense=perfect, adverb=today, first=adverb
they have arrived
sie sind angekommen
    they, arrive, tense=perfect
although he has followed a bear, the dog sleeps
obwohl er einem Bären gefolgt ist, schläft der Hund
    although: he, follow, a bear, tense=perfect; the dog, sleep
# Longer chains
the dog sleeps, and today the man works, but we play
der Hund schläft, und heute arbeitet der Mann, aber wir spielen
    the dog, sleep; and: the man, work, adverb=today, first=adverb; but: we, play
he brings the child a ball because she works while we sleep, and they laugh
er bringt dem Kind einen Ball, weil sie arbeitet, während wir schlafen, und sie lachen
    he, bring, the child, a ball; because: she, work; while: we, sleep; and: they, laugh
"""
PLURALS = {noun.plural: name for name, noun in NOUNS.items()}


def phrase(text):
    *before, word = text.split()
    determiner = before.pop(0) if before and before[0] in DETERMINERS else ""
    noun = PLURALS.get(word, word)
    return NounPhrase(determiner, "".join(before), noun, plural=noun != word)


def clause(text):
    parts = [part.rpartition("=") for part in text.split(", ")]
    subject, verb, *objects = [value for name, _, value in parts if not name]
    choices = {name: value for name, _, value in parts if name}
    if "place" in choices:
        preposition, where = choices["place"].split(" ", 1)
        choices["place"] = (preposition, phrase(where))
    return Clause(phrase(subject), verb, tuple(map(phrase, objects)), **choices)


def sentences():
    lines = [line for line in BY_HAND.split("\n") if line and line[0] != "#"]
    for english, german, choices in zip(*[iter(lines)] * 3, strict=True):
        divided = [each.rpartition(": ") for each in choices.strip().split("; ")]
        yield english, german, [(word, clause(text)) for word, _, text in divided]


SENTENCES = list(sentences())


@pytest.fixture(scope="module")
def drawn():
    return aligned_pairs(MANY, seed=1)


@pytest.fixture(scope="module")
def default():
    return splits()


def test_a_sentence_is_what_a_person_would_write():
    said = [sentence(parts)[:2] for _, _, parts in SENTENCES]
    assert said == [(english, german) for english, german, _ in SENTENCES]
    assert said[: len(RUNNING)] == RUNNING


@pytest.mark.parametrize(
    ("english", "alignment"),
    [
        # der Mann macht die Tür auf: two words from "opens"
        ("the man opens the door", (0, 1, 2, 3, 4, 2)),
        # heute hat der Mann die Tür aufgemacht
        ("today the man has opened the door", (0, 3, 1, 2, 5, 6, 4)),
        # im Garten liest die Katze manchmal ein Buch: nothing from the first "the"
        ("in the garden the cat reads a book sometimes", (0, 2, 5, 3, 4, 8, 6, 7)),
        # während wir eine Bank anmalen, kommt das Mädchen an
        ("while we paint a bench, the girl arrives", (0, 1, 3, 4, 2, 7, 5, 6, 7)),
    ],
)
def test_each_german_word_knows_its_english_word(english, alignment):
    parts = next(parts for text, _, parts in SENTENCES if text == english)
    assert sentence(parts).alignment == alignment


def test_drawn_sentences_differ_and_every_german_word_has_an_english_one(drawn):
    crossing = 0
    for english, german, alignment in drawn:
        assert len(alignment) == len(german.split())
        words = english.split()
        skipped = set(range(len(words))) - set(alignment)
        assert {words[i] for i in skipped} <= {"the"}  # in dem: im
        crossing += list(alignment) != sorted(alignment)
    assert crossing > MANY / 2
    assert len(drawn) == len({p.english for p in drawn}) == MANY
    assert len({p.german for p in drawn}) == MANY
    assert sentence_pairs(200, seed=1) == [tuple(pair[:2]) for pair in drawn[:200]]


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


def test_lengths_are_counted_in_english_words_and_one_clause_has_no_comma():
    pairs = sentence_pairs(100, seed=3, shortest=5, longest=7, clauses=1)
    assert {len(english.split()) for english, _ in pairs} == {5, 6, 7}
    assert not any("," in german for _, german in pairs)


def test_splits_have_the_sizes_asked_for_and_the_seed_decides_each():
    few = {"train": 7, "validation": 5, "test": 3, "longer": 2}
    made = splits(3, **few)
    assert {name: len(pairs) for name, pairs in made._asdict().items()} == few
    assert made == splits(3, **few)
    for one_seed, other_seed in zip(made, splits(4, **few), strict=True):
        assert one_seed != other_seed


def test_no_sentence_is_in_two_splits_and_only_those_of_the_last_are_longer(default):
    for language in (0, 1):
        texts = [pair[language] for split in default for pair in split]
        assert len(set(texts)) == len(texts) == 21_500
    *usual, longer = default
    assert max(len(english.split()) for split in usual for english, _ in split) == 14
    assert {len(english.split()) for english, _ in longer} == set(range(15, 25))


def test_the_books_own_pairs_are_in_no_split(default, monkeypatch):
    texts = {text for split in default for pair in split for text in pair}
    assert texts.isdisjoint(text for pair in RUNNING for text in pair)
    first = default.train[0]
    monkeypatch.setattr("transformer_lib.data.corpora.grammar.RUNNING", [first])
    made = splits(train=300, validation=5, test=5, longer=5)
    assert all(first not in split for split in made)
    assert len(made.train) == 300


def test_held_out_sentences_use_no_word_that_training_lacks(default):
    train, *others = default
    for language in (0, 1):
        known, needed = (
            {word.strip(",") for pair in pairs for word in pair[language].split()}
            for pairs in (train, chain.from_iterable(others))
        )
        assert needed <= known
        assert 150 <= len(known) <= 250  # few enough for a small model
