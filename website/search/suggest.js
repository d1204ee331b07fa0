// The dialog of the search (Ctrl+K) offers terms and chapters while one types: these are on
// every page. The whole text is searched by Enter, on a page of its own.
const OFFERED = 5;

// How many letters differ: one is wrong, missing, too many, or has changed places.
function misspelt(word, other) {
  let [before, row] = [[], Array.from({ length: other.length + 1 }, (_, i) => i)];
  for (let i = 1; i <= word.length; i++) {
    const next = [i];
    for (let j = 1; j <= other.length; j++) {
      next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (word[i - 1] !== other[j - 1]));
      const isSwapped = word[i - 1] === other[j - 2] && word[i - 2] === other[j - 1];
      if (isSwapped) next[j] = Math.min(next[j], before[j - 2] + 1);
    }
    [before, row] = [row, next];
  }
  return row[other.length];
}
// One wrong letter in a short word, two in a long one.
const forgiven = (word) => (word.length < 4 ? 0 : word.length < 7 ? 1 : 2);

function offersFor(query, all) {
  const asked = query.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
  const rank = ({ name, words }) => {
    const fits = (test) => asked.every((one) => words.some((word) => test(word, one)));
    if (name.toLowerCase().startsWith(query.toLowerCase())) return 0;
    if (fits((word, one) => word.startsWith(one))) return 1;
    return fits((word, one) => misspelt(one, word) <= forgiven(one)) ? 2 : 3;
  };
  return asked.length ? all.map((each) => [rank(each), each]).filter(([fits]) => fits < 3)
    .sort(([one], [other]) => one - other).slice(0, OFFERED).map(([, each]) => each) : [];
}

document.addEventListener("DOMContentLoaded", () => {
  const dialog = document.querySelector("#pst-search-dialog");
  const input = dialog?.querySelector("input");
  if (!input) return;
  const root = new URL(document.documentElement.dataset.content_root, location);
  const wordsOf = (name) => name.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
  const chapters = [...document.querySelectorAll(".bd-sidebar-primary nav .reference.internal")]
    .map(({ href, textContent }) => ({ href, name: textContent.trim(), words: wordsOf(textContent) }));
  const terms = Object.values(typeof GLOSSARY === "undefined" ? {} : GLOSSARY.terms)
    .filter(([, , home]) => home).map(([name, , home]) => {
      const { href } = new URL(`${home}.html`, root);
      const chapter = chapters.find((one) => one.href.split("#")[0] === href)?.name ?? "";
      return { name, words: wordsOf(name), chapter, href: `${href}?${new URLSearchParams({ highlight: name.replace(/ \(.*/, "") })}` };
    });
  const list = document.createElement("ul"), says = document.createElement("p");
  list.className = "offers";
  says.className = "offers-end";
  says.setAttribute("role", "status");
  dialog.append(list, says);

  input.addEventListener("input", () => {
    const query = input.value.trim();
    list.replaceChildren(...offersFor(query, [...terms, ...chapters]).map(({ name, chapter, href }) => {
      const link = Object.assign(document.createElement("a"), { href, textContent: name });
      if (chapter) link.append(Object.assign(document.createElement("small"), { textContent: chapter }));
      const item = document.createElement("li");
      item.append(link);
      return item;
    }));
    const { length } = list.children;
    says.textContent = query && `${length || "No"} quick ${length === 1 ? "link" : "links"}. `
      + "Enter searches the whole text.";
  });
  dialog.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const stops = [input, ...list.querySelectorAll("a")], at = stops.indexOf(document.activeElement);
    if (!step || at < 0) return;
    event.preventDefault();
    stops[Math.min(Math.max(at + step, 0), stops.length - 1)].focus();
  });
});
