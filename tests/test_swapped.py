import copy

import pytest
from torch import nn

from transformer_lib.swapped import Swapped


class Stubborn:
    """An object that is interrupted when an attribute is set for the n-th time."""

    def __init__(self, n):
        vars(self).update(attend=abs, left=n)

    def __setattr__(self, name, value):
        vars(self)[name] = value
        vars(self)["left"] -= 1
        if self.left == 0:
            raise KeyboardInterrupt


@pytest.fixture
def layers():
    layers = [nn.Linear(2, 3) for _ in range(3)]
    for layer in layers:
        layer.attend = abs
    return layers


def attends(layers):
    return [layer.attend for layer in layers]


def test_attributes_are_replaced_inside_the_block_and_put_back_after_it(layers):
    with Swapped((layer, "attend", len) for layer in layers[:2]):
        assert attends(layers) == [len, len, abs]
    assert attends(layers) == [abs] * 3


def test_a_method_that_was_set_on_the_object_is_taken_off_again(layers):
    with Swapped([(layers[0], "forward", len)]):
        assert layers[0].forward is len
        other = copy.copy(layers[0])
    assert "forward" not in vars(layers[0])
    assert other.forward is len  # a copy keeps what it was made with


def test_an_error_in_the_block_puts_everything_back(layers):
    with (
        pytest.raises(KeyError, match="on purpose"),
        Swapped((layer, "attend", len) for layer in layers),
    ):
        raise KeyError("on purpose")
    assert attends(layers) == [abs] * 3


def test_without_a_block_they_stay_until_they_are_put_back(layers):
    swapped = Swapped([(layers[0], "attend", len)])
    assert attends(layers) == [len, abs, abs]
    swapped.restore()
    layers[0].attend = min
    swapped.restore()  # there is nothing left to do
    assert attends(layers) == [min, abs, abs]


def test_an_interruption_half_way_changes_nothing(layers):
    objects = [*layers[:2], Stubborn(1), layers[2]]
    with pytest.raises(KeyboardInterrupt):
        Swapped((each, "attend", len) for each in objects)
    assert attends(objects) == [abs] * 4


def test_an_interruption_while_they_are_put_back_leaves_none_behind(layers):
    objects = [*layers[:2], Stubborn(2), layers[2]]
    swapped = Swapped((each, "attend", len) for each in objects)
    assert attends(objects) == [len] * 4
    with pytest.raises(KeyboardInterrupt):
        swapped.restore()
    assert attends(objects) == [abs] * 4


def test_the_latest_goes_first_and_nothing_moves_before_that(layers):
    first = Swapped((layer, "attend", len) for layer in layers)
    second = Swapped([(layers[2], "attend", min)])
    message = "attend of a Linear must still be len .* it was before, got min$"
    with pytest.raises(ValueError, match=message):
        first.restore()
    assert attends(layers) == [len, len, min]
    second.restore()
    first.restore()
    assert attends(layers) == [abs] * 3


def test_a_method_that_is_gone_is_named_by_its_class(layers):
    swapped = Swapped([(layers[0], "forward", len)])
    del layers[0].forward
    with pytest.raises(ValueError, match=r"still be len .* the method of its class"):
        swapped.restore()
