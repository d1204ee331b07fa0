"""Print the built pages into one PDF, with links, page numbers and an outline.

The articles of all pages are joined into one page, so that a link from one chapter to
another leads to a place on paper, and Chromium prints that page once.
"""

import io
import logging
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import lxml.html
from lxml.html import HtmlElement, builder
from playwright.sync_api import sync_playwright
from pypdf import PdfWriter
from pypdf.generic import DictionaryObject, NameObject, TextStringObject

from transformer_lib.files import atomic_write
from website.builder.chromium import launch

ROOT = Path(__file__).resolve().parents[2]

FOOTER = """<div style="width: 100%; text-align: center; font: 8px sans-serif">
<span class="pageNumber"></span></div>"""
MARGIN = {"top": "16mm", "bottom": "16mm", "left": "16mm", "right": "16mm"}
SCALE = 0.8  # 88 columns of code then fit on a line
READY = """async () => {
  await window.MathJax?.startup?.promise;
  await document.fonts.ready;
  await Promise.all([...document.images].map(image => image.decode().catch(() => {})));
}"""


def print_book(html: Path, target: Path, only: set[str] | None = None) -> None:
    """Print the pages in ``html``, or ``only`` those of these names, to ``target``."""
    folder = html / "book"
    if not (folder / "intro.html").is_file():
        raise SystemExit("There are no pages yet: run `make book` first.")
    joined = (
        folder / ".joined.html"
    )  # in this folder, so that relative paths to images hold
    try:
        joined.write_text(join(folder, only), encoding="utf-8")
        with sync_playwright() as playwright:
            browser = launch(playwright)
            page = browser.new_page(color_scheme="light")
            page.set_default_timeout(0)  # no limit
            page.goto(joined.as_uri())
            page.evaluate(READY)
            printed = page.pdf(
                format="A4",
                margin=MARGIN,
                scale=SCALE,
                print_background=True,
                display_header_footer=True,
                header_template="<span></span>",
                footer_template=FOOTER,
                outline=True,
                tagged=True,
            )
            browser.close()
    finally:
        joined.unlink(missing_ok=True)
    document = PdfWriter(clone_from=io.BytesIO(printed))
    mend(document.root_object.get("/Outlines"))
    with atomic_write(target) as unfinished:
        document.write(unfinished)


def mend(entry: DictionaryObject | None) -> None:
    """Remove the doubled titles of headings that Chromium moved to the next page."""
    while entry is not None:
        entry = entry.get_object()
        title = entry.get("/Title", "")
        if title and title == 2 * (once := title[: len(title) // 2]):
            entry[NameObject("/Title")] = TextStringObject(once)
        mend(entry.get("/First"))
        entry = entry.get("/Next")


def join(folder: Path, only: set[str] | None = None) -> str:
    """Make one page of the articles in ``folder``, in the order of the contents."""
    contents = [
        (part, name)
        for part, name in read_contents(folder / "intro.html")
        if only is None or name in only
    ]
    names = {name for _, name in contents}
    head: dict[str, None] = {}  # in order, without repetitions
    articles, part = [], ""
    for in_part, name in contents:
        page = lxml.html.parse(folder / f"{name}.html", parser()).getroot()
        for element in page.xpath(
            "//head/link[@rel='stylesheet'] | //head/script[contains(., 'MathJax') or "
            "contains(@src, 'mathjax')]"
        ):
            element.tail = None
            head[as_text(element)] = None
        article = page.xpath("//article")[0]
        prepare(article, name, names)
        if in_part != part:
            part = in_part
            article.insert(0, builder.P(part, builder.CLASS("print-part")))
        articles.append(as_text(article))
    return (
        '<!DOCTYPE html><html lang="en" data-theme="light" data-mode="light">'
        '<meta charset="utf-8"><title>The Transformer, Line by Line</title>'
        f"{''.join(head)}<body><main class='bd-main bd-content'>"
        f"{''.join(articles)}</main></body></html>"
    )


def read_contents(page: Path) -> Iterator[tuple[str, str]]:
    """List this page, then the part and the name of every page in its menu."""
    yield "", page.stem
    part = ""
    for element in (
        lxml.html.parse(page, parser())
        .getroot()
        .xpath("//nav[contains(@class, 'bd-docs-nav')]//*[self::a or @role='heading']")
    ):
        if element.tag == "a":
            yield part, Path(element.get("href")).stem
        else:
            part = element.text_content().strip()


def prepare(article: HtmlElement, name: str, names: set[str]) -> None:
    """Make the anchors of an article unique, and point its links at those of others."""
    article.set("id", anchor(name))
    for element in article.xpath(".//*[@id][not(ancestor-or-self::svg)]"):
        element.set("id", anchor(name, element.get("id")))
    for link in article.xpath(".//a[@href]"):
        turn(link, name, names)


def turn(link: HtmlElement, name: str, names: set[str]) -> None:
    """Point a link at a place in the PDF or at another host, or remove it."""
    address = urlsplit(link.get("href"))
    page = unquote(address.path).removesuffix(".html") or name
    if address.scheme in ("http", "https", "mailto"):
        return
    if page in names:
        link.set("href", f"#{anchor(page, unquote(address.fragment))}")
    else:
        del link.attrib["href"]


def anchor(page: str, fragment: str = "") -> str:
    """Name a place on a page, so that no two pages share a name."""
    return f"{page}--{fragment}"


def parser() -> lxml.html.HTMLParser:
    return lxml.html.HTMLParser(encoding="utf-8", huge_tree=True)


def as_text(element: HtmlElement) -> str:
    return lxml.html.tostring(element, encoding="unicode")


if __name__ == "__main__":
    target = ROOT / "_build" / "the-transformer-line-by-line.pdf"
    logging.getLogger("pypdf").setLevel(
        logging.ERROR
    )  # otherwise it reports every object
    print_book(ROOT / "_build" / "html", target)
    print(f"The PDF is at {target}, {target.stat().st_size / 1e6:.0f} MB")
