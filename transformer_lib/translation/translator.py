"""A translator: a trained model together with the tokenizer it was trained with."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from transformer_lib.checks import (
    require_between,
    require_no_faults,
    require_positive,
)
from transformer_lib.data import Tokenizer, pad
from transformer_lib.decoding import beam_search, greedy_decode
from transformer_lib.faster.fast_decoder import FastDecoder, why_unsupported
from transformer_lib.model import Transformer
from transformer_lib.training import load_model, load_tensors, save_model
from transformer_lib.variants import FAMILIES

MODEL, TOKENIZER = "model.safetensors", "tokenizer.json"
ALPHA = 1.4  # chosen on the captions: with the paper's 0.6, small models stop too soon
MAX_TOKENS = 4000  # of a batch, padding and the hypotheses of a beam counted


class Translator:
    """Text in, text out.

    Args:
        model: A trained encoder-decoder model; it translates on the device where it is.
        tokenizer: The tokenizer it was trained with.
        fast: Write with a ``FastDecoder``: the same translations, sooner. A model that
            it does not know writes by itself.
    """

    def __init__(
        self, model: Transformer, tokenizer: Tokenizer, *, fast: bool = True
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.fast = fast

    def translate(
        self, sentences: Sequence[str], beam: int = 1, alpha: float = ALPHA
    ) -> list[str]:
        """Translate sentences, those of similar length together.

        Args:
            sentences: Each is cleaned as ``Tokenizer`` does, so that a line break in
                one counts as a space. Any character may come, known or not.
            beam: How many hypotheses to follow for each sentence; 1 is greedy.
            alpha: Strength of a beam's length penalty, in [-100, 100]: more makes
                longer translations.

        Returns:
            The translations, in the order of ``sentences``, each cleaned likewise: one
            line. An empty sentence has an empty one.

        Raises:
            TypeError: If ``sentences`` is a single str.
            ValueError: If a sentence has more tokens than the model has positions;
                nothing is translated then. If ``beam`` is below 1, or ``alpha`` is out
                of range.
        """
        if isinstance(sentences, str):
            raise TypeError("sentences must be a list of str, got a str")
        require_positive(beam=beam)
        require_between(-100, 100, alpha=alpha)
        encode, end = self.tokenizer.encode, [self.tokenizer.eos_id]
        sources = [encode(sentence) + end for sentence in sentences]
        longest = self.model.config.max_len
        require_no_faults(
            {
                n: f"sentence {n} must have at most {longest} tokens with its end, "
                f"got {len(source)}: cut it into shorter ones"
                for n, source in enumerate(sources, 1)
                if len(source) > longest
            },
            "sentences",
        )
        translations = [""] * len(sources)
        order = [i for i, source in enumerate(sources) if len(source) > 1]
        order.sort(key=lambda i: len(sources[i]), reverse=True)
        while order:
            count = max(1, MAX_TOKENS // (beam * len(sources[order[0]])))
            batch, order = order[:count], order[count:]
            written = self._decode([sources[i] for i in batch], beam, alpha)
            for i, ids in zip(batch, written, strict=True):
                text = self.tokenizer.decode(ids)
                translations[i] = self.tokenizer.clean(text)
        return translations

    def save(self, folder: str | Path) -> None:
        """Write ``tokenizer.json``, then ``model.safetensors``, which names the former.

        Args:
            folder: Made if it does not exist.
        """
        path = Path(folder) / TOKENIZER
        self.tokenizer.save(path)
        save_model(Path(folder) / MODEL, self.model, tokenizer=_sha256(path))

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read what ``save`` wrote, the model onto the CPU.

        Raises:
            FileNotFoundError: If one of the two files is missing.
            ValueError: If one is damaged, or the tokenizer is not the one that the
                model was saved with.
        """
        model_path, tokenizer_path = Path(folder) / MODEL, Path(folder) / TOKENIZER
        model = load_model(model_path, FAMILIES)
        expected = load_tensors(model_path)[1].get("tokenizer")
        found = _sha256(tokenizer_path)
        if found != expected:
            raise ValueError(
                f"{tokenizer_path} is damaged, or does not belong to {model_path}: its "
                f"SHA-256 must be {expected}, got {found}"
            )
        return cls(model, Tokenizer.load(tokenizer_path))

    def _decode(
        self, sources: Sequence[Sequence[int]], beam: int, alpha: float
    ) -> list[list[int]]:
        """Translate one batch of token ids, without special tokens in the result."""
        src = pad(sources, self.tokenizer.pad_id)  # (B, S)
        src = src.to(self.model.output.weight.device)
        model = self.model
        if self.fast and why_unsupported(model) is None:
            model = FastDecoder(model)
        if beam == 1:
            return greedy_decode(model, src)
        found = beam_search(model, src, beam_size=beam, alpha=alpha)
        return [hypotheses[0].tokens for hypotheses in found]


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
