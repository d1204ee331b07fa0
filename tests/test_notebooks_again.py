"""Which notebooks nbval runs again."""

from types import SimpleNamespace

import nbformat.v4 as v4

from website.builder import notebooks


def test_a_notebook_runs_again_until_it_passed_as_it_is(tmp_path, monkeypatch):
    (tmp_path / "book").mkdir()
    path, library = tmp_path / "book" / "a.ipynb", tmp_path / "library.py"
    cells = [v4.new_markdown_cell(), v4.new_code_cell("1"), v4.new_code_cell("2")]
    path.write_text(v4.writes(v4.new_notebook(cells=cells)))
    library.touch()
    monkeypatch.setattr(notebooks, "ROOT", tmp_path)
    monkeypatch.setattr(notebooks, "RECORD", tmp_path / "passed.json")
    monkeypatch.setattr(notebooks, "EXECUTED_WITH", [library.name])

    def runs_again(*outcomes):
        run = notebooks.Notebooks()
        for outcome in outcomes:
            report = SimpleNamespace(fspath=path.name, when="call", failed=outcome)
            run.pytest_runtest_logreport(report)
        run.pytest_sessionfinish()
        return notebooks.Notebooks().pytest_ignore_collect(path) is None

    assert runs_again(False)  # it was interrupted
    assert runs_again(False, True)
    assert not runs_again(False, False)
    assert not runs_again()
    library.write_text("changed")
    assert runs_again()
    assert not runs_again(False, False)
    path.write_text(path.read_text() + "\n")
    assert runs_again()
