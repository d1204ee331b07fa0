"""A plugin of pytest: nbval leaves out the notebooks that passed and have not changed.

A notebook has changed if its file did, or anything that the build executes it with.
"""

import json
from collections import Counter
from pathlib import Path

from website.builder.build import EXECUTED_WITH, digest

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / "_build" / "passed.json"  # the digest with which each notebook passed


class Notebooks:
    """What is known about the notebooks of a run."""

    def __init__(self):
        self.record = json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {}
        imported = digest(ROOT, EXECUTED_WITH)
        self.digests = {
            path.name: f"{imported} {digest(ROOT, [f'book/{path.name}'])}"
            for path in sorted((ROOT / "book").glob("*.ipynb"))
        }
        self.cells = Counter()  # that passed, or are meant to be skipped

    def pytest_report_header(self):
        due = [name for name in self.digests if self.has_changed(name)]
        return f"notebooks: {len(due)} of {len(self.digests)} changed since they passed"

    def pytest_ignore_collect(self, collection_path):
        name = collection_path.name
        return True if name in self.digests and not self.has_changed(name) else None

    def pytest_runtest_logreport(self, report):
        name = Path(report.fspath).name
        if name in self.digests and report.when == "call" and not report.failed:
            self.cells[name] += 1

    def pytest_sessionfinish(self):
        """Write down which notebooks passed from the first cell to the last."""
        for name, count in self.cells.items():
            notebook = json.loads((ROOT / "book" / name).read_text("utf-8"))
            code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
            if count == len(code):
                self.record[name] = self.digests[name]
        unfinished = RECORD.with_suffix(".part")
        unfinished.write_text(json.dumps(self.record, indent=1), "utf-8")
        unfinished.replace(RECORD)  # a run may be killed at any moment

    def has_changed(self, name):
        return self.record.get(name) != self.digests[name]


class Worker(Notebooks):
    """The same in a process of pytest-xdist, which collects and reports nothing."""

    pytest_runtest_logreport = pytest_sessionfinish = None


def pytest_configure(config):
    kind = Worker if hasattr(config, "workerinput") else Notebooks
    config.pluginmanager.register(kind(), "notebooks")
