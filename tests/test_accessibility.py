"""What keeps people out of the built pages, as axe-core finds it.

Light and dark are the same elements in other colours, so that the dark theme is checked
for what depends on colours.
"""

from pathlib import Path

import pytest
from book_files import HTML
from test_pages import PAGES, built, open_folds, read

AXE = Path(__file__).parent / "vendor" / "axe-core" / "axe.min.js"
COLOURS = ["color-contrast", "link-in-text-block"]
FIND = """async rules => {
  const only = rules.length ? {runOnly: rules} : {};
  const found = await axe.run(document, {...only, resultTypes: ["violations"]});
  return found.violations
    .filter(({impact}) => ["serious", "critical"].includes(impact))
    .flatMap(({id, nodes}) => nodes.map(({target}) => `${id}: ${target.join(" ")}`));
}"""


def findings(tab, rules=()):
    """List the serious and critical findings, each as rule and element."""
    return tab.evaluate(FIND, list(rules))


@pytest.mark.parametrize("path", PAGES)
def test_nothing_keeps_a_reader_out_of_a_page_in_either_theme(tab, path):
    tab.emulate_media(reduced_motion="reduce")  # no colour on its way to another
    read(tab, built(HTML / path).as_uri())
    open_folds(tab)
    tab.add_script_tag(path=AXE)
    assert findings(tab) == []
    tab.emulate_media(color_scheme="dark")
    tab.wait_for_function("document.documentElement.dataset.theme === 'dark'")
    assert findings(tab, COLOURS) == []


def test_a_grave_fault_is_found(tab):
    pale = "<p style='color: #aaa; background: #fff'>pale</p>"
    tab.set_content(f"<html lang=en><title>Faults</title><main>{pale}<img src=x>")
    tab.add_script_tag(path=AXE)
    assert sorted(findings(tab)) == ["color-contrast: p", "image-alt: img"]
    assert findings(tab, COLOURS) == ["color-contrast: p"]
