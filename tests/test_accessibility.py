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


def test_a_part_goes_if_all_in_it_looks_like_parts_before(tab):
    first = "<p>one <b>two</b> <i>three</i>"
    tab.set_content(f"{first}{first}<p>one <b>two</b> <i class=x>four</i><ul><li><li>")
    tab.evaluate(DROP_TWINS)
    assert tab.locator("p").all_inner_texts() == ["one two three", "one four"]
    assert tab.locator("li").count() == 2


def test_no_rule_finds_more_than_its_impact_says(tab):
    tab.set_content("<html lang=en><title>Faults</title><h1>One</h1><h4>Four</h4>")
    assert findings(tab) == []  # the order of headings, and text outside of landmarks
    impacts = "axe._audit.rules.map(({impact}) => impact)"
    known = {"minor", "moderate", "serious", "critical"}
    assert set(tab.evaluate(impacts)) == known
