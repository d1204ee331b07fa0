import gzip
import hashlib
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import requests

from transformer_lib.data import Tokenizer
from transformer_lib.data.corpora import multi30k as module
from transformer_lib.data.corpora.multi30k import SPLITS, download, multi30k

SIZES = {
    "train": 29_000,
    "validation": 1014,
    "test_2016": 1000,
    "test_2017": 1000,
    "mscoco": 461,
}
LINES = {
    "en": ["A dog.", "Two\u2028lines\x85?", "", " spaces "],
    "de": ["Ein Hund.", "Zwei Zeilen?", "", "Größe"],
}
REAL = os.environ.get("MULTI30K_DIR")


@pytest.fixture(autouse=True)
def no_environment(monkeypatch, tmp_path):
    monkeypatch.delenv("MULTI30K_DIR", raising=False)
    monkeypatch.setenv("NO_PROXY", "*")
    cache = tmp_path / "cache"
    monkeypatch.setattr(module.pooch, "os_cache", lambda name: cache / name)


@pytest.fixture
def published(monkeypatch):
    """Small files in the place of the published ones, by name."""
    files = {}
    for name in module.SHA256:
        stem, language, _ = name.split(".")
        text = "".join(f"{line}\n" for line in [*LINES[language], stem])
        files[name] = gzip.compress(text.encode(), mtime=0)
    sums = {name: hashlib.sha256(files[name]).hexdigest() for name in files}
    monkeypatch.setattr(module, "SHA256", sums)
    return files


@pytest.fixture
def place(monkeypatch, tmp_path):
    """The folder that the environment names; it does not exist yet."""
    monkeypatch.setenv("MULTI30K_DIR", str(tmp_path / "new" / "folder"))
    return tmp_path / "new" / "folder"


@pytest.fixture
def folder(published, place):
    place.mkdir(parents=True)
    for name, content in published.items():
        (place / name).write_bytes(content)
    return place


@pytest.fixture
def asked(published, monkeypatch):
    """Serve what is published on loopback, and note the names asked for."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path.removeprefix("/"))
            content = published.get(asked[-1])
            self.send_response(200 if content else 404)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        monkeypatch.setattr(module, "URL", f"http://127.0.0.1:{server.server_port}/")
        yield asked
        server.shutdown()
        thread.join()


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# -- Reading ---------------------------------------------------------------------------


@pytest.mark.usefixtures("folder")
def test_pairs_line_up_in_the_published_order():
    expected = list(zip(LINES["en"], LINES["de"], strict=True))
    for split, stem in SPLITS.items():
        pairs = multi30k(split)
        assert pairs == [*expected, (stem, stem)]
        turned = [(german, english) for english, german in pairs]
        assert multi30k(split, source="de", target="en") == turned


def test_a_missing_file_is_named_and_the_message_says_what_to_run(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        multi30k("train")
    cache = tmp_path / "cache" / "transformer-line-by-line" / "multi30k"
    for part in (
        f"{cache / 'train.en.gz'} is missing",
        "`python -m transformer_lib.translation download`",
        "MULTI30K_DIR",
    ):
        assert part in str(caught.value)


def test_a_damaged_file_is_refused_with_both_checksums_and_fetched_anew(
    folder, published, asked
):
    name = "val.de.gz"
    content = published[name][:-5]
    (folder / name).write_bytes(content)
    expected = (
        rf"val\.de\.gz is not the published file: its SHA-256 must be "
        rf"{module.SHA256[name]}, got {hashlib.sha256(content).hexdigest()}\. "
        r"Delete it and fetch it again"
    )
    with pytest.raises(ValueError, match=expected):
        multi30k("validation")
    download()
    assert asked == [name]
    assert contents(folder) == published


# -- Fetching --------------------------------------------------------------------------


def test_download_fetches_every_file_shows_progress_and_is_then_done(
    published, asked, place, capsys
):
    assert download() == place
    assert sorted(asked) == sorted(published)
    assert "100%" in capsys.readouterr().err
    assert download() == place
    assert len(asked) == len(published)
    assert contents(place) == published


@pytest.mark.parametrize(
    ("content", "error"),
    [(b"<html>Not what you asked for</html>", ValueError), (b"", requests.HTTPError)],
)
def test_what_is_not_published_is_refused_and_only_the_rest_fetched_again(
    published, asked, place, content, error
):
    names, right = list(published), dict(published)
    published[names[3]] = content
    with pytest.raises(error):
        download()
    assert set(contents(place)) == set(names[:3])
    asked.clear()
    published |= right
    download()
    assert asked == names[3:]
    assert contents(place) == right


# -- The real files --------------------------------------------------------------------


@pytest.mark.skipif(
    REAL is None, reason="set MULTI30K_DIR to a folder with the Multi30k files"
)
def test_the_real_captions_are_read_and_the_tokenizer_is_faithful_to_them(monkeypatch):
    monkeypatch.setenv("MULTI30K_DIR", REAL)
    corpus = {split: multi30k(split) for split in SPLITS}
    assert {split: len(pairs) for split, pairs in corpus.items()} == SIZES
    first = corpus["train"][0]
    assert first[0].startswith("Two young, White males are outside")
    assert first[1].startswith("Zwei junge weiße Männer sind im Freien")
    texts = [text for pairs in corpus.values() for pair in pairs[::20] for text in pair]
    tokenizer = Tokenizer.train(texts, 4000)
    for text in texts:
        cleaned = " ".join(text.split())
        assert tokenizer.clean(text) == cleaned
        assert tokenizer.decode(tokenizer.encode(text)) == cleaned
