"""Letters for shapes: read from trailing comments, and checked against the run."""

import ast

OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv)
EXPRESSION = (ast.Name, ast.Load, ast.Constant, ast.BinOp, *OPERATORS)

Sizes = tuple[int, ...]
Shape = tuple[str, ...]  # an expression for each axis: ("...", "H * d_k", "1")


def parse_shapes(comment: str) -> list[Shape]:
    """Read ``# (B, T), (B, S)`` as two shapes; any other comment is no shape at all."""
    text = comment.lstrip("# ")
    try:
        written = ast.parse(f"[{text}]", mode="eval").body.elts
    except SyntaxError:
        return []
    shapes = []
    for item in written:
        is_tuple = isinstance(item, ast.Tuple)
        axes = item.elts if is_tuple else [item]
        in_brackets = is_tuple or text[item.col_offset - 2 : item.col_offset - 1] == "("
        if not in_brackets or not all(map(_is_axis, axes)):
            return []
        shapes.append(tuple(ast.unparse(axis) for axis in axes))
    return shapes


def _is_axis(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return node.value is ... or type(node.value) is int
    return all(isinstance(part, EXPRESSION) for part in ast.walk(node))


class Letters:
    """The size that each letter stands for, one and the same throughout a run.

    Args:
        dims: Sizes known beforehand; these also name axes that no comment names.
    """

    def __init__(self, dims: dict[str, int]) -> None:
        self.dims = dims
        self.sizes = dict(dims)

    def learn(self, shape: Shape, actual: Sizes) -> None:
        """Give the letters that are new the sizes that the run shows."""
        for axis, size in zip(self._spread(shape, actual), actual, strict=False):
            if axis.isidentifier():
                self.sizes.setdefault(axis, size)

    def fit(self, shape: Shape, actual: Sizes) -> bool:
        """Say whether a shape as written is the shape as measured."""
        axes = self._spread(shape, actual)
        return len(axes) == len(actual) and all(
            axis == "..." or self._size(axis) == size
            for axis, size in zip(axes, actual, strict=True)
        )

    def write(self, shape: Shape, actual: Sizes) -> str:
        """Write a shape that fits, with letters or numbers for ``...``."""
        spread = [
            self._name(size) if axis == "..." else axis
            for axis, size in zip(self._spread(shape, actual), actual, strict=True)
        ]
        return _tuple(spread)

    def guess(self, actual: Sizes) -> str:
        """Name each axis whose size belongs to exactly one letter of ``dims``."""
        names = [self._name(size) for size in actual]
        return _tuple(names) if any(map(str.isidentifier, names)) else ""

    def _name(self, size: int) -> str:
        names = [name for name, known in self.dims.items() if known == size != 1]
        return names[0] if len(names) == 1 else str(size)

    def _spread(self, shape: Shape, actual: Sizes) -> list[str]:
        """Repeat ``...`` for as many axes as it stands for."""
        axes = []
        for axis in shape:
            axes += [axis] * (1 + len(actual) - len(shape) if axis == "..." else 1)
        return axes

    def _size(self, axis: str) -> int | None:
        try:
            return eval(axis, {"__builtins__": {}}, self.sizes)
        except NameError:
            return None


def _tuple(axes: list[str]) -> str:
    return f"({', '.join(axes)})"
