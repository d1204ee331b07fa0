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
    const inSight = places.filter(([, within]) => !within.closest("details"));
    const [, first] = inSight.find(([, within]) => within.closest("h2, h3, h4"))
      ?? inSight[0] ?? places[0];
    openFoldsAround(first);
    first.scrollIntoView({ block: first.closest("h2, h3, h4") ? "start" : "center" });
    CSS.highlights?.set("searched", new Highlight(...places.map(([place]) => place)));
    return;
  }
}

function listWithWords(results) {
  const query = new URLSearchParams(location.search).get("q");
  if (!query) return;
  new MutationObserver(() => {
    for (const link of results.querySelectorAll("li > a")) {
      if (!link.hash && !link.search) link.search = new URLSearchParams({ [SEARCHED]: query });
    }
  }).observe(results, { childList: true, subtree: true });

  // The sentences below a result are prose: no menu, no hidden code, no commands of a formula.
  Search.htmlToText = (html, anchor) => {
    const article = new DOMParser().parseFromString(html, "text/html").querySelector("article");
    const others = "script, style, .headerlink, details.hide, div.math";
    for (const part of article.querySelectorAll(others)) part.remove();
    for (const part of article.querySelectorAll("span.math")) {
      part.textContent = part.textContent.replace(/\\(?:[()]|[a-z]+)|[\\{}]/g, "");
    }
    return (anchor && article.querySelector(anchor) || article).textContent;
  };
}

// Sphinx looks a word up as a property of an object, and finds what every object has, such
// as "constructor". These objects keep the one method that it calls.
function forgetWhatEveryObjectHas(index) {
  const { hasOwnProperty } = Object.prototype;
  const base = Object.assign(Object.create(null), { hasOwnProperty });
  for (const words of [index.terms, index.titleterms]) Object.setPrototypeOf(words, base);
}

// Before Sphinx's own listener, which would search on every page whose address has "?q=",
// although only one has a place for the results.
document.addEventListener("DOMContentLoaded", () => {
  const results = document.getElementById("search-results");
  if (typeof Search !== "undefined") {
    if (Search.hasIndex()) forgetWhatEveryObjectHas(Search._index);
    if (!results) Search.performSearch = () => {};
  }
  if (results) listWithWords(results);
  else if (document.querySelector("article")) goToWords();
});
