"""The page for teachers says of each chapter what the chapter says of itself."""

import re
import shutil

import pytest
from book_files import BOOK, CHAPTERS, read_notebook, source
from stand_ins import Project

PAGE = (BOOK / "teaching.md").read_text(encoding="utf-8")


def test_every_chapter_is_listed_with_the_minutes_that_it_names():
    minutes = {}
    for numbers, time in re.findall(r"^\| ([\dAB, ]+) \| (\d+)", PAGE, re.MULTILINE):
        minutes |= dict.fromkeys(numbers.split(", "), time)
    for path in CHAPTERS:
        number = path.stem.partition("_")[0].lstrip("0").upper()
        text = "\n".join(source(cell) for cell in read_notebook(path)["cells"])
        assert minutes.get(number) == re.search(r"\*\*Time\*\* (\d+)", text)[1], number


@pytest.mark.slow
def test_the_recipe_for_a_lab_without_a_network_works_in_a_lab_without_one(tmp_path):
    recipe = PAGE.partition("## In a lab without network\n")[2].partition("\n## ")[0]
    outside, inside = re.findall(r"```sh\n(.*?)```", recipe, re.DOTALL)
    office = Project.make_new(tmp_path / "office")
    status, printed = office.run("sh", "-ec", outside)
    assert status == 0, printed

    # A folder whose name makes programs in .venv/bin stumble, but no `python -m`.
    lab = Project(tmp_path / "the lab's $5 room", network=None)
    shutil.copytree(office.root, lab.root)
    status, printed = lab.run("sh", "-ec", inside, network=False)
    assert status == 0, printed
    assert printed.endswith(f"done by {lab.root}/transformer_lib/__init__.py\n")
