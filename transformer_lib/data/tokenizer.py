"""Subwords: text to token ids and back, by byte-pair encoding."""

import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Self

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from transformer_lib.checks import require_probability
from transformer_lib.files import atomic_write

SPECIAL_TOKENS = ("<pad>", "<s>", "</s>")
BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())


class Tokenizer:
    """Cut text into frequent pieces; one vocabulary serves both languages.

    The smallest pieces are bytes, so any text can be encoded, whatever the vocabulary
    was learned from. The text is cleaned first: Unicode's composed form (NFC), one
    space for each stretch of white space, none at the ends. PAD, BOS and EOS have the
    same ids in every vocabulary, and no text is encoded as one of them. A lone
    surrogate, which is no character, raises ``UnicodeEncodeError``.

    Source: Sennrich et al. (2016); on bytes: Radford et al. (2019), section 2.2.
    """

    pad_id, bos_id, eos_id = range(3)

    def __init__(self, bpe: tokenizers.Tokenizer) -> None:
        self._bpe = bpe
        self._bpe.encode_special_tokens = True  # "</s>" in a text is four characters

    @classmethod
    def train(cls, texts: Iterable[str], vocab_size: int) -> Self:
        """Learn which pieces are frequent. The same texts give the same vocabulary.

        Args:
            texts: Sentences of both languages.
            vocab_size: The most tokens, including special tokens and the 256 bytes.

        Raises:
            ValueError: If ``vocab_size`` leaves no room for these.
        """
        smallest = len(SPECIAL_TOKENS) + len(BYTES)
        if vocab_size < smallest:
            raise ValueError(
                f"vocab_size must be at least {smallest}, got {vocab_size}"
            )
        bpe = tokenizers.Tokenizer(models.BPE())
        one_space = normalizers.Replace(tokenizers.Regex(r"\s+"), " ")
        bpe.normalizer = normalizers.Sequence(
            [normalizers.NFC(), one_space, normalizers.Strip()]
        )
        bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        bpe.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size,
            special_tokens=list(SPECIAL_TOKENS),
            initial_alphabet=BYTES,
            show_progress=False,
        )
        bpe.train_from_iterator(texts, trainer)
        return cls(bpe)

    @property
    def vocab_size(self) -> int:
        """The number of tokens, special ones included."""
        return self._bpe.get_vocab_size()

    def clean(self, text: str) -> str:
        """Return the text as ``decode(encode(text))`` would."""
        return self._bpe.normalizer.normalize_str(text)

    def encode(self, text: str) -> list[int]:
        """Turn text into token ids, without BOS and EOS; none for empty text."""
        return self._bpe.encode(text).ids if self.clean(text) else []

    def encode_at_random(self, text: str, dropout: float, random: Random) -> list[int]:
        """Turn text into the ids of smaller pieces, chosen at random.

        Words are merged as in ``encode``, except that before each merge every possible
        pair is skipped with probability ``dropout``.

        Args:
            text: Any text.
            dropout: In [0, 1); 0 gives what ``encode`` gives.
            random: Draws which pairs are skipped.

        Returns:
            Ids that decode to the same text as those of ``encode``.

        Raises:
            ValueError: If ``dropout`` is outside [0, 1).

        Source: Provilkov et al. (2020), algorithm 1.
        """
        require_probability(dropout=dropout)
        text = self.clean(text)
        words = self._bpe.pre_tokenizer.pre_tokenize_str(text)
        ids = []
        for word, _ in words:
            pieces = list(word)
            while known := [
                (self._ranks[pair], i)
                for i, pair in enumerate(pairwise(pieces))
                if pair in self._ranks and random.random() >= dropout
            ]:
                _, i = min(known)  # what was learned first
                pieces[i : i + 2] = [pieces[i] + pieces[i + 1]]
            ids += map(self._bpe.token_to_id, pieces)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Turn token ids into text.

        Args:
            ids: Any ids of the vocabulary.

        Returns:
            The text. Special tokens are left out. Bytes that are not a whole character
            become U+FFFD, the replacement character.

        Raises:
            IndexError: If an id is outside the vocabulary.
        """
        self._require_known(ids)
        return self._bpe.decode(list(ids)).removeprefix(" ")

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the text of each token.

        Args:
            ids: Any ids of the vocabulary.

        Returns:
            A text for each id: "▁" begins a word, special tokens have names, and U+FFFD
            stands for a part of a character.
        """
        self._require_known(ids)
        return [
            SPECIAL_TOKENS[i]
            if i < len(SPECIAL_TOKENS)
            else self._bpe.decode([i]).replace(" ", "▁")
            for i in ids
        ]

    def to_json(self) -> str:
        """Return the whole tokenizer as one line of JSON."""
        return self._bpe.to_str()

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Make a tokenizer from what ``to_json`` returned.

        Raises:
            ValueError: If ``text`` is no tokenizer.
        """
        try:
            bpe = tokenizers.Tokenizer.from_str(text)
        except Exception as error:  # the package raises no narrower class
            raise ValueError(f"text must be a tokenizer, got {text[:40]!r}") from error
        found = tuple(bpe.id_to_token(i) for i in range(len(SPECIAL_TOKENS)))
        if found != SPECIAL_TOKENS or bpe.normalizer is None:
            raise ValueError(
                f"text must begin its vocabulary with {SPECIAL_TOKENS} and clean what "
                f"it reads, got {found} and {bpe.normalizer}"
            )
        return cls(bpe)

    def save(self, path: str | Path) -> None:
        """Write the tokenizer as one JSON file, whole or not at all."""
        with atomic_write(path) as unfinished:
            unfinished.write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what ``save`` wrote.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: As ``from_json``.
        """
        try:
            return cls.from_json(Path(path).read_text("utf-8"))
        except ValueError as error:
            raise ValueError(f"{path} is not a whole tokenizer: {error}") from error

    @cached_property
    def _ranks(self) -> dict[tuple[str, str], int]:
        """Map each merged pair to its rank."""
        merges = json.loads(self.to_json())["model"]["merges"]
        return {tuple(pair): rank for rank, pair in enumerate(merges)}

    def _require_known(self, ids: Sequence[int]) -> None:
        """Refuse ids that the package would silently leave out."""
        size = self.vocab_size
        for i in ids:
            if not 0 <= i < size:
                raise IndexError(f"ids must be in [0, {size}), got {i}")
