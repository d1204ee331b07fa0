"""Questions on a page without a kernel: answered by keyboard, and readable by all."""

import pytest
from axe import findings
from test_exercises import COUNT, NUMBER, SHAPE, of_kind

from bookkit.exercises import Break, Predict, check, load, question
from grading.wrong_answers import wrong_answers

pytestmark = pytest.mark.browser


@pytest.fixture
def ask(tab):
    """Show a question twice, and give the second and how to answer it by keyboard."""

    def ask(exercise):
        html = question.Question(exercise)._repr_html_()
        html += question.Question(exercise)._repr_html_()
        tab.set_content(f"<!doctype html><html lang='en'><main>{html}</main>")
        return tab.locator(".exercise").last

    yield ask
    assert tab.faults == []


def commit(form, *chosen, text=None):
    """Answer by keyboard alone."""
    if text is not None:
        form.get_by_role("textbox").fill(text)
        form.get_by_role("textbox").press("Enter")
        return form.locator("output").inner_text()
    for label in chosen:
        box = form.get_by_label(label, exact=True)
        box.focus()
        box.press("Space")
    form.get_by_role("button", name="Commit").press("Enter")
    return form.locator("output").inner_text()


def as_read(text):
    return text.replace("`", "")


@of_kind(Predict)
def test_the_page_replies_as_the_check_does(exercise, ask):
    form = ask(exercise)
    for answer, says in exercise.replies.items():
        choice = isinstance(answer, str)
        reply = commit(form, answer) if choice else commit(form, text=repr(answer))
        right = answer == exercise.right
        assert reply == f"{'✓ Right.' if right else '✗ Not yet.'} {as_read(says)}"
        assert ("e-right" in form.get_attribute("class")) == right


@of_kind(Break)
def test_the_page_judges_each_check(exercise, ask):
    labels = {
        letter: as_read(f"{letter}: {says}")
        for letter, (says, _, _) in exercise.checks.items()
    }
    form = ask(exercise)
    reply = commit(form, *(labels[letter] for letter in sorted(exercise.right)))
    assert reply.startswith("✓ Right.")
    for letter, label in labels.items():
        answer = exercise.right ^ {letter}  # one is off
        says = as_read(check(exercise.name, answer).says)
        says = f"✗ Not yet. {says}" if answer else "Give an answer first."
        assert commit(form, label) == says
        commit(form, label)


@pytest.mark.parametrize(
    ("exercise", "typed", "right"),
    [
        (SHAPE, "(2, 3)", "✓"),
        (SHAPE, "3 2", "✗"),
        (NUMBER, "0,5", "✓"),
        (NUMBER, ".5", "✓"),
        (NUMBER, "1/2", "✓"),
        (COUNT, "65,000,002", "✓"),
        (COUNT, "65000002", "✓"),
        (COUNT, "65000001", "✗"),
        (NUMBER, "7", "✗ Not yet. That is not it."),
        (NUMBER, "", "Give an answer first."),
        (NUMBER, "many", "Give an answer first."),
    ],
)
def test_the_page_reads_what_is_typed(exercise, typed, right, ask):
    assert commit(ask(exercise), text=typed).startswith(right)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_everybody_can_use_a_question_and_read_a_report(theme, ask, tab):
    build = load("attention-3")
    answers = [
        build.rights[0],
        *(wrong.answer for wrong in wrong_answers()[build.name][:3]),
        lambda x: 1 / 0,
    ]
    reports = [check(build.name, answer) for answer in answers]
    commit(ask(load("masks-1")), "no padding at all")
    tab.evaluate(
        """([html, theme]) => {
          document.title = "Exercises";
          document.documentElement.dataset.theme = theme;
          document.body.style.background = theme === "dark" ? "#121212" : "#fff";
          document.querySelector("main").insertAdjacentHTML("beforeend", html);
          for (const fold of document.querySelectorAll("details")) fold.open = true;
        }""",
        ["".join(report._repr_html_() for report in reports), theme],
    )
    assert findings(tab) == []
