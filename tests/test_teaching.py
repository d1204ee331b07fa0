"""The page for teachers says of each chapter what the chapter says of itself."""

import re

from book_files import BOOK, NOTEBOOKS, read_notebook, source

PAGE = (BOOK / "teaching.md").read_text(encoding="utf-8")


def test_every_chapter_is_listed_with_the_minutes_that_it_names():
    minutes = {}
    for numbers, time in re.findall(r"^\| ([\dA, ]+) \| (\d+)", PAGE, re.MULTILINE):
        minutes |= dict.fromkeys(numbers.split(", "), time)
    for path in NOTEBOOKS:
        number = path.stem.partition("_")[0].lstrip("0").upper()
        text = "\n".join(source(cell) for cell in read_notebook(path)["cells"])
        assert minutes.get(number) == re.search(r"\*\*Time\*\* (\d+)", text)[1], number
