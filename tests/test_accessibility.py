"""What keeps people out of the built pages, as axe-core finds it.

Light and dark are the same elements in other colours, so that the dark theme is checked
for what depends on colours. Two words with the same tags and classes all the way up are
coloured by the same rules, so that the first of them stands for both.
"""

from pathlib import Path

import pytest
from book_files import HTML
from test_pages import PAGES, built, open_folds, read

AXE = Path(__file__).parent / "vendor" / "axe-core" / "axe.min.js"
COLOURS = ["color-contrast", "link-in-text-block"]
FIND = """async ([only, without]) => {
  const found = await axe.run(document, {
    ...(only.length ? {runOnly: only} : {}),
    rules: Object.fromEntries(without.map((rule) => [rule, {enabled: false}])),
    resultTypes: ["violations"],
  });
  return found.violations
    .filter(({impact}) => ["serious", "critical"].includes(impact))
    .flatMap(({id, nodes}) => nodes.map(({target}) => `${id}: ${target.join(" ")}`));
}"""


# What a rule of colours can look at, of an element and of all around it, has a number.
DROP_TWINS = """() => {
  const numbers = new Map(), known = new Map([[null, 0]]);
  const OTHERS = /^(id|href|src|title|for|name|aria-.*)$/;
  function number(e) {
    if (!known.has(e)) {
      const odd = e.matches("tr, li") && [...e.parentElement.children].indexOf(e) % 2;
      const names = e.getAttributeNames().filter((name) => !OTHERS.test(name));
      const look = names.map((name) => [name, e.getAttribute(name)]);
      const all = JSON.stringify([number(e.parentElement), e.tagName, odd, look]);
      if (!numbers.has(all)) numbers.set(all, numbers.size + 1);
      known.set(e, numbers.get(all));
    }
    return known.get(e);
  }
  const seen = new Set(), twins = [];
  for (const e of document.body.querySelectorAll(":not(:has(*))")) {
    if (seen.has(number(e))) twins.push(e);
    seen.add(number(e));
  }
  for (const e of twins) e.remove();
}"""


def findings(tab, only=(), without=()):
    """List the serious and critical findings, each as rule and element."""
    return tab.evaluate(FIND, [list(only), list(without)])


@pytest.mark.parametrize("path", PAGES)
def test_nothing_keeps_a_reader_out_of_a_page_in_either_theme(tab, path):
    tab.emulate_media(reduced_motion="reduce")  # no colour on its way to another
    read(tab, built(HTML / path).as_uri())
    open_folds(tab)
    tab.add_script_tag(path=AXE)
    assert findings(tab, without=COLOURS) == []
    tab.evaluate(DROP_TWINS)
    assert findings(tab, COLOURS) == []
    tab.emulate_media(color_scheme="dark")
    tab.wait_for_function("document.documentElement.dataset.theme === 'dark'")
    assert findings(tab, COLOURS) == []


def test_a_grave_fault_is_found(tab):
    pale = "<p style='color: #aaa; background: #fff'>pale</p>"
    tab.set_content(f"<html lang=en><title>Faults</title><main>{pale}<img src=x>")
    tab.add_script_tag(path=AXE)
    assert sorted(findings(tab)) == ["color-contrast: p", "image-alt: img"]
    assert findings(tab, COLOURS) == ["color-contrast: p"]


def test_the_first_of_two_words_that_look_alike_stands_for_both(tab):
    style = "<style>b { color: #777 } .x b { color: #aaa } li:nth-child(2n) b { all: "
    words = "<b>one</b><b>two</b><p class=x><b>three</b><b style='color: red'>four</b>"
    tab.set_content(f"{style}unset }}</style>{words}<ul><li><b>5</b><li><b>6</b>")
    tab.evaluate(DROP_TWINS)
    left = tab.evaluate("[...document.querySelectorAll('b')].map((b) => b.innerText)")
    assert left == ["one", "three", "four", "5", "6"]
