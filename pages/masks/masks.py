"""The mask laboratory: sentences that the reader types, their masks, and wrong ones."""

from collections.abc import Sequence

from bookkit.colours import COLOURS
from bookkit.controls.control import Control


def mask_control(src: Sequence[str], tgt: Sequence[str]) -> Control:
    """Draw the masks of a batch of two, and what attention sees with a wrong one.

    Args:
        src: Two source sentences; words are what stands between spaces.
        tgt: Their translations. The decoder reads them with BOS in front and EOS
            behind, the last column dropped.

    Returns:
        A control with the sentences, the attention to mask, and what the code does with
        the mask.

    Raises:
        ValueError: If there are not two sentences on both sides.

    Source: Vaswani et al. (2017), section 3.2.3.
    """
    if not len(src) == len(tgt) == 2:
        raise ValueError(
            f"src and tgt must hold two sentences each, got {len(src)} and {len(tgt)}"
        )
    read = [["BOS", *sentence.split(), "EOS"] for sentence in tgt]
    longest = max(map(len, read)) - 1  # the last column is dropped
    rows = [
        " ".join([*words[:longest], *["[PAD]"] * (longest - len(words))])
        for words in read
    ]
    colours = {name: COLOURS[name] for name in ("may_attend", "hidden")}
    return Control(
        "masks",
        "The mask laboratory",
        {"src": list(src), "tgt": list(tgt), "colours": colours},
        "Decoder self-attention, in code that forgets the future: each word sees all "
        "words of its sentence, those that follow it included. What stands in brackets "
        "is hidden.\n" + "\n".join(rows),
        beside=__file__,
    )
