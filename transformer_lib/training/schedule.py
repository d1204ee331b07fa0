"""The learning rate: small at first, then large, then smaller and smaller."""

from transformer_lib.checks import (
    require_between,
    require_not_negative,
    require_positive,
)


def warmup_rate(
    step: int, d_model: int, warmup_steps: int = 4000, factor: float = 1.0
) -> float:
    """Rise in a straight line for ``warmup_steps``, then fall as 1 / sqrt(step).

    Args:
        step: The number of the update; the first is 1.
        d_model: Width of the model: wider models take smaller steps.
        warmup_steps: The update with the highest rate.
        factor: Multiplies every rate; 1 in the paper.

    Returns:
        The learning rate. At most factor / sqrt(d_model * warmup_steps).

    Raises:
        ValueError: If ``step``, ``d_model`` or ``warmup_steps`` is not positive.

    Source: Vaswani et al. (2017), section 5.3, equation 3.
    """
    require_positive(step=step, d_model=d_model, warmup_steps=warmup_steps)
    rising, falling = step * warmup_steps**-1.5, step**-0.5
    return factor * d_model**-0.5 * min(rising, falling)


def cooldown_factor(epoch: int, epochs: int, cooldown: int) -> float:
    """Fall in equal steps over the last epochs: smaller steps reach a lower loss.

    Args:
        epoch: The number of the pass through the data, in [1, ``epochs``].
        epochs: How many there are in total.
        cooldown: How many of the last epochs learn more slowly; 0 for none.

    Returns:
        What to multiply the learning rate by: 1 before the cooldown, in its last epoch
        1 / (cooldown + 1).

    Raises:
        ValueError: If ``epoch`` or ``cooldown`` is out of its range.

    Source: Hägele et al. (2024), section 3.
    """
    require_between(1, epochs, epoch=epoch)
    require_not_negative(cooldown=cooldown)
    return min(1.0, (epochs + 1 - epoch) / (cooldown + 1))
