"""What the chapters read: trained models, and the tables of ``measurements/``.

A checkout and an archive have all of it. An installed copy lacks the model of captions,
which has its own terms: ``python -m bookkit.shipped`` fetches it.
"""

import csv
from importlib.metadata import metadata
from pathlib import Path

import pooch

TOP = Path(__file__).resolve().parents[1]  # the project, or where it is installed
CACHE = Path(pooch.os_cache("transformer-line-by-line"))
CAPTIONS = "multi30k-en-de"
SHA256 = {
    "model.safetensors": (
        "60167530beb0dad7f15b0e9411d845f4791fb21715cbc7a734a4bb9c9459d88d"
    ),
    "run.json": ("d62bf30246f2edb136467fef3ef0f0671df647dd67d10b9bcbbc3542ac220895"),
    "tokenizer.json": (
        "fe3e726c9cb423d6210452d88f3e55886845c900ca16f841be5caff8c1b000ea"
    ),
}


def shipped(name: str) -> Path:
    """Return the folder of a trained model, such as ``grammar-en-de``.

    Raises:
        FileNotFoundError: If it is not here, with what to do about it.
    """
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


def fetch(address: str) -> Path:
    """Fetch the model of captions, for research and education without profit.

    Args:
        address: Where the project lies in the web.

    Returns:
        The folder that ``shipped`` finds.

    Raises:
        ValueError: If a file differs from the published one.
    """
    address = f"{address}/raw/main/models/{CAPTIONS}/"
    fetcher = pooch.create(CACHE / f"{CAPTIONS}.part", address, registry=SHA256)
    for name in SHA256:
        fetcher.fetch(name, progressbar=True)
    return (CACHE / f"{CAPTIONS}.part").rename(CACHE / CAPTIONS)


def address() -> str:
    """Return the address of the project in the web, or nothing if it has none."""
    urls = metadata("transformer-line-by-line").get_all("Project-URL") or []
    return "".join(url.partition(", ")[2] for url in urls if url.startswith("Source"))


if __name__ == "__main__":
    if not address():
        raise SystemExit(
            "The project has no address yet: use a checkout or an archive."
        )
    print(f"Its terms: {address()}/blob/main/models/{CAPTIONS}/README.md", flush=True)
    print(f"It is in {fetch(address())}")
