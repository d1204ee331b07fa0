import pytest

from transformer_lib.training import cooldown_factor, warmup_rate


def test_the_rate_by_hand():
    # d_model 4 gives 1/2; 16 steps of warm-up rise by 1/64 each, to 1/4.
    rates = [warmup_rate(step, d_model=4, warmup_steps=16) for step in (1, 4, 16, 64)]
    assert rates == pytest.approx([1 / 128, 1 / 32, 1 / 8, 1 / 16])
    assert warmup_rate(4, 4, 16, factor=3.0) == pytest.approx(3 / 32)


def test_the_papers_base_model_peaks_at_7e_4_after_4000_steps():
    peak = warmup_rate(4000, d_model=512)
    assert peak == pytest.approx(6.987712e-4)
    assert warmup_rate(3999, 512) < peak > warmup_rate(4001, 512)


@pytest.mark.parametrize("warmup_steps", [1, 2, 7])
def test_it_rises_in_a_straight_line_to_the_last_warmup_step_and_then_falls(
    warmup_steps,
):
    rates = [warmup_rate(n, 8, warmup_steps) for n in range(1, 3 * warmup_steps + 1)]
    rising, falling = rates[:warmup_steps], rates[warmup_steps - 1 :]
    assert rising == pytest.approx([n * rates[0] for n in range(1, warmup_steps + 1)])
    assert falling == sorted(falling, reverse=True)


@pytest.mark.parametrize(
    ("epochs", "cooldown", "factors"),
    [
        (5, 3, [1, 1, 3 / 4, 2 / 4, 1 / 4]),
        (5, 0, [1, 1, 1, 1, 1]),
        (3, 3, [3 / 4, 2 / 4, 1 / 4]),
        (3, 8, [3 / 9, 2 / 9, 1 / 9]),
    ],
)
def test_a_cooldown_by_hand(epochs, cooldown, factors):
    found = [cooldown_factor(n, epochs, cooldown) for n in range(1, epochs + 1)]
    assert found == pytest.approx(factors)
