import pytest

from transformer_lib.training import cooldown_factor, warmup_rate


def test_the_rate_by_hand():
    # d_model 4 gives 1/2; 16 steps of warm-up rise by 1/64 each, to 1/4.
    rates = [warmup_rate(step, d_model=4, warmup_steps=16) for step in (1, 4, 16, 64)]
    assert rates == pytest.approx([1 / 128, 1 / 32, 1 / 8, 1 / 16])


def test_the_papers_base_model_peaks_at_7e_4_after_4000_steps():
    assert warmup_rate(4000, d_model=512) == pytest.approx(6.987712e-4)


@pytest.mark.parametrize("warmup_steps", [1, 2, 7, 4000])
def test_the_highest_rate_is_that_of_the_last_warmup_step(warmup_steps):
    steps = range(1, 3 * warmup_steps + 1)
    rates = [warmup_rate(step, 8, warmup_steps, factor=2.0) for step in steps]
    assert rates.index(max(rates)) + 1 == warmup_steps
    assert max(rates) == pytest.approx(2 / (8 * warmup_steps) ** 0.5)


def test_it_rises_in_a_straight_line_and_then_falls():
    rates = [warmup_rate(step, 8, 50) for step in range(1, 101)]
    assert rates[:50] == pytest.approx([step * rates[0] for step in range(1, 51)])
    falling = rates[49:]
    assert falling == sorted(falling, reverse=True)
    assert rates[99] == pytest.approx(rates[49] / 2**0.5)


def test_four_times_the_width_takes_steps_of_half_the_size():
    assert warmup_rate(3, 4 * 8) == pytest.approx(warmup_rate(3, 8) / 2)


def test_the_factor_multiplies_every_rate():
    for step in (1, 4000, 9000):
        expected = 3 * warmup_rate(step, 512)
        assert warmup_rate(step, 512, factor=3.0) == pytest.approx(expected)


@pytest.mark.parametrize("name", ["step", "d_model", "warmup_steps"])
def test_sizes_below_one_are_refused(name):
    sizes = {"step": 1, "d_model": 1, "warmup_steps": 1} | {name: 0}
    with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
        warmup_rate(**sizes)


def test_a_cooldown_of_three_in_five_epochs_by_hand():
    factors = [cooldown_factor(epoch, epochs=5, cooldown=3) for epoch in range(1, 6)]
    assert factors == pytest.approx([1, 1, 3 / 4, 2 / 4, 1 / 4])


def test_without_a_cooldown_nothing_is_multiplied():
    assert {cooldown_factor(epoch, 5, 0) for epoch in range(1, 6)} == {1}


def test_a_cooldown_of_all_epochs_and_more():
    assert cooldown_factor(1, epochs=3, cooldown=3) == pytest.approx(3 / 4)
    assert cooldown_factor(1, epochs=3, cooldown=8) == pytest.approx(3 / 9)


@pytest.mark.parametrize(
    ("epoch", "epochs", "cooldown", "message"),
    [
        (0, 3, 1, r"epoch must be in \[1, 3\], got 0"),
        (4, 3, 1, r"epoch must be in \[1, 3\], got 4"),
        (1, 3, -1, "cooldown must be at least 0, got -1"),
    ],
)
def test_an_impossible_cooldown_is_refused(epoch, epochs, cooldown, message):
    with pytest.raises(ValueError, match=message):
        cooldown_factor(epoch, epochs, cooldown)


def test_warmup_takes_4000_steps_unless_told_otherwise():
    for step in (1, 3999, 4001):
        assert warmup_rate(step, 512) == warmup_rate(step, 512, warmup_steps=4000)
