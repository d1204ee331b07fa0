"""Give the search's index what it needs to rank pages, and to describe them offline.

The index lists the pages that have a word, in the order of their names. Here those that
have it most often come first. The index also gets the first sentences of each page,
because a page that was opened from a folder may not read another one. To make room, it
loses what the book's search does not use: numbers, and the general index.
"""

import re
from collections import Counter
from html import unescape

from sphinx.search import SearchEnglish, js_index

PROSE = re.compile(r"<(p|h[1-4]|li)\b[^>]*>(.*?)</\1>", re.DOTALL)
# The link beside a heading, tags, and the delimiters, commands and braces of a formula.
UNSAID = re.compile(r'<a class="headerlink.*?</a>|<[^>]*>|\\[()]|\\[a-z]+|[{}]')
SORTED = 8  # pages of a word; sorting all would make the compressed file larger
LENGTH = 240  # characters, as in Sphinx's own summaries
ENGLISH = SearchEnglish({})


def prose_of(html):
    """List the paragraphs, headings and points of a page, each with its tag."""
    article = html.partition("<article")[2].partition("</article>")[0]
    for tag, inside in PROSE.findall(article):
        text = " ".join(unescape(UNSAID.sub("", inside)).split())
        if text:
            yield tag, text


def shortened(text):
    """Cut a text that is too long after a word."""
    return text if len(text) <= LENGTH else text[:LENGTH].rpartition(" ")[0] + " …"


def improve(app, exception):
    """Order the pages of each word, and add the first sentences of each page."""
    path = app.outdir / "searchindex.js"
    if exception or app.builder.name != "html" or not path.is_file():
        return
    index = js_index.loads(path.read_text(encoding="utf-8"))
    stems, counts, begins = {}, [], []
    for name in index["docnames"]:
        page = (app.outdir / f"{name}.html").read_text(encoding="utf-8")
        prose = list(prose_of(page))
        first = next((text for tag, text in prose if tag == "p"), "")
        begins.append(shortened(first))
        words = ENGLISH.split(" ".join(text for _, text in prose))
        for word in set(words) - stems.keys():
            stems[word] = ENGLISH.stem(word).lower()
        counts.append(Counter(stems[word] for word in words))
    terms = index["terms"]
    for word in [word for word in terms if word.isdigit()]:
        del terms[word]
    for word, pages in terms.items():
        if isinstance(pages, list):
            pages.sort()  # also after a build that changed nothing
            pages.sort(key=lambda page, word=word: -counts[page][word])
            pages[SORTED:] = sorted(pages[SORTED:])
    index |= {"begins": begins, "indexentries": {}}
    path.write_text(js_index.dumps(index), encoding="utf-8")


def drop_marks(app, pagename, templatename, context, doctree):
    """Leave marking the words of a search to search.js, which also goes to them."""
    if pagename != "search":
        context["script_files"] = [
            script
            for script in context.get("script_files", [])
            if "sphinx_highlight" not in str(getattr(script, "filename", ""))
        ]


def setup(app):
    app.connect("build-finished", improve)
    app.connect("html-page-context", drop_marks, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
