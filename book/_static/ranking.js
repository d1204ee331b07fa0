// The search of the book. Sphinx reads the query, finds functions and lists the results;
// here they are found, put in order and described. From the top: a term in the glossary,
// the chapter that explains it, headings that have the words, functions with that name,
// pages that mention the words. The build has sorted the pages of each word by how often
// they have it.
const stemmer = new Stemmer();
// The book spells -isation, and so does the search.
const stemOf = (word) => stemmer.stemWord(word).replace(/iz$/, "is");
const wordsOf = (text) =>
  splitQuery(text.toLowerCase()).filter((word) => !stopwords.includes(word) && !/^\d+$/.test(word)).map(stemOf);
// "norm" is found in "normalisation", and "faster" in "fast".
const areAlike = (has, asked) => has === asked || (asked.length > 3 && has.startsWith(asked))
  || (has.length > 3 && asked.startsWith(has) && asked.length < has.length + 3);
const holds = (words, asked) => asked.every((word) => words.some((one) => areAlike(one, word)));
const plain = (text) => text.replaceAll("\\sqrt", "√").replace(/\\[a-z]+|[\\{}$]/gi, "");
const escaped = (text) => text.replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`);

// The pages that have a word, those that have it most often first.
function pagesOf(word, { terms, titleterms }) {
  const spelled = [word, word.replace(/is$/, "iz")];
  const find = (table, fits) => Object.keys(table).filter(fits).flatMap((key) => table[key]);
  for (const fits of [(key) => spelled.includes(key), (key) => word.length > 2 && key.includes(word)]) {
    const pages = new Set([...find(titleterms, fits), ...find(terms, fits)]);
    if (pages.size) return [...pages];
  }
  return [];
}

Search._performSearch = (query, _terms, _excluded, _highlight, objectTerms) => {
  const { docnames, filenames, titles, alltitles, objects } = Search._index;
  const asked = [...new Set(wordsOf(query))], found = new Map();
  const add = (score, page, title = titles[page], anchor = "", description = null) => {
    const known = found.get(page + anchor);
    if (known) known[4] = Math.max(known[4], score);
    else found.set(page + anchor, [docnames[page], title, anchor, description, score, filenames[page]]);
  };
  if (!asked.length) return [];

  const glossary = docnames.indexOf(GLOSSARY.glossary), homes = new Map();
  for (const [id, [name, , home]] of Object.entries(GLOSSARY.terms)) {
    const words = wordsOf(name.replace(/ \(.*/, "")), page = docnames.indexOf(home);
    const share = asked.length / words.length;
    if (holds(words, asked)) {
      const score = share === 1 ? 900 : 350 + 100 * share;
      add(score + 50, glossary, escaped(name), `#${id}`, "glossary");
      add(score, page);
    } else if (holds(asked, words)) {
      add(101, glossary, escaped(name), `#${id}`, "glossary");
      homes.set(page, 1 / share);
    }
  }
  // A page of the reference has a heading for every module.
  const reference = new Set(Object.values(objects).flat().map(([page]) => page));
  for (const [title, places] of Object.entries(alltitles)) {
    const words = wordsOf(title);
    if (!holds(words, asked)) continue;
    const share = 50 * Math.min(1, asked.length / words.length);
    const folded = /^(\d|Hint|Answer|Checks|Going deeper|Set-up|The rest)/.test(title);
    for (const [page, id] of places) {
      const level = reference.has(page) ? 300 : folded ? 400 : 500;
      if (id === null) add(level + 200 + share, page);
      else add(level + share, page, `${titles[page]} › ${escaped(plain(title))}`, `#${id}`);
    }
  }
  for (const term of objectTerms) {
    for (const result of Search.performObjectSearch(term, objectTerms)) {
      const [doc, name, anchor, description] = result;
      const exact = name.toLowerCase().split(".").at(-1) === query.toLowerCase().trim();
      add(exact ? 290 : 50, docnames.indexOf(doc), name, anchor, description);
    }
  }
  const mentions = new Map();
  for (const word of asked) {
    const pages = pagesOf(word, Search._index);
    const rare = Math.log(1 + docnames.length / pages.length);
    for (const [place, page] of pages.entries()) {
      const [words, score] = mentions.get(page) ?? [0, homes.get(page) ?? 0];
      mentions.set(page, [words + 1, score + rare / (1 + place)]);
    }
  }
  // Pages with some of the words are better than nothing.
  const most = found.size ? asked.length : Math.max(...[...mentions.values()].map(([words]) => words));
  for (const [page, [words, score]] of mentions) if (words >= most) add(100 + score, page);
  return [...found.values()].sort(_orderResultsByScoreThenName);
};

// Below a result: the definition of a term; from a server, the paragraph with most of the
// words; from a folder, where no page may read another, how the page begins.
const shortened = (text) => text.length < 260 ? text : `${text.slice(0, 240).replace(/\S*$/, "")}…`;

Search.makeSearchSummary = (html, _keywords, anchor) => {
  const page = new DOMParser().parseFromString(html, "text/html").querySelector("article");
  for (const part of page.querySelectorAll("script, style, .headerlink, details.hide, div.math")) part.remove();
  for (const part of page.querySelectorAll("span.math")) part.textContent = plain(part.textContent.slice(2, -2));
  const within = anchor && page.querySelector(anchor) || page;
  const asked = wordsOf(new URLSearchParams(location.search).get("q"));
  let best = "", most = -1;
  for (const { textContent } of within.querySelectorAll("p, li")) {
    const words = wordsOf(textContent);
    const count = asked.filter((word) => holds(words, [word])).length;
    if (count > most) [best, most] = [textContent.trim(), count];
  }
  return sentence(shortened(best));
};

function sentence(text) {
  const part = document.createElement("p");
  part.className = "context";
  part.textContent = text;
  return part;
}

function describe(item) {
  const link = item.querySelector("a");
  const { begins, docnames } = Search._index;
  const [page, id] = link.getAttribute("href").split(/\.html#?/);
  if (page === GLOSSARY.glossary && id) {
    const words = sentence("");
    words.innerHTML = GLOSSARY.terms[id][1];
    item.append(words);
  } else if (!id) {
    if (location.protocol === "file:") item.append(sentence(begins[docnames.indexOf(page)]));
    link.search = new URLSearchParams({ highlight: new URLSearchParams(location.search).get("q") });
  }
}

new MutationObserver((changes) => {
  for (const { addedNodes } of changes) {
    for (const item of addedNodes) if (item.matches?.("li")) describe(item);
  }
}).observe(document.getElementById("search-results"), { childList: true, subtree: true });
