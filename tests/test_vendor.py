"""The files of others are the ones that were fetched."""

import subprocess
import sys

import pytest
from book_files import ROOT

from website.offline import vendor


@pytest.mark.parametrize("folder", vendor.PACKAGES)
def test_what_others_wrote_is_as_it_was_fetched(folder):
    assert vendor.faults(ROOT / folder) == []


@pytest.mark.parametrize(
    "folder", ["website/offline/vendor", "course/vendor", "tests/vendor"]
)
def test_every_package_has_a_licence_and_a_line_in_the_table(folder):
    table = (ROOT / folder / "README.md").read_text(encoding="utf-8")
    kept = {path.name for path in (ROOT / folder).iterdir() if path.is_dir()}
    refreshed = {name: of for name, of in vendor.PACKAGES.items() if folder in name}
    assert kept == {name.rpartition("/")[2] for name in refreshed}
    for name, (package, _) in refreshed.items():
        begins = f"| `{name.rpartition('/')[2]}` |"
        (row,) = [row for row in table.splitlines() if row.startswith(begins)]
        assert f" {package.rpartition('@')[2]} |" in row
        assert (ROOT / name / "LICENSE").is_file()


@pytest.mark.parametrize("change", ["changed", "added", "missing"])
def test_a_file_that_is_not_as_it_was_fetched_is_named(tmp_path, change):
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "file.js").write_text("let one = 1;")
    (folder / vendor.SUMS).write_text(vendor.sums(folder))
    assert vendor.faults(folder) == []
    if change == "changed":
        (folder / "file.js").write_text("let one = 2;")
    elif change == "added":
        (folder / "more.js").write_text("")
    else:
        (folder / "file.js").unlink()
    name = "more.js" if change == "added" else "file.js"
    assert vendor.faults(folder) == [f"package/{name}"]


@pytest.mark.parametrize("option", ["--chek", "check"])
def test_a_slip_of_the_pen_fetches_nothing(option):
    script = ROOT / "website/offline/vendor.py"
    done = subprocess.run([sys.executable, script, option], capture_output=True)
    assert done.returncode == 2
