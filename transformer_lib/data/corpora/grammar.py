"""A small grammar that says the same sentence in English and in German.

German moves the verb: to the second place in a main clause, to the end after "because".
The one word "opens" may even close around the door: "macht die Tür auf". So the two
orders cross, and since the grammar makes both sides, it knows which German word comes
from which English one.
"""

import random
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import NamedTuple

from transformer_lib.checks import require_not_negative, require_positive


class Noun(NamedTuple):
    """A noun in both languages, and what kind of thing it is."""

    singular: str
    plural: str
    german: str
    german_plural: str
    gender: str  # m, f, n; w: masculine, with its plural form in all but one case
    kind: str


class Verb(NamedTuple):
    """A verb in both languages, and the objects that it takes."""

    base: str
    third: str
    participle: str
    infinitive: str
    german_third: str
    german_participle: str
    particle: str  # "" or what splits off: auf in aufmachen
    perfect: str  # haben or sein
    dative: str  # the kinds of its dative object, or ""
    accusative: str

    @property
    def objects(self) -> list[tuple[str, str]]:
        """The case and the kinds of each object, in the order of both languages."""
        cases = ("dative", self.dative), ("accusative", self.accusative)
        return [(case, kinds) for case, kinds in cases if kinds]


def _table(text: str) -> list[list[str]]:
    rows = [line.split() for line in text.strip().splitlines()]
    return [["" if cell == "-" else cell for cell in row] for row in rows]


# Kinds of noun: P person, A animal, T text, O other thing, D door or window,
# F furniture, L place.
NOUNS = {
    row[0]: Noun(*row)
    for row in _table("""
        man        men         Mann     Männer     m  P
        woman      women       Frau     Frauen     f  P
        child      children    Kind     Kinder     n  P
        girl       girls       Mädchen  Mädchen    n  P
        boy        boys        Junge    Jungen     w  P
        student    students    Student  Studenten  w  P
        teacher    teachers    Lehrer   Lehrer     m  P
        dog        dogs        Hund     Hunde      m  A
        cat        cats        Katze    Katzen     f  A
        horse      horses      Pferd    Pferde     n  A
        bear       bears       Bär      Bären      w  A
        mouse      mice        Maus     Mäuse      f  A
        book       books       Buch     Bücher     n  T
        letter     letters     Brief    Briefe     m  T
        newspaper  newspapers  Zeitung  Zeitungen  f  T
        apple      apples      Apfel    Äpfel      m  O
        egg        eggs        Ei       Eier       n  O
        ball       balls       Ball     Bälle      m  O
        flower     flowers     Blume    Blumen     f  O
        door       doors       Tür      Türen      f  D
        window     windows     Fenster  Fenster    n  D
        chair      chairs      Stuhl    Stühle     m  F
        table      tables      Tisch    Tische     m  F
        bed        beds        Bett     Betten     n  F
        bench      benches     Bank     Bänke      f  F
        garden     gardens     Garten   Gärten     m  L
        house      houses      Haus     Häuser     n  L
        park       parks       Park     Parks      m  L
        kitchen    kitchens    Küche    Küchen     f  L
    """)
}

PRONOUNS = {"he": "er", "she": "sie", "we": "wir", "they": "sie"}

ADJECTIVES = {
    english: (german, kinds)
    for english, german, kinds in _table("""
        small      klein  PATODFL
        big        groß   PATODFL
        old        alt    PATODFL
        beautiful  schön  PATODFL
        tired      müd    PA
        red        rot    ATODF
        green      grün   TODFL
        new        neu    TODFL
    """)
}

VERBS = {
    row[0]: Verb(*row)
    for row in _table("""
        sleep   sleeps   slept    schlafen  schläft  geschlafen  -    haben  -   -
        play    plays    played   spielen   spielt   gespielt    -    haben  -   -
        work    works    worked   arbeiten  arbeitet gearbeitet  -    haben  -   -
        laugh   laughs   laughed  lachen    lacht    gelacht     -    haben  -   -
        stay    stays    stayed   bleiben   bleibt   geblieben   -    sein   -   -
        arrive  arrives  arrived  kommen    kommt    gekommen    an   sein   -   -
        read    reads    read     lesen     liest    gelesen     -    haben  -   T
        see     sees     seen     sehen     sieht    gesehen     -    haben  -   PATODFL
        find    finds    found    finden    findet   gefunden    -    haben  -   PATOFL
        buy     buys     bought   kaufen    kauft    gekauft     -    haben  -   TOFL
        carry   carries  carried  tragen    trägt    getragen    -    haben  -   PATOF
        open    opens    opened   machen    macht    gemacht     auf  haben  -   D
        close   closes   closed   machen    macht    gemacht     zu   haben  -   D
        paint   paints   painted  malen     malt     gemalt      an   haben  -   DF
        call    calls    called   rufen     ruft     gerufen     an   haben  -   P
        invite  invites  invited  laden     lädt     geladen     ein  haben  -   P
        help    helps    helped   helfen    hilft    geholfen    -    haben  PA  -
        thank   thanks   thanked  danken    dankt    gedankt     -    haben  PA  -
        follow  follows  followed folgen    folgt    gefolgt     -    sein   PA  -
        give    gives    given    geben     gibt     gegeben     -    haben  PA  TO
        show    shows    shown    zeigen    zeigt    gezeigt     -    haben  PA  TOD
        bring   brings   brought  bringen   bringt   gebracht    -    haben  PA  TOF
    """)
}

HELPERS = {  # English singular, plural; German singular, plural
    "haben": ("has", "have", "hat", "haben"),
    "sein": ("has", "have", "ist", "sind"),
    "can": ("can", "can", "kann", "können"),
    "must": ("must", "must", "muss", "müssen"),
}

PREPOSITIONS = {  # German, its case, the kinds that go with it
    "in": ("in", "dative", "L"),
    "on": ("auf", "dative", "F"),
    "under": ("unter", "dative", "F"),
    "beside": ("neben", "dative", "ADF"),
    "for": ("für", "accusative", "PA"),
    "without": ("ohne", "accusative", "PA"),
}

ADVERBS = {"today": "heute", "now": "jetzt", "often": "oft", "sometimes": "manchmal"}

COORDINATING = {"and": "und", "but": "aber"}
SUBORDINATING = {
    "because": "weil",
    "although": "obwohl",
    "while": "während",
    "if": "wenn",
}

STRONG_ENDINGS = {  # p is the plural, the same for all genders
    "nominative": {"m": "er", "f": "e", "n": "es", "p": "e"},
    "accusative": {"m": "en", "f": "e", "n": "es", "p": "e"},
    "dative": {"m": "em", "f": "er", "n": "em", "p": "en"},
}
THE = {"er": "der", "e": "die", "es": "das", "en": "den", "em": "dem"}

RUNNING = [  # the book's own pairs
    ("the cat reads a red book", "die Katze liest ein rotes Buch"),
    ("a dog sleeps", "ein Hund schläft"),
]


class NounPhrase(NamedTuple):
    """The choices that make "the old cats"; a pronoun is a ``noun`` on its own.

    Each word is given in its base form, as in the tables above.
    """

    determiner: str  # the, a, my, this or ""
    adjective: str  # or ""
    noun: str
    plural: bool = False


class Clause(NamedTuple):
    """The choices that make a clause, the same for both languages."""

    subject: NounPhrase
    verb: str
    objects: tuple[NounPhrase, ...] = ()
    tense: str = "present"  # present, perfect, can or must
    adverb: str = ""
    place: tuple[str, NounPhrase] | None = None  # preposition and its noun phrase
    first: str = "subject"  # subject, adverb or place


class AlignedPair(NamedTuple):
    """A sentence in both languages, and which word comes from which.

    German word i comes from English word ``alignment[i]``; ``split()`` makes the words.
    """

    english: str
    german: str
    alignment: tuple[int, ...]


@dataclass(eq=False)  # one "the" is not another "the"
class _Word:
    english: str  # "" for the particle: it belongs to the English word before it
    german: str  # "" for the article that "im" has swallowed


def _noun_phrase(phrase: NounPhrase, case: str) -> list[_Word]:
    determiner, adjective, noun, plural = phrase
    if noun in PRONOUNS:
        if determiner or adjective or case != "nominative":
            raise ValueError(
                f"a pronoun must be a subject without other words, got {phrase}"
            )
        return [_Word(noun, PRONOUNS[noun])]
    if determiner == ("a" if plural else ""):
        raise ValueError(
            f"determiner must suit the number, got {determiner!r} and plural={plural}"
        )
    entry = NOUNS[noun]
    gender = "p" if plural else entry.gender.replace("w", "m")
    strong = STRONG_ENDINGS[case][gender]
    # Where "der" would end in -r or -s, "ein" and "mein" have no ending.
    bare = determiner in ("a", "my") and case != "dative" and strong in ("er", "es")
    words = []
    if determiner == "the":
        words.append(_Word("the", THE[strong]))
    elif determiner == "this":
        words.append(_Word("these" if plural else "this", "dies" + strong))
    elif determiner:
        stem = {"a": "ein", "my": "mein"}[determiner]
        words.append(_Word(determiner, stem if bare else stem + strong))
    if adjective:
        weak = "en" if plural or case == "dative" or strong == "en" else "e"
        ending = strong if bare or not determiner else weak
        words.append(_Word(adjective, ADJECTIVES[adjective][0] + ending))
    if plural:
        n = "n" if case == "dative" and entry.german_plural[-1] not in "ns" else ""
        words.append(_Word(entry.plural, entry.german_plural + n))
    else:
        weak_noun = entry.gender == "w" and case != "nominative"
        words.append(_Word(noun, entry.german_plural if weak_noun else entry.german))
    if determiner == "a" and words[1].english[0] in "aeiou":
        words[0].english = "an"
    return words


def _verbs(clause: Clause, verb_place: str) -> list[_Word]:
    """The verb that agrees with the subject, then what German puts at the end."""
    verb = VERBS[clause.verb]
    plural = clause.subject.plural or clause.subject.noun in ("we", "they")
    if clause.tense == "present":
        english = verb.base if plural else verb.third
        german = verb.infinitive if plural else verb.german_third
        if verb_place == "last" or not verb.particle:
            return [_Word(english, verb.particle + german)]
        return [_Word(english, german), _Word("", verb.particle)]
    if clause.tense == "perfect":
        helper, main = HELPERS[verb.perfect], (verb.participle, verb.german_participle)
    else:
        helper, main = HELPERS[clause.tense], (verb.base, verb.infinitive)
    return [
        _Word(helper[plural], helper[2 + plural]),
        _Word(main[0], verb.particle + main[1]),
    ]


def _clause(clause: Clause, verb_place: str) -> tuple[list[_Word], list[_Word]]:
    """The same words in English and in German order."""
    cases = [case for case, _ in VERBS[clause.verb].objects]
    if len(clause.objects) != len(cases):
        raise ValueError(
            f"objects must be as many as {clause.verb!r} takes, "
            f"got {len(clause.objects)} and {len(cases)}"
        )
    subject = _noun_phrase(clause.subject, "nominative")
    finite, *end = _verbs(clause, verb_place)
    objects = [*chain.from_iterable(map(_noun_phrase, clause.objects, cases))]
    adverb = [_Word(clause.adverb, ADVERBS[clause.adverb])] if clause.adverb else []
    place = []
    if clause.place:
        preposition, phrase = clause.place
        german_preposition, case, _ = PREPOSITIONS[preposition]
        place = [_Word(preposition, german_preposition), *_noun_phrase(phrase, case)]
        if [word.german for word in place[:2]] == ["in", "dem"]:
            place[0].german, place[1].german = "im", ""

    if clause.first != "subject" and verb_place != "second":
        raise ValueError(
            "first must be 'subject' unless the verb is second, "
            f"got {clause.first!r} and a verb that is {verb_place}"
        )
    front = {"subject": subject, "adverb": adverb, "place": place}[clause.first]
    if not front:
        raise ValueError(
            f"first must be what the clause has, got {clause.first!r} and {clause}"
        )
    english = [subject, [finite, *end], objects, place, adverb]
    german = [subject, adverb, objects, place, end]
    for fields in (english, german):
        fields.remove(front)
        fields.insert(0, front)
    german.insert({"first": 0, "second": 1, "last": 5}[verb_place], [finite])
    return list(chain.from_iterable(english)), list(chain.from_iterable(german))


def sentence(parts: list[tuple[str, Clause]]) -> AlignedPair:
    """Say a chain of clauses in both languages.

    A clause has its German verb last after because, although, while and if; second
    after and, but, or no conjunction; and first where the clause before it is a
    subordinate one that opened the sentence.

    Args:
        parts: Conjunction and clause, in the order of the sentence. The conjunction is
            "" for the main clause that opens the sentence or follows a subordinate
            clause that does.

    Returns:
        The English sentence, its only German translation, and the alignment.

    Raises:
        ValueError: If the choices of a clause do not go together.
    """
    english, german, english_words, german_words = "", "", [], []
    for i, (conjunction, clause) in enumerate(parts):
        if conjunction in SUBORDINATING:
            verb_place = "last"
        else:
            verb_place = "first" if i > 0 and conjunction == "" else "second"
        ours, theirs = _clause(clause, verb_place)
        if conjunction:
            word = _Word(conjunction, (COORDINATING | SUBORDINATING)[conjunction])
            ours, theirs = [word, *ours], [word, *theirs]
        if i > 0:
            english += " " if conjunction in SUBORDINATING else ", "
            german += ", "
        english += " ".join(word.english for word in ours if word.english)
        german += " ".join(word.german for word in theirs if word.german)
        english_words += ours
        german_words += theirs
    counts = accumulate((word.english != "" for word in english_words), initial=-1)
    next(counts)
    positions = dict(zip(english_words, counts, strict=True))
    said = [word for word in german_words if word.german]
    return AlignedPair(english, german, tuple(positions[word] for word in said))


def _draw_noun_phrase(rng: random.Random, kinds: str) -> NounPhrase:
    noun = rng.choice([noun for noun in NOUNS if NOUNS[noun].kind in kinds])
    kind = NOUNS[noun].kind
    suits = [word for word, (_, kinds) in ADJECTIVES.items() if kind in kinds]
    adjective = rng.choice(suits) if rng.random() < 0.4 else ""
    plural = rng.random() < 0.35
    determiners = ["the", "the", "this", "" if plural else "a", *["my"] * (kind != "P")]
    return NounPhrase(rng.choice(determiners), adjective, noun, plural)


def _draw_clause(rng: random.Random, may_front: bool) -> Clause:
    subject = _draw_noun_phrase(rng, "PA")
    if rng.random() < 0.2:
        subject = NounPhrase("", "", rng.choice(list(PRONOUNS)))
    verb = rng.choice(list(VERBS))
    objects = tuple(_draw_noun_phrase(rng, kinds) for _, kinds in VERBS[verb].objects)
    tense = rng.choice(["present", "present", "perfect", "can", "must"])
    adverb = rng.choice(list(ADVERBS)) if rng.random() < 0.4 else ""
    place = None
    if rng.random() < 0.3:
        preposition = rng.choice(list(PREPOSITIONS))
        place = (preposition, _draw_noun_phrase(rng, PREPOSITIONS[preposition][2]))
    fronts = ["subject"] + ["adverb"] * bool(adverb) + ["place"] * bool(place)
    first = rng.choice(fronts) if may_front else "subject"
    return Clause(subject, verb, objects, tense, adverb, place, first)


def _draw_sentence(rng: random.Random, clauses: int) -> AlignedPair:
    others = [*COORDINATING, *SUBORDINATING]
    conjunctions = ["", *rng.choices(others, k=rng.randint(1, clauses) - 1)]
    if conjunctions[1:2] and conjunctions[1] in SUBORDINATING and rng.random() < 0.5:
        conjunctions[:2] = conjunctions[1], ""
    return sentence(
        [
            (c, _draw_clause(rng, c in COORDINATING or (i == 0 and c == "")))
            for i, c in enumerate(conjunctions)
        ]
    )


def aligned_pairs(
    count: int, seed: int, shortest: int = 2, longest: int = 14, clauses: int = 2
) -> list[AlignedPair]:
    """Draw sentences, each with its translation and alignment; no two are alike.

    Args:
        count: How many.
        seed: The same seed gives the same sentences, on any computer.
        shortest: The fewest English words in a sentence.
        longest: The most English words in a sentence.
        clauses: The most clauses in a sentence.

    Returns:
        ``count`` sentences; no English and no German sentence comes twice.

    Raises:
        ValueError: If a size is out of range, ``longest`` is less than ``shortest``, or
            there are hardly so many sentences of these lengths.
    """
    require_not_negative(count=count)
    require_positive(shortest=shortest, clauses=clauses)
    if longest < shortest:
        raise ValueError(
            f"longest must be at least shortest, got {longest} and {shortest}"
        )
    rng = random.Random(seed)
    pairs: list[AlignedPair] = []
    seen: set[str] = set()
    misses = 0
    while len(pairs) < count:
        pair = _draw_sentence(rng, clauses)
        fits = shortest <= len(pair.english.split()) <= longest
        if fits and seen.isdisjoint((pair.english, pair.german)):
            pairs.append(pair)
            seen.update((pair.english, pair.german))
            misses = 0
        else:
            misses += 1
        if misses == 2_000:
            raise ValueError(
                f"count must be in reach of the grammar, got {count}, but found only "
                f"{len(pairs)} sentences of {shortest} to {longest} words"
            )
    return pairs


def sentence_pairs(
    count: int, seed: int, shortest: int = 2, longest: int = 14, clauses: int = 2
) -> list[tuple[str, str]]:
    """Draw the sentences of ``aligned_pairs`` as plain pairs (English, German)."""
    return [pair[:2] for pair in aligned_pairs(count, seed, shortest, longest, clauses)]


class Splits(NamedTuple):
    """Pairs (English, German) for each purpose; no sentence is in two of them."""

    train: list[tuple[str, str]]
    validation: list[tuple[str, str]]
    test: list[tuple[str, str]]
    longer: list[tuple[str, str]]  # 15 words or more; the others have at most 14


def splits(
    seed: int = 0,
    train: int = 20_000,
    validation: int = 500,
    test: int = 500,
    longer: int = 500,
) -> Splits:
    """Draw what a model learns from and what it is judged by.

    The two sentences that run through the book, ``RUNNING``, are held out: no split
    has them. Other sizes cut the same stream elsewhere: with a smaller ``train``,
    ``test`` may hold pairs of the default ``train``.

    Args:
        seed: The same seed gives the same splits.
        train: Number of pairs to learn from.
        validation: Number of pairs to choose by.
        test: Number of pairs to judge by.
        longer: Number of pairs with 15 to 24 English words, in up to four clauses.

    Returns:
        The four lists of pairs, of the sizes asked for.

    Raises:
        ValueError: If a size is negative.
    """
    require_not_negative(train=train, validation=validation, test=test, longer=longer)
    wanted = train + validation + test
    drawn = sentence_pairs(wanted + len(RUNNING), seed)
    pairs = [pair for pair in drawn if pair not in RUNNING][:wanted]
    return Splits(
        pairs[:train],
        pairs[train : train + validation],
        pairs[train + validation :],
        sentence_pairs(longer, seed, shortest=15, longest=24, clauses=4),
    )
