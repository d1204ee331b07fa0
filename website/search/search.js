// A result of the search leads to the words on its page, not to the top of it. The words
// go with the address; the page looks for them, first in its headings, then in what is in
// sight, then in what is folded, and marks them.
const SEARCHED = "highlight"; // Sphinx's own name for it

function placesOf(pattern) {
  const places = [], article = document.querySelector("article");
  const texts = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const { parentElement } = texts.currentNode;
    if (parentElement.closest("script, style, .headerlink")) continue;
    for (const { 0: words, index } of texts.currentNode.data.matchAll(pattern)) {
      const place = new Range();
      place.setStart(texts.currentNode, index);
      place.setEnd(texts.currentNode, index + words.length);
      places.push([place, parentElement]);
    }
  }
  return places;
}

function goToWords() {
  const query = new URLSearchParams(location.search).get(SEARCHED)?.trim();
  if (!query || location.hash) return;
  const words = query.split(/\s+/).map((word) => word.replace(/\W/g, "\\$&"));
  // Next to each other, or else each for itself.
  for (const pattern of [words.join("\\s+"), words.join("|")]) {
    const places = placesOf(new RegExp(pattern, "gi"));
    if (!places.length) continue;
    const inSight = places.filter(([, within]) => !within.closest("details, .covered"));
    const [, first] = inSight.find(([, within]) => within.closest("h2, h3, h4"))
      ?? inSight[0] ?? places[0];
    openFoldsAround(first);
    first.scrollIntoView({ block: first.closest("h2, h3, h4") ? "start" : "center" });
    CSS.highlights?.set("searched", new Highlight(...places.map(([place]) => place)));
    return;
  }
}

document.addEventListener("DOMContentLoaded", () => {
  if (document.querySelector("article")) goToWords();
});
