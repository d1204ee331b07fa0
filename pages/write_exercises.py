"""Write the exercises of each chapter into its notebook.

``python -m pages.write_exercises`` writes them from ``pages``.
They are the cells whose ids begin with "exercise"; other cells stay as they are.
"""

import inspect
import json
from pathlib import Path
from textwrap import dedent

from bookkit.exercises import Break, Build, exercises

ROOT = Path(__file__).resolve().parents[1]

INTRO = """## Exercises

`check` tests your answer and says what is wrong. *Build*: write the function in its
cell and run it. *Predict* and *Break*: commit to an answer here, or give it to
`check`. In a notebook, run the cells above first."""
HINTS = "Hint", "Hint: the idea", "Hint: the line"


def markdown(name, text):
    return {"cell_type": "markdown", "id": name, "metadata": {}, "source": lines(text)}


def code(name, text, is_question=False):
    """Return a cell; a page shows only the result of a question."""
    return {
        "cell_type": "code",
        "execution_count": None,
        "id": name,
        "metadata": {"tags": ["remove-input"]} if is_question else {},
        "outputs": [],
        "source": lines(text),
    }


def lines(text):
    return text.strip("\n").splitlines(keepends=True)


def solution(exercise):
    """Return the code of the solution without its decorator."""
    written = dedent(inspect.getsource(exercise.rights[0])).splitlines()
    return "\n".join(line for line in written if not line.startswith("@"))


def cells_of(number, exercise):
    """Return the cells of an exercise."""
    name = f"exercise-{exercise.name}"
    heading = f"### {number} {exercise.kind}: {exercise.title}"
    yield markdown(name, f"{heading}\n\n{exercise.task}")
    ask = f'check("{exercise.name}")'
    if isinstance(exercise, Build):
        function = exercise.call.partition("(")[0]
        ask = f'check("{exercise.name}", {function})'
        stub = f"def {exercise.call}:\n    # Your code.\n    ..."
        yield code(f"{name}-try", f"{stub}\n\n\n{ask}")
    elif isinstance(exercise, Break):
        letters = "".join(exercise.checks)[:2]
        form = f'# Or with letters: check("{exercise.name}", "{letters}")'
        yield code(f"{name}-try", f"{ask}\n{form}", is_question=True)
    else:
        yield code(f"{name}-try", ask, is_question=True)
    answer = exercise.answer
    if isinstance(exercise, Build):
        answer += f"\n\n```python\n{solution(exercise)}\n```"
    folds = [*zip(HINTS, exercise.hints, strict=False), ("Answer", answer)]
    yield markdown(f"{name}-answer", "\n\n".join(fold(*each) for each in folds))


def fold(title, text):
    """Return Markdown that a page, JupyterLab, VS Code and Colab fold."""
    begin = f'<details class="fold">\n<summary>{title}</summary>'
    return f"{begin}\n\n{text}\n\n</details>"


def section(listed):
    """Return the cells of a chapter's exercises."""
    first = code("exercises-import", "from bookkit.exercises import check")
    cells = [markdown("exercises", INTRO), first]
    for number, exercise in enumerate(listed, 1):
        cells += cells_of(number, exercise)
    return cells


def with_exercises(notebook, listed):
    """Return a notebook with these exercises in the place of those that it has."""
    is_ours = [cell["id"].startswith("exercise") for cell in notebook["cells"]]
    place = is_ours.index(True)
    others = [
        cell for cell in notebook["cells"] if not cell["id"].startswith("exercise")
    ]
    before = sum(not ours for ours in is_ours[:place])
    cells = [*others[:before], *section(listed), *others[before:]]
    return {**notebook, "cells": cells}


def notebooks():
    """List the notebooks that have exercises: path, content, and exercises."""
    listed = dict(exercises())
    for path in sorted((ROOT / "book").glob("*.ipynb")):
        notebook = json.loads(path.read_text("utf-8"))
        label = notebook["cells"][0]["metadata"].get("label", "")
        module = label.removeprefix("ch-").replace("-", "_")
        if module in listed:
            yield path, notebook, listed.pop(module)
    if listed:
        raise ValueError(f"no chapter has the label of {', '.join(listed)}")


def written(notebook):
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for path, notebook, listed in notebooks():
        text = written(with_exercises(notebook, listed))
        if text != path.read_text("utf-8"):
            path.write_text(text, encoding="utf-8")
            print(f"wrote the exercises of {path.name}")
