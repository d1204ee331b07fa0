"""The files of others are the ones that were fetched."""

import subprocess
import sys

import pytest
from book_files import ROOT

from website.offline import vendor


@pytest.mark.parametrize("folder", vendor.PACKAGES)
def test_what_others_wrote_is_as_it_was_fetched_and_has_a_licence_and_a_row(folder):
    assert vendor.faults(ROOT / folder) == []
    assert (ROOT / folder / "LICENSE").is_file()
    beside, _, name = folder.rpartition("/")
    table = (ROOT / beside / "README.md").read_text(encoding="utf-8")
    (row,) = [row for row in table.splitlines() if row.startswith(f"| `{name}` |")]
    assert f" {vendor.PACKAGES[folder][0].rpartition('@')[2]} |" in row
    kept = {path.name for path in (ROOT / beside).iterdir() if path.is_dir()}
    assert {f"{beside}/{each}" for each in kept} <= vendor.PACKAGES.keys()


def test_a_file_that_is_not_as_it_was_fetched_is_named(tmp_path):
    for name in ("changed.js", "missing.js", "same.js"):
        (tmp_path / name).write_text("let one = 1;")
    (tmp_path / vendor.SUMS).write_text(vendor.sums(tmp_path))
    assert vendor.faults(tmp_path) == []
    (tmp_path / "changed.js").write_text("let one = 2;")
    (tmp_path / "added.js").write_text("")
    (tmp_path / "missing.js").unlink()
    names = ("added.js", "changed.js", "missing.js")
    assert vendor.faults(tmp_path) == [f"{tmp_path.name}/{name}" for name in names]


def test_a_slip_of_the_pen_fetches_nothing():
    script = ROOT / "website/offline/vendor.py"
    done = subprocess.run([sys.executable, script, "--chek"], capture_output=True)
    assert done.returncode == 2
