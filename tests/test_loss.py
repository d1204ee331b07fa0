import math

import pytest
import torch
from torch.nn import functional as F

from transformer_lib.faster import disagreement
from transformer_lib.training import label_smoothed_loss

B, T, V, PAD = 3, 5, 11, 0


@pytest.fixture
def logits():
    return torch.randn(B, T, V, requires_grad=True)


@pytest.fixture
def targets():
    targets = torch.randint(1, V, (B, T))
    targets[1, 3:] = PAD
    return targets


@pytest.mark.parametrize("banned", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
def test_the_loss_and_its_gradient_agree_with_torch(logits, targets, smoothing, banned):
    if banned:
        with torch.no_grad():
            logits[..., PAD] = -math.inf
    ours = label_smoothed_loss(logits, targets, PAD, smoothing)
    theirs = F.cross_entropy(
        logits.flatten(0, 1),
        targets.flatten(),
        ignore_index=PAD,
        label_smoothing=smoothing,
        reduction="sum",
    )
    assert ours.isfinite() == (smoothing == 0 or not banned)
    torch.testing.assert_close(ours, theirs)
    gradients = [torch.autograd.grad(loss, logits)[0] for loss in (ours, theirs)]
    torch.testing.assert_close(*gradients)
    assert gradients[0].isfinite().all()
    assert (gradients[0][1, 3:] == 0).all()


def test_one_token_by_hand():
    # The model gives the three tokens 1/2, 1/4 and 1/4; the first is right. Smoothing
    # by 0.3 makes the answer 0.8, 0.1 and 0.1.
    logits = torch.tensor([[[0.5, 0.25, 0.25]]]).log()
    loss = label_smoothed_loss(logits, torch.tensor([[0]]), pad_id=2, smoothing=0.3)
    assert loss.item() == pytest.approx(0.8 * math.log(2) + 0.2 * math.log(4))


def test_the_smoothed_loss_is_lowest_where_the_model_gives_the_smoothed_answer():
    """By a tenth, unless told otherwise."""
    target = torch.tensor([[3]])
    answer = torch.full((1, 1, V), 0.1 / V)
    answer[0, 0, 3] += 0.9
    logits = answer.log().requires_grad_()
    (gradient,) = torch.autograd.grad(label_smoothed_loss(logits, target, PAD), logits)
    torch.testing.assert_close(gradient, torch.zeros(1, 1, V))


def test_a_batch_of_padding_alone_costs_zero_and_not_nan(logits):
    loss = label_smoothed_loss(logits, torch.full((B, T), PAD), PAD)
    loss.backward()
    assert loss.item() == 0
    assert logits.grad.abs().max() == 0


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_logits_too_large_for_exp_give_no_nan(logits, targets, smoothing):
    loss = label_smoothed_loss(logits * 1e5, targets, PAD, smoothing)
    loss.backward()
    assert loss.isfinite()
    assert logits.grad.isfinite().all()


def test_disagreement_is_the_mean_of_both_divergences_of_the_real_tokens(targets):
    passes = torch.randn(2 * B, T, V, requires_grad=True)
    found = disagreement(passes, targets.repeat(2, 1), PAD)
    first, second = passes.log_softmax(dim=-1).chunk(2)
    there, back = (
        F.kl_div(a, b, log_target=True, reduction="none").sum(dim=-1)
        for a, b in ((first, second), (second, first))
    )
    expected = ((there + back) / 2)[targets != PAD].sum()
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(
        *(torch.autograd.grad(x, passes)[0] for x in (found, expected))
    )


def test_passes_that_agree_cost_nothing_and_pull_at_nothing(logits, targets):
    same = logits.detach().repeat(2, 1, 1).requires_grad_()
    found = disagreement(same, targets.repeat(2, 1), PAD)
    found.backward()
    assert found.item() == 0
    assert same.grad.abs().max() < 1e-12
