"""What a seed or a text decides is the same in every process."""

import os
import subprocess
import sys

from transformer_lib.data import Tokenizer, token_batches
from transformer_lib.data.corpora.grammar import sentence_pairs
from transformer_lib.data.corpora.toy import toy_pairs

PROGRAM = """if True:
    from test_seeds import decided
    print(ascii(decided()))
"""


def decided():
    pairs = sentence_pairs(200, seed=3)
    toys = toy_pairs("sort", 99, seed=5)
    batches = [token_batches(toys, 60, seed=seed) for seed in (3, "3 4")]
    ids = [[x.tolist() for x in batch] for each in batches for batch in each]
    texts = [text for pair in pairs for text in pair]
    return pairs, toys, ids, Tokenizer.train(texts, 355).to_json()


def test_the_same_seeds_and_texts_give_the_same_in_another_process():
    other = {"PYTHONHASHSEED": "1", "RAYON_NUM_THREADS": "3"}
    printed = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | other | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        check=True,
        encoding="utf-8",
    ).stdout
    assert printed.strip() == ascii(decided())
