"""The PDF of the whole book: nothing cut, nothing lost, and every link leads on."""

from concurrent.futures import ThreadPoolExecutor

import lxml.html
import pytest
from book_files import HTML, ROOT
from pypdf import PdfReader, PdfWriter

from website.print import pdf

SHOWN = """//*[contains(@class, "cell_input")]
[not(ancestor::details[not(contains(@class, "fold"))])]//pre |
//*[@data-walk]//*[@class="w-line"]"""
LONG = " + ".join(f"term_{number}" for number in range(60))
MENU = """<nav class="bd-docs-nav">
<p role="heading">I First</p><a href="one.html">1. One</a>
<p role="heading">II Second</p><a href="two.html">2. Two</a></nav>"""
ONE = f"""<h1>1. One</h1><h2 id="here">Here</h2><a href="#here">above</a>
<a href="two.html#here">beyond</a> <a href="https://example.org/">outside</a>
<a href="../_sources/book/one.ipynb">elsewhere</a><pre>{LONG}</pre>"""


def print_book(*arguments):
    """Print in a thread: Playwright can start only once in the thread of the tests."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(pdf.print_book, *arguments).result()


def without_spaces(text):
    return "".join(text.split())


def read(path):
    """Return what is written on each page, and the reader."""
    reader = PdfReader(path)
    return [page.extract_text() for page in reader.pages], reader


def links(reader):
    """List the page that each link lies on, and the address or page it leads to."""
    for number, page in enumerate(reader.pages):
        for annotation in page.get("/Annots", []):
            link = annotation.get_object()
            if "/A" in link and "/URI" in link["/A"]:
                yield number, link["/A"]["/URI"]
            else:
                target = link.get("/Dest") or link["/A"]["/D"]
                place = (
                    reader.named_destinations[target] if isinstance(target, str) else 0
                )
                yield number, reader.get_destination_page_number(place)


@pytest.fixture
def small(tmp_path):
    """Three short pages with what the book says about paper."""
    html = tmp_path / "html"
    sheet = (ROOT / "website/print/print.css").as_uri()
    (html / "book").mkdir(parents=True)
    for name, content in [
        ("intro", "<h1>The book</h1>"),
        ("one", ONE),
        ("two", '<h1>2. Two</h1><h2 id="here">There</h2>'),
    ]:
        (html / "book" / f"{name}.html").write_text(
            f'<html><head><link rel="stylesheet" href="{sheet}"></head><body>{MENU}'
            f'<article class="bd-article">{content}</article></body></html>',
            encoding="utf-8",
        )
    return html


@pytest.mark.slow
def test_pages_follow_the_contents_and_links_lead_within_the_paper(small, tmp_path):
    target = tmp_path / "book.pdf"
    print_book(small, target)
    texts, reader = read(target)
    first_lines = [text.split("\n")[0] for text in texts]
    assert first_lines == ["The book", "I First", "II Second"]
    led = [(1, 1), (1, 2), (1, "https://example.org/")]
    assert sorted(links(reader), key=str) == sorted(led, key=str)
    titles = [item.title for item in reader.outline if not isinstance(item, list)]
    assert titles == ["The book", "1. One", "2. Two"]
    assert [text.split()[-1] for text in texts] == ["1", "2", "3"]
    assert without_spaces(LONG) in without_spaces(texts[1])  # on several lines

    before = target.read_bytes()
    (small / "book" / "two.html").unlink()
    with pytest.raises(OSError, match=r"two\.html"):
        print_book(small, target)
    assert target.read_bytes() == before
    assert not list(small.rglob(".*"))


def test_a_title_that_was_written_twice_is_said_once(tmp_path):
    document = PdfWriter()
    document.add_blank_page(width=100, height=100)
    chapter = document.add_outline_item(title="3. Attention", page_number=0)
    for title in ("ProofProof", "Summary"):
        document.add_outline_item(title=title, page_number=0, parent=chapter)
    pdf.mend(document.root_object["/Outlines"])
    document.write(tmp_path / "book.pdf")
    first, rest = PdfReader(tmp_path / "book.pdf").outline
    assert first.title == "3. Attention"
    assert [item.title for item in rest] == ["Proof", "Summary"]


@pytest.mark.slow
def test_a_chapter_is_printed_with_all_its_code_and_whole_listings(tmp_path):
    print_book(HTML, tmp_path / "book.pdf", {"03_attention"})
    texts, reader = read(tmp_path / "book.pdf")
    shown = without_spaces("".join(texts))
    page = lxml.html.parse(HTML / "book" / "03_attention.html").getroot()
    code = page.xpath(SHOWN)
    lines = [line for element in code for line in element.text_content().splitlines()]
    assert len(lines) > 200
    assert [line for line in lines if without_spaces(line) not in shown] == []
    assert not [link for _, link in links(reader) if str(link).startswith("file:")]
    # What is folded on the page is open on paper, but for set-up and checks.
    (folded, *_) = page.xpath("//details[contains(@class, 'fold')]/p[not(*)]")
    assert without_spaces(folded.text_content()) in shown
    assert "use_book_style()" not in shown


def test_what_is_missing_is_named(small, tmp_path, monkeypatch):
    with pytest.raises(SystemExit, match="make book"):
        print_book(tmp_path, tmp_path / "book.pdf")
    monkeypatch.setattr("shutil.which", lambda program: None)
    with pytest.raises(SystemExit, match="apt install chromium"):
        print_book(small, tmp_path / "book.pdf")
