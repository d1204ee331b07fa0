"""The model on one page of the reference computes what the library's model computes."""

import re

import pytest
import torch
from book_files import BOOK

from transformer_lib import model as library
from website.api.whole_model import whole_model

SIZES = {"d_model": 8, "num_heads": 2, "d_ff": 16, "num_layers": 2}
SIZES |= {"src_vocab_size": 11, "tgt_vocab_size": 13}
SRC = torch.tensor([[5, 6, 7], [8, 9, 0]])
TGT = torch.tensor([[1, 3, 4, 5], [1, 6, 0, 0]])


@pytest.fixture(scope="module")
def page():
    text, names = whole_model(), {"__name__": "page"}
    exec(text, names)
    return text, names


@pytest.mark.parametrize(
    "choices",
    [
        {},
        {"norm_first": True, "bias": False, "activation": "gelu", "norm_eps": 1e-6},
        {"tgt_vocab_size": 11, "share_embeddings": True, "tie_output": True},
    ],
    ids=str,
)
def test_its_scores_are_those_of_the_library(page, choices):
    choices = SIZES | choices
    theirs = library.Transformer(library.TransformerConfig(**choices)).eval()
    ours = page[1]["Transformer"](page[1]["TransformerConfig"](**choices)).eval()
    ours.load_state_dict(theirs.state_dict())
    assert ours(SRC, TGT).equal(theirs(SRC, TGT))


def test_it_begins_with_the_same_weights_and_drops_the_same_numbers(page):
    scores = []
    for names in (vars(library), page[1]):
        torch.manual_seed(0)
        model = names["Transformer"](names["TransformerConfig"](**SIZES, dropout=0.5))
        scores.append(model(SRC, TGT))
    assert scores[0].equal(scores[1])


def test_it_can_be_read_at_one_sitting(page):
    lines = [line for line in page[0].splitlines() if line]
    assert len(lines) <= 320
    assert max(map(len, lines)) <= 92
    assert not re.search(r"cache|require_|start", page[0])


def test_the_example_below_it_runs(page, capsys):
    text = (BOOK / "api_whole_model.md").read_text("utf-8")
    (example,) = re.findall(r"```python\n(.+?)```", text, re.DOTALL)
    exec(example.replace("from model import", "#"), dict(page[1]))
    assert capsys.readouterr().out == "torch.Size([2, 4, 13])\n"
