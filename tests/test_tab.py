"""The tab that tests use one after the other is as new for each."""

import pytest
from conftest import tidy

MARK = "<p id=mark>mark</p><script>var left = 1</script>"
SEEN = """() => [document.body.innerHTML, typeof left, innerWidth,
  matchMedia("(prefers-color-scheme: dark)").matches, matchMedia("print").matches,
  matchMedia("(prefers-reduced-motion: reduce)").matches]"""
NEW = ["", "undefined", 1400, False, False, False]


def test_a_tidied_tab_shows_nothing_and_has_its_size_its_colours_and_no_faults(tab):
    assert tab.evaluate(SEEN) == NEW
    tab.set_content(MARK)
    tab.set_viewport_size({"width": 400, "height": 800})
    tab.emulate_media(media="print", color_scheme="dark", reduced_motion="reduce")
    tab.evaluate("setTimeout(() => { throw Error('no') })")
    tab.wait_for_function("() => true")
    assert tab.evaluate(SEEN)[1:] == ["number", 400, True, True, True]
    tidy(tab)
    assert tab.evaluate(SEEN) == NEW
    assert tab.faults == []


@pytest.mark.parametrize("host", ["folder", "server"])
def test_a_tidied_tab_remembers_nothing(tab, server, tmp_path, host):
    if host == "folder":
        page = tmp_path / "page.html"
        page.write_text("<title>A</title>", encoding="utf-8")
        address = page.as_uri()
    else:
        address = f"{server}/none.html"  # the server's own page says that it is missing
    count = "[localStorage.length, sessionStorage.length]"
    leave = "addEventListener('beforeunload', () => sessionStorage.setItem('b', 2))"
    tab.goto(address)
    assert tab.evaluate(count) == [0, 0]
    tab.evaluate(f"localStorage.setItem('a', 1); {leave}")
    tidy(tab)
    tab.goto(address)
    assert tab.evaluate(count) == [0, 0]


@pytest.mark.parametrize("lasting", ["clock", "context", "route"])
def test_a_lasting_change_ends_the_use_of_a_tab(tab, lasting):
    assert not tab.is_spent
    getattr(tab, lasting)
    assert tab.is_spent
