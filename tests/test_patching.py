import pytest
from torch import nn

from transformer_lib.patching import patched


class Stubborn:
    """An object whose attributes cannot be set."""

    def __setattr__(self, name, value):
        raise KeyError("on purpose")


@pytest.fixture
def layers():
    layers = [nn.Linear(2, 3) for _ in range(3)]
    for layer in layers:
        layer.attend = abs
    return layers


def attends(layers):
    return [layer.attend for layer in layers]


def test_what_is_replaced_inside_the_block_is_put_back_after_it_also_a_method(layers):
    changes = [(layer, "attend", len) for layer in layers[:2]]
    changes += [(layers[0], "attend", min), (layers[0], "forward", len)]
    with patched(iter(changes)):
        assert attends(layers) == [min, len, abs]
        assert layers[0].forward is len
    assert attends(layers) == [abs] * 3
    assert "forward" not in vars(layers[0])


def test_an_error_puts_everything_back_in_the_block_and_before_it(layers):
    changes = [(layer, "attend", len) for layer in layers]
    with pytest.raises(KeyError, match="on purpose"), patched(changes):
        raise KeyError("on purpose")
    with pytest.raises(KeyError, match="on purpose"):
        patched([*changes, (Stubborn(), "attend", len)])
    assert attends(layers) == [abs] * 3


def test_without_a_block_they_stay_until_they_are_put_back(layers):
    changed = patched([(layers[0], "attend", len)])
    assert attends(layers) == [len, abs, abs]
    changed.close()
    layers[0].attend = min
    changed.close()  # nothing is left to put back
    assert attends(layers) == [min, abs, abs]
