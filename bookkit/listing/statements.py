"""Cut a function's source into statements, the rows of a listing."""

import ast
import inspect
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from types import CodeType

BLOCKS = ("body", "handlers", "orelse", "finalbody")
CLOCKS = {"time.time", "time.monotonic", "time.perf_counter", "time.process_time"}
SCOPES = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.Lambda,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)


@dataclass
class Statement:
    """A simple statement, or the header of a compound one, or a lone ``else:``.

    Attributes:
        first: The number of its first line in the file.
        lines: Its lines, without the function's indentation and the trailing comment.
        key: The line that names it, stripped: the first one, after any decorators.
        comment: The trailing comment, such as ``# (B, T)``, or "".
        above: The comment lines above it.
        nodes: Its syntax; several where statements share a line, none for ``else:``.
        refusal: The line where the refusal begins that it belongs to, or 0. A refusal
            only keeps bad input out: a call of ``check_...`` or ``require_...`` whose
            result nobody takes, or an ``if`` that does nothing but raise (it may
            assign first what its words need) or refuse.
    """

    first: int
    lines: list[str]
    key: str
    comment: str
    above: list[str]
    nodes: list[ast.AST]
    refusal: int = 0

    @property
    def last(self) -> int:
        return self.first + len(self.lines) - 1

    @property
    def is_structure(self) -> bool:
        """Whether it only holds blocks together: ``else:``, ``try:``, ``finally:``."""
        return all(isinstance(node, ast.Try) for node in self.nodes)

    @property
    def refuses(self) -> bool:
        """Whether it is the line of a refusal that raises, or calls what raises."""
        return self.refusal > 0 and self.is_a(ast.Raise, ast.Expr)

    @property
    def reads_clock(self) -> bool:
        """Whether it calls a clock, such as ``time.perf_counter()``."""
        return not CLOCKS.isdisjoint(self.called)

    def is_a(self, *kinds: type[ast.AST]) -> bool:
        return any(isinstance(node, kinds) for node in self.nodes)

    @cached_property
    def body(self) -> range:
        """The lines of the block below this header; empty where there is none."""
        block = getattr(self.nodes[0], "body", None) if self.nodes else None
        if not block or _first_line(block[0]) <= self.last:
            return range(0)
        return range(_first_line(block[0]), block[-1].end_lineno + 1)

    @cached_property
    def names(self) -> list[str]:
        """Every name and dotted name in it: ``self.w_q``, ``self``, ``x``."""
        found = [_dotted(part) for node in self.nodes for part in _own_parts(node)]
        return list(dict.fromkeys([*filter(None, found), *self.targets]))

    @cached_property
    def called(self) -> list[str]:
        """The names that it calls, also in lambdas: ``self.w_q``, ``padding_mask``."""
        parts = [part for node in self.nodes for part in _own_parts(node, scopes=True)]
        found = [_dotted(part.func) for part in parts if isinstance(part, ast.Call)]
        return list(dict.fromkeys(filter(None, found)))

    @cached_property
    def targets(self) -> list[str]:
        """The names that it assigns to, in order."""
        found = [_bound(part) for node in self.nodes for part in _own_parts(node)]
        return list(dict.fromkeys(filter(None, found)))


def read_statements(code: CodeType) -> list[Statement]:
    """Find the statements of a function, top to bottom, its docstring left out.

    Raises:
        OSError: If the source is not at hand.
        TypeError: If it is not the source of a ``def``.
    """
    try:
        source, start = inspect.getsourcelines(code)
    except OSError:
        raise OSError(f"the source of {code.co_name} is not at hand") from None
    # The extra first line is a block for an indented method to stand in.
    indented = source[0][0].isspace()
    text = ("if True:\n" if indented else "\n") + "".join(source)
    try:
        tree = ast.parse(text)
        function = (tree.body[0].body if indented else tree.body)[0]
    except SyntaxError:
        function = None
    if not isinstance(function, ast.FunctionDef):
        raise TypeError(
            f"only functions made with def can be walked, not {code.co_name}"
        )
    ast.increment_lineno(function, start - 2)
    comments = {
        token.start[0] + start - 2: token.string
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
    }

    lines, bare = {}, {}  # by number; bare: without the comment
    for number, line in enumerate(source, start):
        line = line.rstrip()
        margin = function.col_offset if line[: function.col_offset].isspace() else 0
        lines[number] = line[margin:]
        bare[number] = lines[number].removesuffix(comments.get(number, "")).rstrip()

    docstring, spans = range(0), {}
    body = function.body
    if ast.get_docstring(function) is not None:
        docstring = range(body[0].lineno, body[0].end_lineno + 1)
    header = (start, max(function.lineno, _first_line(body[0]) - 1), function)
    for first, last, node in [header, *_spans(body[1:] if docstring else body)]:
        while not bare[last]:  # what stands between a header and its block
            last -= 1
        nodes = spans[first][1] if first in spans else []
        spans[first] = (last, [*nodes, node])

    refusals = {
        number: refusal.start
        for refusal in _refusals(body, function.col_offset)
        for number in refusal
    }
    statements, above = [], []
    number = start
    while number in lines:
        last, nodes = spans.get(number, (number, []))
        if nodes or (bare[number] and number not in docstring):
            shown = [*(lines[n] for n in range(number, last)), bare[last]]
            named = max(number, min((node.lineno for node in nodes), default=number))
            statements.append(
                Statement(
                    first=number,
                    lines=shown,
                    key=bare[named].strip(),
                    comment=comments.get(last, ""),
                    above=above,
                    nodes=nodes,
                    refusal=refusals.get(number, 0),
                )
            )
            above = []
        elif number in comments:
            above.append(lines[number])
        number = last + 1
    return statements


def _spans(block: list[ast.AST]) -> Iterator[tuple[int, int, ast.AST]]:
    """Yield first line, last line and node of every statement, nested ones too.

    A compound statement ends where the first one inside it begins.
    """
    for node in block:
        inside = [child for field in BLOCKS for child in getattr(node, field, [])]
        if not inside or isinstance(node, SCOPES):
            yield _first_line(node), node.end_lineno, node
        else:
            first = _first_line(node)
            yield first, max(first, _first_line(inside[0]) - 1), node
            yield from _spans(inside)


def _refusals(block: list[ast.AST], margin: int) -> Iterator[range]:
    """Yield the lines of every statement that only refuses, in blocks below it too.

    An ``elif`` begins at the margin of its ``if`` and stays with it.
    """
    for node in block:
        start = getattr(node, "col_offset", margin)
        if start > margin and _refuses(node):
            yield range(node.lineno, node.end_lineno + 1)
        elif not isinstance(node, SCOPES):
            for field in BLOCKS:
                yield from _refusals(getattr(node, field, []), start)


def _refuses(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        name = (_dotted(node.value.func) or "").rpartition(".")[2]
        return name.lstrip("_").startswith(("check_", "require_"))
    if not isinstance(node, ast.If):
        return False
    *prepared, last = node.body
    only_raises = isinstance(last, ast.Raise) and all(
        isinstance(before, ast.Assign) for before in prepared
    )
    inside = [] if only_raises else node.body
    return all(map(_refuses, [*inside, *node.orelse]))


def _first_line(node: ast.AST) -> int:
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _own_parts(node: ast.AST, scopes: bool = False) -> Iterator[ast.AST]:
    """Walk through a node, not into blocks below it; into other scopes if wanted."""
    yield node
    if isinstance(node, SCOPES) and not scopes:
        return
    for field, value in ast.iter_fields(node):
        if field in BLOCKS and isinstance(value, list):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _own_parts(child, scopes)


def _dotted(node: ast.AST) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (base := _dotted(node.value)):
        return f"{base}.{node.attr}"
    return None


def _bound(node: ast.AST) -> str | None:
    """The name that a part of a statement assigns to, if it assigns."""
    if isinstance(node, (ast.Name, ast.Attribute)):
        return _dotted(node) if isinstance(node.ctx, ast.Store) else None
    if isinstance(node, ast.alias):
        return node.asname or node.name.partition(".")[0]
    if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.ExceptHandler)):
        return node.name
    return None
