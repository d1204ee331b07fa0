"""Clouds of points on the surface of five solids: data without any order."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from transformer_lib.checks import require_positive

SHAPES = ("sphere", "cube", "cylinder", "ring", "cone")
NOISE = 0.02


def random_clouds(
    count: int, num_points: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Draw points from the surface of solids, each turned and scaled at random.

    Args:
        count: Number of clouds B.
        num_points: Points in each, S.
        generator: Draws the random numbers.

    Returns:
        The points, shape (B, S, 3), in no order, about 1 from the origin; and which of
        ``SHAPES`` each cloud is, shape (B).

    Raises:
        ValueError: If a number is not positive.
    """
    require_positive(count=count, num_points=num_points)
    labels = torch.randint(len(SHAPES), (count,), generator=generator)
    draw = [_sphere, _cube, _cylinder, _ring, _cone]
    solids = [each(count, num_points, generator) for each in draw]
    points = torch.stack(solids, dim=1)[torch.arange(count), labels]  # (B, S, 3)
    turned = torch.linalg.qr(torch.randn(count, 3, 3, generator=generator)).Q
    scale = 0.8 + 0.4 * torch.rand(count, 1, 1, generator=generator)
    noise = NOISE * torch.randn(count, num_points, 3, generator=generator)
    return points @ turned * scale + noise, labels


def _sphere(count: int, num_points: int, generator: torch.Generator) -> Tensor:
    return F.normalize(torch.randn(count, num_points, 3, generator=generator), dim=-1)


def _cube(count: int, num_points: int, generator: torch.Generator) -> Tensor:
    """Draw within the cube, then push each point onto one of its six faces."""
    inside = 2 * torch.rand(count, num_points, 3, generator=generator) - 1
    axis = torch.randint(3, (count, num_points, 1), generator=generator)
    side = torch.randint(2, (count, num_points, 1), generator=generator) * 2.0 - 1
    return inside.scatter(2, axis, side) / 1.3


def _cylinder(count: int, num_points: int, generator: torch.Generator) -> Tensor:
    around, up = _angles(2, count, num_points, generator)
    x, y = 0.7 * around.cos(), 0.7 * around.sin()
    return torch.stack([x, y, up / math.pi - 1], dim=-1)


def _ring(count: int, num_points: int, generator: torch.Generator) -> Tensor:
    around, inside = _angles(2, count, num_points, generator)
    reach = 0.7 + 0.3 * inside.cos()
    x, y = reach * around.cos(), reach * around.sin()
    return torch.stack([x, y, 0.3 * inside.sin()], dim=-1)


def _cone(count: int, num_points: int, generator: torch.Generator) -> Tensor:
    around, up = _angles(2, count, num_points, generator)
    reach = (up / (2 * math.pi)).sqrt()  # more surface where it is wider
    x, y = reach * around.cos(), reach * around.sin()
    return torch.stack([x, y, 1 - 1.6 * reach], dim=-1)


def _angles(number: int, *size: int | torch.Generator) -> Tensor:
    """Draw numbers from 0 to 2 pi, shape (number, B, S)."""
    *shape, generator = size
    return 2 * math.pi * torch.rand(number, *shape, generator=generator)
