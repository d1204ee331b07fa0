"""What a listing shows: functions, their rows, and the note that each belongs to."""

from dataclasses import dataclass, field
from pathlib import PurePath
from types import FunctionType

from bookkit.listing.statements import Statement
from bookkit.listing.values import Value


@dataclass
class Row:
    """A statement with all that the listing says about it.

    Attributes:
        statement: Its source.
        comment: Its trailing comment, unless that is a shape which the run confirmed.
        reached: Whether the run came here.
        flow: Where the run went from here: "taken", "3 passes", "not reached".
        made: What the last pass made.
        raised: The exception that came out of it.
        is_folded: Whether it belongs to a refusal, and to one that refused nothing.
        note: What it is for, in Markdown, and the lines below it with it.
        calls: The recorded calls that it made; a reader may step into them.
    """

    statement: Statement
    comment: str
    reached: bool
    flow: str
    made: list[Value]
    raised: str
    is_folded: bool
    note: str = ""
    calls: "list[Part]" = field(default_factory=list)

    @property
    def indent(self) -> int:
        line = self.statement.lines[0]
        return len(line) - len(line.lstrip(" "))


@dataclass
class Fold:
    """Rows that only refuse bad input, one after the other in the same block."""

    rows: list[Row]
    note = ""  # those of its rows are not for the lines around it

    @property
    def indent(self) -> int:
        return self.rows[0].indent

    @property
    def reached(self) -> bool:
        return self.rows[0].reached

    @property
    def lines(self) -> str:
        """Where it stands: ``line 12`` or ``lines 12 to 19``."""
        first, last = self.rows[0].statement.first, self.rows[-1].statement.last
        return f"line {first}" if first == last else f"lines {first} to {last}"

    @property
    def text(self) -> str:
        """What it holds: ``3 argument checks``."""
        count = sum(row.statement.refuses for row in self.rows)
        return "1 argument check" if count == 1 else f"{count} argument checks"


@dataclass
class Group:
    """The rows and folds that a note stands for, or that have none."""

    note: str
    items: list[Row | Fold]


@dataclass
class Part:
    """A function of a listing.

    Attributes:
        function: The function itself.
        rows: Its statements, top to bottom.
        is_listed: Whether the listing shows it, and not only as a call to step into.
    """

    function: FunctionType
    rows: list[Row]
    is_listed: bool

    @property
    def qualname(self) -> str:
        return self.function.__qualname__

    @property
    def name(self) -> str:
        """Its name in full: ``transformer_lib.files.atomic_write``."""
        return f"{self.function.__module__}.{self.qualname}"

    @property
    def file(self) -> str:
        """Its file, counted from where its package stands."""
        path = PurePath(self.function.__code__.co_filename)
        if "ipykernel" in str(path) or path.name.startswith("<"):
            return "this notebook"
        as_module = "/".join(self.function.__module__.split(".")) + ".py"
        return as_module if path.as_posix().endswith(as_module) else path.name

    @property
    def lines(self) -> str:
        return f"{self.rows[0].statement.first} to {self.rows[-1].statement.last}"

    @property
    def groups(self) -> list[Group]:
        return group_by_note(fold_refusals(self.rows))


@dataclass
class Listing:
    """Functions of one run, one below the other.

    Attributes:
        parts: The function that was called, and those shown with it.
        dims: The size that each letter of a shape stands for.
    """

    parts: list[Part]
    dims: dict[str, int]

    @property
    def name(self) -> str:
        return self.parts[0].name

    @property
    def place(self) -> str:
        """Files and lines: ``transformer_lib/files.py, lines 7 to 9, 20 to 31``."""
        files = {}
        for part in self.parts:
            files.setdefault(part.file, []).append(part.lines)
        return "; ".join(f"{file}, lines {', '.join(n)}" for file, n in files.items())

    @property
    def rows(self) -> list[Row]:
        return [row for part in self.parts for row in part.rows]


def fold_refusals(rows: list[Row]) -> list[Row | Fold]:
    """Put refusals that follow each other in the same block into one fold."""
    items = []
    for row in rows:
        last = items[-1] if items else None
        begins = row.statement.refusal == row.statement.first
        if not row.is_folded:
            items.append(row)
        elif isinstance(last, Fold) and (not begins or row.indent == last.indent):
            last.rows.append(row)
        else:
            items.append(Fold([row]))
    return items


def group_by_note(items: list[Row | Fold]) -> list[Group]:
    """Begin a group at each note; it ends at the next one, or with its block."""
    groups = []
    for item in items:
        begins = item.note or not groups
        ended = groups and item.indent < groups[-1].items[0].indent
        if begins or ended:
            groups.append(Group(item.note, [item]))
        else:
            groups[-1].items.append(item)
    return groups
