"""Questions on a page without a kernel: answered by keyboard, and readable by all."""

import pytest
from axe import findings
from test_exercises import COUNT, NUMBER, SHAPE

from bookkit.exercises import Break, Predict, check, exercises, load, question
from grading.wrong_answers import wrong_answers

pytestmark = pytest.mark.browser


def of_kind(kind):
    listed = exercises().values()
    return [each for found in listed for each in found if isinstance(each, kind)]


def ask(tab, exercise):
    """Show a question twice, and give the second."""
    html = 2 * question.Question(exercise)._repr_html_()
    tab.set_content(f"<!doctype html><html lang='en'><main>{html}</main>")
    return tab.locator(".exercise").last


@pytest.fixture(autouse=True)
def no_faults(tab):
    yield
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


def test_the_page_replies_to_a_guess_as_the_check_does(tab):
    for exercise in of_kind(Predict):
        form = ask(tab, exercise)
        for answer, says in exercise.replies.items():
            choice = isinstance(answer, str)
            reply = commit(form, answer) if choice else commit(form, text=repr(answer))
            right = answer == exercise.right
            verdict = "✓ Right." if right else "✗ Not yet."
            assert reply == f"{verdict} {as_read(says)}", exercise.name
            assert ("e-right" in form.get_attribute("class")) == right


def test_the_page_judges_each_check(tab):
    for exercise in of_kind(Break):
        labels = {
            letter: as_read(f"{letter}: {says}")
            for letter, (says, _, _) in exercise.checks.items()
        }
        form = ask(tab, exercise)
        reply = commit(form, *(labels[letter] for letter in sorted(exercise.right)))
        assert reply.startswith("✓ Right."), exercise.name
        for letter, label in labels.items():
            answer = exercise.right ^ {letter}  # one is off
            says = as_read(check(exercise.name, answer).says)
            says = f"✗ Not yet. {says}" if answer else "Give an answer first."
            assert commit(form, label) == says, exercise.name
            commit(form, label)


def test_the_page_reads_what_is_typed(tab):
    rows = [
        (SHAPE, {"(2, 3)": "✓", "3 2": "✗"}),
        (COUNT, {"65,000,002": "✓", "65000002": "✓", "65000001": "✗"}),
        (NUMBER, {"0,5": "✓", "1/2": "✓", "7": "✗ Not yet. That is not it."}),
    ]
    for exercise, answers in rows:
        form = ask(tab, exercise)
        for typed, reply in answers.items():
            assert commit(form, text=typed).startswith(reply), typed
    for typed in ("", "many"):
        assert commit(form, text=typed) == "Give an answer first."


def test_everybody_can_use_a_question_and_read_a_report(tab):
    build = load("attention-3")
    wrong = wrong_answers()[build.name][:3]
    answers = [build.rights[0], *(each.answer for each in wrong), lambda x: 1 / 0]
    reports = [check(build.name, answer)._repr_html_() for answer in answers]
    commit(ask(tab, load("masks-1")), "no padding at all")
    for theme, paper in [("light", "#fff"), ("dark", "#121212")]:
        tab.evaluate(
            """([html, theme, paper]) => {
              document.title = "Exercises";
              document.documentElement.dataset.theme = theme;
              document.body.style.background = paper;
              document.querySelector("main").insertAdjacentHTML("beforeend", html);
              for (const fold of document.querySelectorAll("details")) fold.open = true;
            }""",
            ["".join(reports) if theme == "light" else "", theme, paper],
        )
        assert findings(tab) == []
