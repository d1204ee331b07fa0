"""What the tests of pages rely on: a tab that is as new for each, and axe-core."""

from axe import COLOURS, DROP_TWINS, findings
from conftest import tidy

SEEN = """() => [document.body.innerHTML, typeof left, innerWidth,
  matchMedia("(prefers-color-scheme: dark)").matches, matchMedia("print").matches,
  matchMedia("(prefers-reduced-motion: reduce)").matches]"""
NEW = ["", "undefined", 1400, False, False, False]
PICTURE = "https://example.org/x.png"


def test_a_tab_notes_its_faults_and_a_tidied_one_is_as_new(tab):
    script = "<script>var left = 1; throw Error('no')</script>"
    tab.set_content(f"<img src='{PICTURE}'>{script}")
    tab.set_viewport_size({"width": 400, "height": 800})
    tab.emulate_media(media="print", color_scheme="dark", reduced_motion="reduce")
    assert tab.evaluate(SEEN)[1:] == ["number", 400, True, True, True]
    assert {"no", PICTURE} <= set(tab.faults)
    tidy(tab)
    assert tab.evaluate(SEEN) == NEW
    assert tab.faults == []
    assert not tab.is_spent
    assert tab.context
    assert tab.is_spent


def test_a_tidied_tab_remembers_nothing(tab, server):
    count = "[localStorage.length, sessionStorage.length]"
    leave = "addEventListener('beforeunload', () => sessionStorage.setItem('b', 2))"
    for _ in range(2):
        tab.goto(f"{server}/none.html")
        assert tab.evaluate(count) == [0, 0]
        tab.evaluate(f"localStorage.setItem('a', 1); {leave}")
        tidy(tab)


def test_axe_finds_grave_faults(tab):
    pale = "<p style='color: #aaa; background: #fff'>pale</p>"
    tab.set_content(f"<html lang=en><title>Faults</title><main>{pale}<img src=x>")
    assert sorted(findings(tab)) == ["color-contrast: p", "image-alt: img"]
    assert findings(tab, COLOURS) == ["color-contrast: p"]


def test_the_first_of_two_words_that_look_alike_stands_for_both(tab):
    style = "<style>b { color: #777 } .x b { color: #aaa } li:nth-child(2n) b { all: "
    words = "<b>one</b><b>two</b><p class=x><b>three</b><b style='color: red'>four</b>"
    tab.set_content(f"{style}unset }}</style>{words}<ul><li><b>5</b><li><b>6</b>")
    tab.evaluate(DROP_TWINS)
    left = tab.evaluate("[...document.querySelectorAll('b')].map((b) => b.innerText)")
    assert left == ["one", "three", "four", "5", "6"]
