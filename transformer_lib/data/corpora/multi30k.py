"""Multi30k: captions of photographs, written in English and translated into German.

For non-commercial research and education only. The text is not part of this
repository: ``download`` fetches it, 1.4 MB, into the folder that the environment
variable ``MULTI30K_DIR`` names, or else into one in the user's cache.

Source: Elliott et al. (2016); its test sets of 2017: Elliott et al. (2017).
"""

import gzip
import hashlib
import os
from pathlib import Path

import pooch

from transformer_lib.checks import require_one_of

URL = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/"
SPLITS = {
    "train": "train",
    "validation": "val",
    "test_2016": "test_2016_flickr",
    "test_2017": "test_2017_flickr",
    "mscoco": "test_2017_mscoco",
}
SHA256SUMS = """\
9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8  test_2016_flickr.de.gz
611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9  test_2016_flickr.en.gz
a2c89666db00c495cd8513b9d708d5a3acc205d7de312ef2bf5fb7ebc1540aee  test_2017_flickr.de.gz
76a444ee25172e72695cddb13ae4a3bda59430617be88e0bb46b60504f054074  test_2017_flickr.en.gz
799e4854c25d601cb6cb6be29eabe5667734c61ace2f495e03e429031a0bc338  test_2017_mscoco.de.gz
aab300bfb4427697987e02cd0aacd44bfe8aa50456231b6474c08038bbed2b58  test_2017_mscoco.en.gz
726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6  train.de.gz
d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f  train.en.gz
f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a  val.de.gz
14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28  val.en.gz
"""
SHA256 = {name: digest for digest, name in map(str.split, SHA256SUMS.splitlines())}
LANGUAGES = ("en", "de")
FOLDER = "MULTI30K_DIR"


def multi30k(
    split: str, *, source: str = "en", target: str = "de"
) -> list[tuple[str, str]]:
    """Read the pairs of sentences of one split, as they were published.

    Args:
        split: "train", "validation", "test_2016", "test_2017" or "mscoco".
        source: Language to translate from, "en" or "de".
        target: Language to translate into, "en" or "de".

    Returns:
        Pairs of sentences, in the published order.

    Raises:
        FileNotFoundError: If a file is missing; the message says what to run.
        ValueError: If a file differs from the published one, or the split or a language
            is unknown.
    """
    require_one_of(SPLITS, split=split)
    require_one_of(LANGUAGES, source=source, target=target)
    place = _place()
    sides = [_lines(place / f"{SPLITS[split]}.{code}.gz") for code in (source, target)]
    return list(zip(*sides, strict=True))


def download() -> Path:
    """Fetch every file that is missing.

    Complete files are kept; a file that was cut off is fetched again.

    Returns:
        The folder that ``multi30k`` reads.

    Raises:
        requests.RequestException: If the network fails. Run it again: nothing is lost.
        ValueError: If a file differs from the published one.
    """
    place = _place()
    fetcher = pooch.create(place, URL, registry=SHA256)
    for name in SHA256:
        fetcher.fetch(name, progressbar=True)
    return place


def _place() -> Path:
    cache = Path(pooch.os_cache("transformer-line-by-line"))
    return Path(os.environ.get(FOLDER) or cache / "multi30k")


def _lines(path: Path) -> list[str]:
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is missing. Run `python -m transformer_lib.translation download`, "
            f"or set {FOLDER} to a folder that holds the Multi30k files."
        )
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256[path.name]:
        raise ValueError(
            f"{path} is not the published file: its SHA-256 must be "
            f"{SHA256[path.name]}, got {found}. Delete it and fetch it again."
        )
    return gzip.decompress(content).decode("utf-8").removesuffix("\n").split("\n")
