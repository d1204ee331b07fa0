"""One attention split into heads: what a single number reaches."""

from collections.abc import Sequence

from torch import Tensor

from bookkit.controls.control import Control


def split_control(
    words: Sequence[str],
    x: Tensor,
    w_q: Tensor,
    w_k: Tensor,
    w_v: Tensor,
    w_o: Tensor,
    num_heads: int,
) -> Control:
    """Let the reader change one number, and see what it changes further on.

    Args:
        words: The names of the rows, T of them.
        x: Their vectors, shape (T, d_model).
        w_q: Projects all heads' queries, as in ``x @ w_q``; (d_model, d_model).
        w_k: Projects their keys, in the same shape.
        w_v: Projects their values, in the same shape.
        w_o: Mixes the heads, in the same shape.
        num_heads: Head i owns the i-th group of columns of ``w_q``, ``w_k`` and
            ``w_v``.

    Returns:
        A control with the input, one of the three projections, the heads' results side
        by side, the output, and two questions.

    Raises:
        ValueError: If there is not one word for each row, or ``num_heads`` does not
            divide d_model.
    """
    if len(words) != len(x):
        raise ValueError(f"words and x must be as many, got {len(words)} and {len(x)}")
    d_model = x.size(1)
    if d_model % num_heads:
        raise ValueError(
            f"d_model must be divisible by num_heads, got {d_model} and {num_heads}"
        )
    tensors = {"x": x, "w_q": w_q, "w_k": w_k, "w_v": w_v, "w_o": w_o}
    owned = "\n".join(
        f"Head {i} owns features {i * d_model // num_heads} to "
        f"{(i + 1) * d_model // num_heads - 1} of the queries, keys and values."
        for i in range(num_heads)
    )
    return Control(
        "split",
        "Split, attend, merge",
        {
            "words": list(words),
            "heads": num_heads,
            **{name: t.round(decimals=3).tolist() for name, t in tensors.items()},
        },
        f"{len(words)} words of {d_model} features in {num_heads} heads.\n{owned}\n"
        "If one number of the input changes, in how many heads does the result change?",
        beside=__file__,
    )
