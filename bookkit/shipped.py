"""What the chapters read: trained models, and the tables of ``measurements/``.

A checkout and an archive have all of it. An installed copy lacks the model of captions,
which has terms of its own: ``python -m bookkit.shipped`` fetches it.
"""

import csv
from importlib.metadata import metadata
from pathlib import Path

import pooch

TOP = Path(__file__).resolve().parents[1]  # the project, or where it is installed
CACHE = Path(pooch.os_cache("transformer-line-by-line"))
CAPTIONS = "multi30k-en-de"


def shipped(name: str) -> Path:
    """Return the folder of a trained model, such as ``grammar-en-de``."""
    for folder in (TOP / "models" / name, CACHE / name):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(
        f"The model {name} is not part of an installed copy, since it has terms of its "
        "own. Use a checkout of the project, or fetch it: python -m bookkit.shipped"
    )


def read_table(name: str) -> list[dict[str, str]]:
    """Read a table of recorded runs, such as ``toys``."""
    path = TOP / "measurements" / f"{name}.csv"
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def fetch() -> Path:
    """Fetch the model of captions from where the project lies in the web."""
    urls = metadata("transformer-line-by-line").get_all("Project-URL") or []
    address = "".join(url.partition(" ")[2] for url in urls if "Source" in url)
    if not address:
        raise SystemExit("The project has no address: use a checkout or an archive.")
    print(f"Its terms: {address}/blob/main/models/{CAPTIONS}/README.md", flush=True)
    raw, unfinished = f"{address}/raw/main/models/{CAPTIONS}/", CACHE / "unfinished"
    fetcher = pooch.create(unfinished, raw)
    fetcher.load_registry(TOP / "models" / f"{CAPTIONS}.sha256")
    for name in fetcher.registry:
        fetcher.fetch(name)
    return unfinished.rename(CACHE / CAPTIONS)


if __name__ == "__main__":
    print(f"The model is in {fetch()}")
