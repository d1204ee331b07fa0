"""What keeps people from using a page, as axe-core finds it."""

from pathlib import Path

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


# Remove each element that a rule about colours cannot tell from an earlier one.
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
    if not tab.evaluate("'axe' in window"):
        tab.add_script_tag(path=AXE)
    return tab.evaluate(FIND, [list(only), list(without)])
