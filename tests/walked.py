"""Small functions to walk through; tests/listings/ has what their listings say.

Add a function below the others: the listings have the numbers of their lines.
"""

# ruff: noqa: E701, E702, E731, F841

import dataclasses
import math
import time
from contextlib import nullcontext, suppress

import torch
from torch import nn

from bookkit.listing import walk
from transformer_lib.checks import require_positive

T, S, D_K = 5, 7, 11
MINUS_INF = float("-inf")
BAD = '<script>alert(1)</script>&amp;"'


# fmt: off
def sign(x):
    if x > 0:
        return 1
    elif x < 0:
        y = -1
    else:
        return 0
    return y


def loops(xs, n):
    for i, x in enumerate(xs):
        if x > 4:
            n += x + 0 * i
        for _ in range(2):
            last = i, n
    for x in []:
        x += 1
    while True:
        try:
            n -= 1
            if n < 0: break
        finally:
            print(end="")
    if n > 0:
        n = 3
    else:
        with nullcontext(3) as n:
            print(end="")
    return last


def errors(texts, log):
    try:
        x = int(texts[0])
    except ValueError as error:
        x = str(error)[:7]
    for text in texts[:2]:
        with suppress(ValueError):
            number = int(text)
    with suppress(ValueError):
        x = 0
        x = int("four")
    for number in Countdown():
        x = number
    with nullcontext():
        try:
            return int(texts[2])
        finally:
            log.append(x)


class Countdown:
    n = 3

    def __iter__(self):
        return self

    def __next__(self):
        self.n -= 1
        if self.n < 0:
            raise StopIteration
        return self.n


def loud(function):
    return function


@loud
@torch.no_grad()
def statements(
    a, *args, b=(1, [2, 3]), **kwargs
):
    """Left out.

    # Not a comment.
    """
    # Why it is so.
    squares = [
        a * a for a in range(a)
        if a
    ]

    # Below a blank line.
    double = lambda a: 2 * a
    @loud
    def triple(x):
        y = 3 * x
        return y
    text = "# no comment"  # a trailing one
    text = """
one
        two"""
    (a, [c, *d]), e = b, 3; e: int = e; e += 1
    import math as m
    if (
        a
        and c
    ):
        # Why it returns.

        return (g := e) + m.floor(c) + len(text), double(triple(sum(squares)))


class Layer(nn.Module):
    shared = 0

    def __init__(self, d_model, d_k):
        super().__init__()
        self.project = nn.Linear(d_model, d_k, bias=False)
        self.scale = nn.Parameter(torch.ones(1))
        self.register_buffer("table", torch.zeros(2, 3))
        self._hidden, self.n = 3, d_k

    def forward(self, x):
        n = self.size
        x = self.project(x)  # (T, d_k)
        self.table[0] = 1
        self.n = self.n + 1
        self.n = self.n + 0 * n
        return self.scale * x, self

    @property
    def size(self):
        self.n += 100  # a property runs once, by the code
        return self.n

    @classmethod
    def of(cls, n):
        cls.shared += n
        return cls


@dataclasses.dataclass
class Square:
    side: int

    def __post_init__(self):
        self.area = self.side**2


def changes(x, items, book):
    y = x + 1
    y = y * 2
    y = y.clone()
    y = y.float()
    y += 1
    y[0] = math.nan
    y = y * 1
    y = y.nan_to_num(nan=5.0)
    n = 1
    n = 2 - 1
    n = True
    items.append(y)
    items[0] = 5
    items.pop()
    items.sort()
    book["b"] = 3
    book["b"] = 4
    book.update({str(i): i for i in range(9)})
    y = items = book = None


def clocks(folder):
    began = time.perf_counter()
    source = f"{folder}/state"
    seconds = time.perf_counter() - began
    return source, seconds > 0


def shapes(x):
    y = x.flatten()  # (T * S)
    y = y.view(x.shape)  # (T, S)
    y, n, z = x[0], 3, x[:, 0]  # (S), (T)
    w = x[..., None, :1]  # (..., T, 1, 1)
    w = torch.cat([x, x[:1]]).repeat(1, 2)  # (T + 1, 2 * S)
    y, z = x + 1, x * 2  # (T, S)
    y = x + 1  # what query @ key^T will have
    n = 3  # (sic)
    z = x + 1  # (see above)
    n = n + 1  # ("a", "b")
    n = n + 1  # (len(x), S)
    w = x.T.reshape(-1, 1)
    try:
        y = x @ x  # (T, T)
    except RuntimeError:
        y = torch.cat([y, y])  # (T, S), S
    if n is None:
        y = x  # (T)
    return y, w


def check_small(x):
    if x > 9:
        raise ValueError(f"x must be small, got {x}")


def guarded(x, mask=None):
    require_positive(x=x)
    if x > 5:
        double = 2 * x
        raise ValueError(
            f"x must be at most 5, its double at most 10, got {double}",
        )
    if mask is not None:
        check_small(mask)
        if mask > x:
            raise ValueError("mask must be at most x")
        elif mask > x + 1:
            raise ValueError
    y = x + 1
    check_small(y)
    return y


def does_more(x):
    for z in (x, x):
        check_small(z)
        if z is None:
            z = 3
            _require_nothing(z)
    check_small(x)
    checked = check_small(x)
    checked_too(x)
    if x > 5:
        print(x)
        raise ValueError
    if x > 6:
        raise ValueError
    else:
        x = x + 1
    if x > 9:
        x = 9
    elif x > 8:  # stays with its if
        raise ValueError
    return x, checked


def checked_too(x):
    pass


def _require_nothing(x):
    pass


def attend(query, key, mask):
    scores = query @ key.mT  # (H, T, S)
    scores = scores.masked_fill(~mask, MINUS_INF)
    weights = scores.softmax(-1)
    return weights


def escaped(text):
    key, n, long = {text: text}, 1, "long " * 9
    # <b>code</b> & comment
    if text < "<script>":  # <i>trailing</i>
        key = "<u>" + text
    raise KeyError(text, key)


def outer(x):
    require_positive(x=x)
    for i in range(3):
        y = middle(x + i) if i < 4 else i
    both = inner(y), inner(2 * y), max(y, 1)
    for z in numbers(x):
        x = inner(z) if z < 2 else z
    return both, [inner(z) for z in range(2)], Square(x), check_small(x)


def middle(x):
    z = inner(x)
    return z + 1


def inner(x):
    doubled = 2 * x  # (n)
    return doubled


def numbers(x):
    return [x, x + 1]
# fmt: on


def tensors():
    """A query of 2 heads, a key, and a mask that hides the last key."""
    query, key = torch.arange(40.0).view(2, 5, 4) / 40, torch.eye(7, 4).repeat(2, 1, 1)
    return query, key, torch.arange(7) < 6


GUARDED = {
    "def": "Two numbers.",
    "require_positive": "A *reason*.",
    "y =": "word " * 30,
}
ESCAPED = {
    "def": r"<script>alert(2)</script> `<b>` and $x_i * y < z$, 3 $ or 4 $.",
    "key, n": "[x](javascript:alert(3)) $a<b$",
    "if": "-",
    "raise": "**bold** & [link](https://example.org/?a=1&b=2)",
    'key = "<u>"': ".",
}


def walk_attend():
    return walk(attend, *tensors(), dims={"H": 2, "T": T, "S": S, "d_k": 4})


def walk_escaped():
    return walk(escaped, BAD, notes=ESCAPED, raises=KeyError)


WALKS = {
    "loops": lambda: walk(loops, [3, 5, 7], 2),
    "errors": lambda: walk(errors, ["three", "4", "x"], [], raises=ValueError),
    "statements": lambda: walk(statements, 4, 1, z=2),
    "layer": lambda: walk(Layer(S, D_K), torch.zeros(T, S), dims={"d_k": D_K}),
    "layer_init": lambda: walk(Layer, S, D_K, dims={"d_model": S, "d_k": D_K}),
    "class_method": lambda: walk(type("Sub", (Layer,), {}).of, 3),
    "post_init": lambda: walk(Square, side=3),
    "changes": lambda: walk(changes, torch.ones(3), [2, 1], {}),
    "clocks": lambda: walk(clocks, "/var/tmp/tmpab_cd123"),
    "shapes": lambda: walk(shapes, torch.ones(T, S), dims={"S": S}),
    "guarded": lambda: walk(guarded, 3, 4, notes=GUARDED, raises=ValueError),
    "does_more": lambda: walk(does_more, 3),
}
PAGES = {"attend": walk_attend, "escaped": walk_escaped}
