"""Graphs: every node is a token, and the edges are the mask."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transformer_lib.checks import require_positive
from transformer_lib.model import MultiHeadAttention


def edge_mask(edges: Iterable[tuple[int, int]], num_nodes: int) -> Tensor:
    """Let every node attend to its neighbours and to itself.

    Args:
        edges: Pairs of nodes, numbered from 0. An edge leads both ways.
        num_nodes: Number of nodes S.

    Returns:
        Boolean, shape (1, 1, S, S); True = may attend. Symmetric, True on the diagonal.

    Raises:
        ValueError: If ``num_nodes`` is not positive, or an edge is no pair or leads to
            no node.

    Source: Velickovic et al. (2018), section 2.1.
    """
    require_positive(num_nodes=num_nodes)
    mask = torch.eye(num_nodes, dtype=torch.bool)  # (S, S)
    for edge in edges:
        if len(edge) != 2:
            raise ValueError(f"edges must be pairs of nodes, got {edge}")
        one, other = edge
        if not (0 <= one < num_nodes and 0 <= other < num_nodes):
            raise ValueError(
                f"edges must join nodes below {num_nodes}, got {one} and {other}"
            )
        mask[one, other] = mask[other, one] = True
    return mask[None, None]  # (1, 1, S, S)


class GraphAttention(nn.Module):
    """Layers of attention alone, each of which reaches one edge further.

    Between the layers stands an ELU and no residual connection: what a node becomes is
    made of what it gathered along the edges.

    Args:
        d_model: Width of the vectors.
        num_heads: Number of attention heads.
        num_layers: Number of layers: how many edges away a node sees.

    Raises:
        ValueError: If a size is not positive, or as ``MultiHeadAttention`` does.

    Source: Velickovic et al. (2018), section 2.1, with this book's attention.
    """

    def __init__(self, d_model: int, num_heads: int, num_layers: int) -> None:
        super().__init__()
        require_positive(num_layers=num_layers)
        self.layers = nn.ModuleList(
            MultiHeadAttention(d_model, num_heads) for _ in range(num_layers)
        )

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Gather along the edges, layer by layer.

        Args:
            x: A vector for each node, shape (B, S, d_model).
            mask: Boolean, broadcastable to (B, H, S, S); True = may attend.

        Returns:
            Shape (B, S, d_model).
        """
        for number, layer in enumerate(self.layers):
            x = x if number == 0 else F.elu(x)
            x = layer(x, x, x, mask)  # (B, S, d_model)
        return x
