"""Write slides for parts I to III from the built pages, with speaker notes.

Each chapter becomes a file: its figures, its listings, its questions to predict and its
summary. The text of the chapter becomes the notes. reveal.js shows the slides.
"""

import re
import shutil
from html import escape
from pathlib import Path
from textwrap import dedent

import yaml
from bs4 import BeautifulSoup, Tag

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("I ", "II ", "III ")
MOST = 20  # lines of code on a slide

PAGE = """<!DOCTYPE html>
<html lang="en" data-theme="light">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="stylesheet" href="../vendor/reveal/reveal.css">
<link rel="stylesheet" href="slides.css">
</head>
<body>
<div class="reveal"><main class="slides">
{slides}
</main></div>
<script src="../vendor/reveal/reveal.js"></script>
<script src="../vendor/reveal/notes.js"></script>
<script src="../vendor/mathjax/tex-chtml.js"></script>
<script>
Reveal.initialize({{
  width: 1280, height: 720, margin: 0.04, hash: true, slideNumber: true,
  center: false, transition: "none", controlsTutorial: false, plugins: [RevealNotes],
}});
</script>
</body>
</html>
"""


def chapters() -> list[str]:
    """List the chapters of parts I to III, such as ``03_attention``."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))
    return [
        each["file"].removeprefix("book/")
        for part in toc["parts"]
        if part["caption"].startswith(PARTS)
        for each in part["chapters"]
    ]


def words(element: Tag) -> str:
    """Return the text of an element, formulas without their marks."""
    text = " ".join(element.get_text().split())
    text = re.sub(r"\\text\{([^}]*)\}", r"\1", text)
    return re.sub(r"\\[()\[\]]|#$", "", text).strip()


def slide(title: str, body: str, notes: list[str]) -> str:
    """Write a slide; ``title`` and ``body`` are HTML, the notes are text."""
    spoken = "".join(f"<p>{escape(note)}</p>" for note in notes)
    return (
        f"<section><h2>{title}</h2>{body}"
        f'<aside class="notes tex2jax_ignore">{spoken}</aside></section>'
    )


def listing(walk: Tag) -> list[tuple[str, list[str]]]:
    """Split a listing into slides: the code, and the notes on its lines."""
    path, _, _ = words(walk.select_one(".w-head span")).partition(",")
    source = (ROOT / path).read_text("utf-8").splitlines()
    slides, lines, notes = [], [], []
    for group in walk.select(".w-group"):
        numbers = [line["data-number"] for line in group.select(".w-line")]
        code = [source[int(number) - 1] for number in dict.fromkeys(numbers) if number]
        if lines and code and code[0].lstrip().startswith("def "):
            lines.append("")
        if lines and len(lines) + len(code) > MOST:
            slides.append((dedent("\n".join(lines)), notes))
            lines, notes = [], []
        lines += code
        if note := group.select_one(".w-note"):
            notes.append(words(note))
    return [*slides, (dedent("\n".join(lines)), notes)]


def without_links(element: Tag) -> str:
    """Return the HTML inside an element; a link leads nowhere outside the book."""
    for link in element.select("a"):
        if "headerlink" in link.get("class", []):
            link.decompose()
        else:
            link.unwrap()
    return element.decode_contents()


def slides_of(page: str) -> tuple[str, list[str]]:
    """Return the title of a chapter's page, and its slides."""
    article = BeautifulSoup(page, "html.parser").select_one("article")
    for hidden in article.select("details, style, script, template, .walk button"):
        hidden.decompose()
    title, heading, said = words(article.h1), "", []
    slides, points = [], []

    def add(head: str, body: str, notes: list[str]) -> None:
        if not slides:  # what comes before the first picture
            slides.append(slide(escape(title), "", said))
        slides.append(slide(head or escape(title), body, notes))

    for element in article.find_all(["h2", "h3", "p", "li", "figure", "section"]):
        if element.decomposed or element.find_parent(["figure", "aside", "table"]):
            continue
        if element.find_parent("section", class_="walk"):
            continue
        if element.name in ("h2", "h3"):
            if words(element) == "Exercises":
                break
            if not slides:
                slides.append(slide(escape(title), "", said))
            heading, said = without_links(element), []
        elif element.name == "figure":
            if (element.get("id") or "").startswith("fig-") and element.svg:
                picture = element.svg.parent.decode_contents()
                body = f'<div class="picture">{picture}</div>'
                add(heading, body, [*said, words(element.figcaption)])
                said = []
        elif element.name == "section":
            if "walk" in element.get("class", []):
                name = f"<code>{escape(words(element.select_one('.w-head b')))}</code>"
                for code, notes in listing(element):
                    body = f'<pre tabindex="0"><code>{escape(code)}</code></pre>'
                    add(name, body, notes)
        elif element.name == "li":
            if heading == "Summary":
                points.append(f"<li>{without_links(element)}</li>")
        elif words(element).startswith("Predict."):
            body = f'<p class="question">{without_links(element)}</p>'
            add(heading, body, ["Collect the answers before you go on.", *said])
            said = []
        elif not element.find_parent("li"):
            said.append(words(element))
    add(
        "Summary", f"<ul>{''.join(points)}</ul>", ["Let students say each point first."]
    )
    return title, slides


def write(folder: Path, pages: Path) -> None:
    """Write a file for each chapter.

    Args:
        folder: Of the course. It has ``vendor/reveal``.
        pages: Of the book, ``_build/html/book``.
    """
    target = folder / "slides"
    for name in chapters():
        page = (pages / f"{name}.html").read_text("utf-8")
        title, slides = slides_of(page)
        written = PAGE.format(title=escape(title), slides="\n".join(slides))
        (target / f"{name}.html").write_text(written, encoding="utf-8")
    static = pages.parent / "_static"
    shutil.copytree(static / "vendor" / "mathjax", folder / "vendor" / "mathjax")
    colours = (static / "made" / "colours.css").read_text("utf-8")
    style = target / "slides.css"
    text = style.read_text("utf-8") + colours
    style.write_text(text, encoding="utf-8")
