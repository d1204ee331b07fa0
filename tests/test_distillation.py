import math

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from transformer_lib.data import make_batch
from transformer_lib.faster import soft_label_loss, soft_labels, teacher_pairs
from transformer_lib.model import Transformer, TransformerConfig

B, T, V = 2, 3, 7
PAD = 0


@pytest.fixture
def logits():
    torch.manual_seed(3)
    return torch.randn(2, B, T, V, dtype=torch.float64)


@pytest.fixture
def targets():
    return torch.tensor([[4, 2, PAD], [5, 6, 2]])


# -- The loss --------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_it_agrees_with_torchs_divergence(logits, targets, temperature):
    student, teacher = logits
    real = targets != PAD
    expected = temperature**2 * F.kl_div(
        (student[real] / temperature).log_softmax(-1),
        (teacher[real] / temperature).log_softmax(-1),
        log_target=True,
        reduction="sum",
    )
    loss = soft_label_loss(student, teacher, targets, PAD, temperature)
    assert_close(loss, expected)


def test_two_words_by_hand():
    teacher = torch.tensor([[[math.log(3.0), 0.0]]], dtype=torch.float64)  # 3/4, 1/4
    student = torch.zeros(1, 1, 2, dtype=torch.float64)  # 1/2, 1/2
    expected = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    loss = soft_label_loss(student, teacher, torch.tensor([[1]]), PAD)
    assert loss.item() == pytest.approx(expected, abs=1e-12)


def test_padding_costs_nothing_and_gets_no_gradient(logits, targets):
    student, teacher = logits[0].requires_grad_(), logits[1]
    soft_label_loss(student, teacher, targets, PAD).backward()
    assert (student.grad[0, 2] == 0).all()
    assert (student.grad[1, 2] != 0).all()


def test_what_the_teacher_rules_out_costs_nothing_and_hurts_no_gradient(
    logits, targets
):
    student, teacher = logits[0], logits[1].clone()
    teacher[..., PAD] = -math.inf
    student[..., PAD] = -math.inf
    student.requires_grad_()
    loss = soft_label_loss(student, teacher, targets, PAD, 2.0)
    loss.backward()
    expected = soft_label_loss(student[..., 1:], teacher[..., 1:], targets, PAD, 2.0)
    assert_close(loss, expected)
    assert student.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("temperature", [1e3, 1e5])
def test_the_hottest_loss_is_half_the_variance_of_the_differences(dtype, temperature):
    student, teacher = torch.randn(2, 1, 1, 1000).to(dtype)
    student.requires_grad_()
    loss = soft_label_loss(student, teacher, torch.tensor([[1]]), PAD, temperature)
    # The rest of the series is smaller by the temperature, about.
    apart = student.detach().double() - teacher.double()
    expected = apart.var(correction=0) / 2
    assert loss.dtype == torch.float32
    assert_close(loss.double(), expected, rtol=10 / temperature, atol=1e-4)
    (gradient,) = torch.autograd.grad(loss, student)
    expected = (apart - apart.mean()) / 1000
    assert_close(gradient.double(), expected, rtol=1e-2, atol=1e-5)


def test_the_coldest_loss_is_finite_and_not_negative(logits, targets):
    student, teacher = logits.float() * 100
    loss = soft_label_loss(student, teacher, targets, PAD, 1e-9)
    assert 0 <= loss < math.inf


# -- The teacher -----------------------------------------------------------------------


@pytest.fixture
def teacher():
    torch.manual_seed(5)
    config = TransformerConfig(
        src_vocab_size=11, tgt_vocab_size=V, d_model=6, num_heads=2, d_ff=5,
        num_layers=1, max_len=16, dropout=0.5,
    )  # fmt: skip
    return Transformer(config).double()


def test_soft_labels_are_the_teachers_logits_without_a_gradient(teacher):
    batch = make_batch([([3, 4], [5, 6]), ([7], [4])])
    found = soft_labels(teacher.eval(), batch)
    assert not found.requires_grad
    assert_close(found, teacher(batch.src, batch.tgt[:, :-1]).detach())


def test_pairs_come_in_order_and_empty_translations_are_left_out():
    def translate(sentences):
        return ["" if s.startswith("x") else s.upper() for s in sentences]

    pairs = teacher_pairs(translate, ["a b", "x", "c"])
    assert pairs == [("a b", "A B"), ("c", "C")]
    assert teacher_pairs(translate, []) == []
