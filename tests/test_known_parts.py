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


def test_a_model_of_known_classes_is_plain_and_others_are_not_looked_at(model):
    require_plain(model.named_modules(), KNOWN)
    model[0].register_forward_hook(print)
    assert unknown_part(model[1].named_modules(), KNOWN) is None


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda model: model.append(Wider(4, 4)), "a Wider as 2"),
        (lambda model: model[1].w_q.register_forward_hook(print), "a hook at 1.w_q"),
        (lambda model: model[0].register_forward_pre_hook(print), "a hook at 0"),
        (lambda model: model.register_forward_hook(print), "a hook at the model"),
        (
            lambda model: setattr(model[0], "forward", torch.relu),
            "a forward of its own at 0",
        ),
        (lambda model: setattr(model[1], "attend", max), "another attention at 1"),
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
