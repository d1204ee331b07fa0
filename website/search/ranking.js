// The search of the book. Sphinx reads the query, finds functions and lists the results;
// here they are found, put in order and described. From the top: a term in the glossary,
// the chapter that explains it, headings that have the words, headings that have some of
// the words over a text that has the others, functions with that name, pages that mention
// the words. The build has sorted the pages of each word by how often they have it, and
// stored the sections of each page with their paragraphs.
const stemmer = new Stemmer();
// The book spells -isation, and so does the search.
const stemOf = (word) => stemmer.stemWord(word).replace(/iz$/, "is");
const known = new Map();
const wordsOf = (text) => splitQuery(text.toLowerCase().replaceAll("square root", "root"))
  .filter((word) => !stopwords.includes(word) && !/^\d+$/.test(word))
  .map((word) => known.get(word) ?? known.set(word, stemOf(word === "sqrt" ? "root" : word)).get(word));
// Words of a question that say what is asked, and not about what.
const ASKING = new Set("can do doe how i is mean my should what we when where which whi why you your".split(" "));
function askedBy(query) {
  const words = [...new Set(wordsOf(query))], about = words.filter((word) => !ASKING.has(word));
  return about.length ? about : words;
}
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

// Figures, controls, tables and chapters by their number: "13.1", "figure 3.2", "chapter 9".
const NUMBERED = /^(?:(fig|figure|control|table|chapter|section)s?\.?\s*)?([\dA-Z]+)(?:\.(\d+))?$/i;

function placesWith(query) {
  const [, kind = "", chapter, number] = query.trim().match(NUMBERED) ?? [];
  if (!chapter || (!/\d/.test(chapter) && !kind && !number)) return [];
  const { docnames, filenames, titles, captions } = Search._index;
  const isMeant = (label) => {
    const [what, own] = label.toUpperCase().split(" ");
    return (number ? own === `${chapter}.${number}`.toUpperCase() : own.startsWith(`${chapter.toUpperCase()}.`))
      && (!/^(fig|con|tab)/i.test(kind) || what.startsWith(kind.slice(0, 3).toUpperCase()));
  };
  const places = captions.flatMap((ofPage, page) => ofPage.filter(([, label]) => isMeant(label))
    .map(([anchor, label]) => [docnames[page], `${label} › ${titles[page]}`, `#${anchor}`, null,
      number ? 900 : 880, filenames[page]]));
  const home = docnames.findIndex((page) => Number(page.match(/\/(\d+)_/)?.[1]) === Number(chapter)
    || page.startsWith(`book/${chapter.toLowerCase()}_`));
  if (home >= 0 && (places.length || !number)) {
    places.push([docnames[home], titles[home], "", null, 890, filenames[home]]);
  }
  return places;
}

// A word that nothing has becomes the nearest one that the book has, if one is near.
let counts; // of all words of the book, as they are spelled
function meant(query) {
  const { objects, terms, titleterms } = Search._index;
  if (!counts) {
    counts = new Map();
    const names = [...Object.values(GLOSSARY.terms).map(([name]) => name), ...Object.keys(Search._index.alltitles)];
    const all = [...names, ...readSections().map(({ texts }) => texts.join(" "))].join(" ").toLowerCase();
    for (const [one] of all.matchAll(/\p{L}{4,}/gu)) counts.set(one, (counts.get(one) ?? 0) + 1);
  }
  const functions = Object.values(objects).flat().map((each) => String(each[4]).toLowerCase());
  const isKnown = (stem, word) => [stem, stem.replace(/is$/, "iz")].some((one) => Object.hasOwn(terms, one)
    || Object.hasOwn(titleterms, one)) || [...counts.keys(), ...functions].some((one) => one.startsWith(word));
  return query.replace(/(?<![\w-])\p{L}{4,}(?!\w)/gu, (typed) => {
    const [stem] = wordsOf(typed), word = typed.toLowerCase();
    if (!stem || isKnown(stem, word)) return typed;
    const near = [...counts].filter(([one]) => Math.abs(one.length - word.length) <= forgiven(word))
      .map(([one, count]) => [misspelt(word, one), -count, one])
      .filter(([wrong]) => wrong <= forgiven(word))
      .sort(([a, b], [c, d]) => a - c || b - d);
    return near.length ? near[0][2] : typed;
  });
}

let searched; // the words that the results are about
function sayMeant(typed) {
  const line = document.createElement("p");
  line.className = "search-meant";
  line.append(`No page contains “${typed}”. Here are the results for `,
    Object.assign(document.createElement("strong"), { textContent: searched }), ".");
  document.querySelector(".search-meant")?.remove();
  document.querySelector(".search-summary")?.after(line);
}

Search._performSearch = (query, terms, excluded, highlight, objectTerms) => {
  searched = query;
  const numbered = placesWith(query);
  if (numbered.length) return numbered.sort(_orderResultsByScoreThenName);
  const mended = meant(query);
  if (mended === query) return resultsFor(query, objectTerms);
  searched = mended;
  sayMeant(query);
  return resultsFor(mended, new Set(mended.toLowerCase().split(/\s+/)));
};

function resultsFor(query, objectTerms) {
  const { docnames, filenames, titles, alltitles, objects } = Search._index;
  const asked = askedBy(query), found = new Map();
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
  addAnswers(asked, add);
  // A page of the reference has a heading for every module.
  const reference = new Set(Object.values(objects).flat().map(([page]) => page));
  for (const [title, places] of Object.entries(alltitles)) {
    const words = wordsOf(title);
    if (!holds(words, asked)) continue;
    const share = 50 * Math.min(1, asked.length / words.length);
    const folded = /^(\d|Going deeper|The rest)/.test(title);
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
}

// The sections of all pages, each with its page, its words and its heading's.
let sections;
function readSections() {
  sections ??= Search._index.sections.flatMap((ofPage, page) => ofPage.map(([anchor, heading, ...texts]) =>
    ({ page, anchor, heading, texts, inHeading: wordsOf(heading), words: [...new Set(wordsOf(texts.join(" ")))] })));
  return sections;
}

// A section answers if its heading has two of the words, and its text the others.
function addAnswers(asked, add) {
  const { titles } = Search._index;
  for (const { page, anchor, heading, inHeading, words } of readSections()) {
    const count = asked.filter((word) => holds(inHeading, [word])).length;
    if (!anchor || count < 2 || count === asked.length) continue;
    if (!asked.every((word) => holds(inHeading, [word]) || holds(words, [word]))) continue;
    const share = count / asked.length;
    add(400 + 50 * share, page, `${titles[page]} › ${escaped(plain(heading))}`, `#${anchor}`);
  }
}

// Below a result stands its evidence: the definition of a term, or the sentence that has
// most of the words, and what follows it. The words are marked.
const SENTENCE = /(?<=[.?!:]["”)]?)\s+(?=["“(]?\p{Lu})/u;
const LONGEST = 260; // characters

// The text from a sentence on, or from an earlier one if little follows.
function from(sentences, at) {
  const text = sentences.slice(at).join(" ");
  return at && text.length < LONGEST / 2 && sentences[at - 1].length < LONGEST / 2 ? from(sentences, at - 1) : text;
}

function evidence(page, anchor) {
  const caption = Search._index.captions[page].find(([id]) => id === anchor);
  if (caption) return quoted(caption[2], []);
  const asked = askedBy(searched);
  const ofPage = Search._index.sections[page];
  const begin = anchor ? ofPage.findIndex(([id]) => id === anchor) : 0;
  const within = anchor ? ofPage.slice(begin, begin + 1) : ofPage;
  let best = "", most = 0;
  for (const [, heading, ...texts] of begin < 0 ? [] : within) {
    const inHeading = wordsOf(heading);
    // Below a heading that has the words, the answer comes early.
    const isAbout = anchor && asked.filter((word) => holds(inHeading, [word])).length > 1;
    for (const text of texts) {
      const sentences = text.split(SENTENCE);
      for (const [at, sentence] of sentences.entries()) {
        const words = wordsOf(sentence);
        const count = asked.filter((word) => holds(words, [word])).length;
        const has = isAbout ? Math.min(count, 1) : count;
        const score = has && has + 0.5 * (words.length > 4) + 0.4 * holds(inHeading, asked);
        if (score > most) [best, most] = [from(sentences, at), score];
      }
    }
  }
  if (!best) best = within[0]?.[2] ?? "";
  if (best.length > LONGEST) best = `${best.slice(0, LONGEST).replace(/\S*$/, "")}…`;
  return quoted(best, asked);
}

function quoted(text, asked) {
  const part = document.createElement("p");
  part.className = "context";
  part.append(...text.split(/([\p{Letter}\p{Number}_]+)/u).map((word, at) => {
    if (at % 2 === 0 || !wordsOf(word).some((stem) => asked.some((one) => areAlike(stem, one)))) return word;
    const mark = document.createElement("mark");
    mark.textContent = word;
    return mark;
  }));
  return part;
}

function describe(item) {
  const link = item.querySelector("a");
  const [page, id] = link.getAttribute("href").split(/\.html#?/);
  if (page === GLOSSARY.glossary && id) {
    const words = quoted("", []);
    words.innerHTML = GLOSSARY.terms[id][1];
    item.append(words);
    return;
  }
  item.append(evidence(Search._index.docnames.indexOf(page), id));
  if (!id) link.search = new URLSearchParams({ highlight: searched });
}

// The results quote what the index holds: no page needs to be fetched.
DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
Documentation.TRANSLATIONS["Search finished, found ${resultCount} page(s) matching the search query."] =
  "Results found: ${resultCount}";
Documentation.TRANSLATIONS["Your search did not match any documents. Please make sure that all words are spelled correctly and that you've selected enough categories."] =
  "Nothing found. Try one word, or the number of a figure or control.";

new MutationObserver((changes) => {
  for (const { addedNodes } of changes) {
    for (const item of addedNodes) if (item.matches?.("li")) describe(item);
  }
}).observe(document.getElementById("search-results"), { childList: true, subtree: true });
