"""Give the search's index what it needs to rank pages, and to quote them.

The index lists the pages that have a word, in the order of their names. Here those that
have it most often come first. The index also gets the sections of each page with their
paragraphs, because a page that was opened from a folder may not read another one, and
the captions with their numbers. To make room, it loses what the book's search does not
use: numbers, and the general index.
"""

import re
from collections import Counter
from html import unescape

from sphinx.search import SearchEnglish, js_index

# What begins a section or is one of its paragraphs; a name of the reference begins one.
PARTS = re.compile(
    r"<section\b(?P<section>[^>]*)>|(?P<end></section>)"
    r'|<dt\b[^>]*? id="(?P<name>[^"]*)"'
    r"|<(?P<tag>p|h[1-4]|li)\b(?P<kind>[^>]*)>(?P<inside>.*?)</(?P=tag)>",
    re.DOTALL,
)
# The link beside a heading, tags, and the delimiters, commands and braces of a formula.
UNSAID = re.compile(r'<a class="headerlink.*?</a>|<[^>]*>|\\[()]|\\[a-z]+|[{}]')
# What a formula says with commands, as far as a letter can say it.
FRACTION = re.compile(r"\\frac\{([^{}]*)\}\{([^{}]*)\}")
POWER = re.compile(r"\^\{([^{}]{2,})\}")
SIGN = re.compile(r"\\([a-z]+)")
SIGNS = {"sqrt": "√", "infty": "∞", "cdot": "·", "times": "×", "dots": "…", "le": "≤"}
SIGNS |= {"alpha": "α", "beta": "β", "gamma": "γ", "varepsilon": "ε", "epsilon": "ε"}
SIGNS |= {"theta": "θ", "lambda": "λ", "sigma": "σ", "sum": "Σ", "approx": "≈"}
# A figure, a control or a table, and what stands below it.
CAPTION = re.compile(
    r'<(?:figure|table)\b[^>]*? id="(?P<anchor>[^"]*)"'
    r'|<span class="caption-number">(?P<number>.*?)</span>'
    r'\s*<span class="caption-text">(?P<text>.*?)</p>',
    re.DOTALL,
)
# Lines of every page, which answer no question, and sections that give an answer away.
FURNITURE = re.compile(r'class="[^"]*\b(?:place|fact|rubric)\b')
UNQUOTED = re.compile(r"(?:hint|answer|set-up)\b")
SORTED = 8  # pages of a word; sorting all would make the compressed file larger
ENGLISH = SearchEnglish({})


def said(html):
    """Write what a reader sees of a paragraph, as plain text."""
    html = FRACTION.sub(r"\1/\2", html)
    html = POWER.sub(r"^(\1)", html)
    html = SIGN.sub(lambda sign: SIGNS.get(sign[1], sign[0]), html)
    return " ".join(unescape(UNSAID.sub("", html)).split())


def captions_of(html):
    """List what is numbered on a page: its anchor, its name and its caption."""
    captions, anchor = [], ""
    for part in CAPTION.finditer(html.partition("<article")[2]):
        if part["anchor"]:
            anchor = part["anchor"]
        else:
            captions.append([anchor, said(part["number"]), said(part["text"])])
    return captions


def sections_of(html):
    """List the sections of a page: the anchor and the paragraphs, heading first."""
    article = html.partition("<article")[2].partition("</article>")[0]
    sections, around = [("", [])], []
    here = sections[0]
    for part in PARTS.finditer(article):
        if part["section"] is not None:
            around.append(here)
            anchor = re.search(r'id="([^"]*)"', part["section"])
            is_page = len(around) == 1 and not sections[0][1]  # its title comes next
            if anchor and not is_page:
                sections.append(here := (anchor[1], []))
        elif part["end"]:
            here = around.pop() if around else here
        elif part["name"]:
            sections.append(here := (part["name"], []))
        elif not FURNITURE.search(part["kind"]) and (text := said(part["inside"])):
            here[1].append(text)
    return [
        [anchor, *texts]
        for anchor, texts in sections
        if texts and not UNQUOTED.match(anchor)
    ]


def improve(app, exception):
    """Order the pages of each word, and add the sections of each page."""
    path = app.outdir / "searchindex.js"
    if exception or app.builder.name != "html" or not path.is_file():
        return
    index = js_index.loads(path.read_text(encoding="utf-8"))
    stems, counts, sections, captions = {}, [], [], []
    for name in index["docnames"]:
        page = (app.outdir / f"{name}.html").read_text(encoding="utf-8")
        sections.append(sections_of(page))
        captions.append(captions_of(page))
        texts = [text for _, *texts in sections[-1] for text in texts]
        words = ENGLISH.split(" ".join(texts))
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
    index |= {"sections": sections, "captions": captions, "indexentries": {}}
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
