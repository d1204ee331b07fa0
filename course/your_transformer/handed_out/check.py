"""Check a step: ``python check.py attention``. Without a name, show the progress."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [
    str(folder)
    for each in HERE.parents
    if (each / "transformer_lib").is_dir()
    for folder in (each, each / "course")
]

try:
    from your_transformer.progress import main
except ModuleNotFoundError as error:
    sys.exit(f"{error}. Put this folder into the book's and use its Python: README.md.")

sys.stdout.reconfigure(errors="replace")  # a report has marks that cp1252 lacks
sys.exit(main(HERE, sys.argv[1:]))
