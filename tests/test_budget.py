"""A budget of lines: `python tests/test_budget.py` prints it.

A ceiling falls when lines go. One that rises is a change for a reviewer to question.
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Each place, the folders and files in it, and the most lines that it may have.
PLACES = {
    "library": (["transformer_lib"], 11_060),
    "kit shared by pages": (["bookkit"], 6_790),
    "pages' own code": (["pages"], 16_900),
    "course": (["course"], 3_710),
    "build and site": (["website", "make.py"], 4_910),
    "measurements": (["measurements"], 4_560),
    "tests": (["tests"], 25_590),
}
CODE = {".py", ".js", ".css"}
TEXT = {".txt", ".html"}  # wrong answers, golden listings
DATA = {"tour_steps.json", "kinds.csv", "articles.csv"}  # written by hand as well
OTHERS = {"vendor", "venv", "__pycache__", "requirements.txt"}
BUILT = {ROOT / name for name in ("_build", "html", "build", "notebooks")}


def lines_of(path: Path) -> int:
    """Count the lines that somebody wrote in a file, or in the files of a folder."""
    if path.name.startswith(".") or path.name in OTHERS or path in BUILT:
        return 0
    if path.suffix == ".egg-info":
        return 0
    if path.is_dir():
        return sum(map(lines_of, path.iterdir()))
    counted = path.suffix in CODE | TEXT or path.name in DATA
    return len(path.read_bytes().splitlines()) if counted else 0


def counted(root: Path) -> dict[str, int]:
    """Count the lines of each place."""
    return {
        name: sum(lines_of(root / part) for part in parts)
        for name, (parts, _) in PLACES.items()
    }


def table(root: Path) -> str:
    """Set the lines of each place beside its ceiling."""
    found = counted(root)
    rows = [("lines", "today", "ceiling")]
    rows += [(name, f"{n:,}", f"{PLACES[name][1]:,}") for name, n in found.items()]
    rows.append(("everything", f"{sum(found.values()):,}", ""))
    return "\n".join(f"{name:20}{n:>8}{most:>9}" for name, n, most in rows)


def test_no_place_has_more_lines_than_its_ceiling():
    found = counted(ROOT)
    over = [name for name, (_, most) in PLACES.items() if found[name] > most]
    assert over == [], f"\n{table(ROOT)}"


def test_every_line_belongs_to_one_place():
    assert sum(counted(ROOT).values()) == lines_of(ROOT)


if __name__ == "__main__":
    print(table(ROOT))
