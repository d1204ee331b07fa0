import pytest
import torch
from torch import nn

from transformer_lib.faster.known_parts import require_plain, unknown_part
from transformer_lib.model import MultiHeadAttention

KNOWN = {nn.Linear, nn.Sequential, MultiHeadAttention}


class Wider(nn.Linear):
    pass


@pytest.fixture
def model():
    return nn.Sequential(nn.Linear(4, 4), MultiHeadAttention(4, 2))


def test_a_model_of_known_classes_is_plain(model):
    assert unknown_part(model.named_modules(), KNOWN) is None
    require_plain(model.named_modules(), KNOWN)


def test_modules_that_are_not_listed_are_not_looked_at(model):
    model[0].register_forward_hook(print)
    assert unknown_part(model[1].named_modules(), KNOWN) is None


def otherwise_made(model):
    model[0] = Wider(4, 4)


def hooked(model):
    model[1].w_q.register_forward_hook(print)


def hooked_before(model):
    model[1].w_q.register_forward_pre_hook(print)


def with_a_method(model):
    model[0].forward = torch.relu


def attending_otherwise(model):
    model[1].attend = max


def hooked_itself(model):
    model.register_forward_hook(print)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (otherwise_made, "a Wider as 0"),
        (hooked, "a hook at 1.w_q"),
        (hooked_before, "a hook at 1.w_q"),
        (with_a_method, "a forward of its own at 0"),
        (attending_otherwise, "another attention at 1"),
        (hooked_itself, "a hook at the model"),
    ],
)
def test_what_is_unknown_is_named_and_refused(model, change, named):
    change(model)
    assert unknown_part(model.named_modules(), KNOWN) == named
    with pytest.raises(ValueError, match=f"only what is known here, got {named}$"):
        require_plain(model.named_modules(), KNOWN)


def test_the_model_itself_must_be_of_a_known_class(model):
    found = unknown_part(model.named_modules(), KNOWN - {nn.Sequential})
    assert found == "a Sequential as the model"
