"""The check of accessibility finds what it should; the pages are in test_pages.py."""

from axe import COLOURS, DROP_TWINS, findings


def test_a_grave_fault_is_found(tab):
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
