"""nbgrader's settings: run nbgrader in the folder of this file."""

import sys
from pathlib import Path

from nbgrader.converters.autograde import Autograde
from nbgrader.preprocessors import DeduplicateIds, Execute, OverwriteCells

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import judge  # noqa: E402

c = get_config()  # noqa: F821  (nbgrader defines it)
c.CourseDirectory.course_id = "transformer"
c.CourseDirectory.root = str(HERE)
c.ClearSolutions.code_stub = {"python": "# Your code.\n..."}
c.ClearSolutions.text_stub = "Your answer."
c.OverwriteCells.add_missing_cells = True  # also what a student deleted
c.ExportApp.plugin_class = judge.Table
INSTEAD = {
    Execute: judge.Judge,
    DeduplicateIds: judge.Deduplicate,
    OverwriteCells: judge.Overwrite,
}
for name in "sanitize_preprocessors", "autograde_preprocessors":
    usual = getattr(Autograde, name).default_args[0]
    c.Autograde[name] = [INSTEAD.get(each, each) for each in usual]
c.Autograde.sanitize_preprocessors += [judge.EscapeText]
