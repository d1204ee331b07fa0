"""What keeps people from using a page, as axe-core finds it."""

from pathlib import Path

AXE = Path(__file__).parent / "vendor" / "axe-core" / "axe.min.js"
COLOURS = ["color-contrast", "link-in-text-block"]
# What a rule finds has the impact of the rule, so these find nothing serious.
MILD = """axe._audit.rules.filter(({impact}) => ["minor", "moderate"].includes(impact))
  .map(({id}) => id)"""
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


# Remove each part that a rule about colours cannot tell from earlier ones. No style
# asks for the attributes in OTHERS or for an indentation; rows and items stay, empty,
# since styles count them.
DROP_TWINS = """() => {
  const numbers = new Map(), known = new Map([[null, 0]]), seen = new Set();
  const OTHERS = /^(id|href|src|title|for|name|aria-.*|data-(number|shape|walk|max))$/;
  function number(e) {
    if (!known.has(e)) {
      const odd = e.matches("tr, li") && [...e.parentElement.children].indexOf(e) % 2;
      const names = e.getAttributeNames().filter((name) => !OTHERS.test(name));
      const value = (name) => e.getAttribute(name).replace(/^--indent:\\d+$/, "");
      const look = names.map((name) => [name, value(name)]);
      const all = JSON.stringify([number(e.parentElement), e.tagName, odd, look]);
      if (!numbers.has(all)) numbers.set(all, numbers.size + 1);
      known.set(e, numbers.get(all));
    }
    return known.get(e);
  }
  // Whether this element and all in it look like others before it.
  function isTwin(e) {
    const isKnown = seen.has(number(e));
    seen.add(number(e));
    const twins = [...e.children].filter(isTwin);
    if (isKnown && twins.length === e.children.length) return true;
    for (const twin of twins) {
      if (twin.matches("tr, li")) twin.replaceChildren();
      else twin.remove();
    }
    return false;
  }
  isTwin(document.body);
}"""


def findings(tab, only=(), without=()):
    """List the serious and critical findings, each as rule and element."""
    if not tab.evaluate("'axe' in window"):
        tab.add_script_tag(path=AXE)
    return tab.evaluate(FIND, [list(only), [*without, *tab.evaluate(MILD)]])
