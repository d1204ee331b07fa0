"""The reference lists every field of the config with its default: does it still?"""

import re
from dataclasses import MISSING, fields

from book_files import BOOK

from transformer_lib.model import TransformerConfig

ROW = re.compile(r"^\| `(\w+)` \| ([^|]+) \|", re.MULTILINE)


def shown(default):
    if default is MISSING:
        return "must be given"
    return f'"{default}"' if isinstance(default, str) else str(default)


def test_the_table_has_the_fields_of_the_config_in_order_with_their_defaults():
    text = (BOOK / "api_layers.md").read_text(encoding="utf-8")
    rows = [
        (name, default.replace("1e-5", "1e-05")) for name, default in ROW.findall(text)
    ]
    assert rows == [(f.name, shown(f.default)) for f in fields(TransformerConfig)]
