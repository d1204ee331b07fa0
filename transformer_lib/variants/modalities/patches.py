"""Pictures as tokens: cut into square patches, each patch one vector."""

from torch import Tensor, nn

from transformer_lib.checks import require_positive


def cut_into_patches(pictures: Tensor, size: int) -> Tensor:
    """Cut pictures into squares that do not overlap, row by row as one reads.

    Args:
        pictures: Shape (B, C, height, width): C numbers for each pixel, such as 1 for
            grey or 3 for red, green and blue.
        size: Height and width of a patch, in pixels; it divides both of the picture.

    Returns:
        Shape (B, S, C * size * size): the numbers of a patch stand channel by channel,
        and row by row within one.

    Raises:
        ValueError: If ``size`` is not positive, ``pictures`` do not have four axes, or
            ``size`` does not divide their height and width.

    Source: Dosovitskiy et al. (2021), section 3.1.
    """
    require_positive(size=size)
    if pictures.dim() != 4:
        raise ValueError(
            "pictures must have shape (batch, channels, height, width), "
            f"got {tuple(pictures.shape)}"
        )
    height, width = pictures.shape[-2:]
    if height % size or width % size:
        raise ValueError(
            f"size must divide the height and the width, got {size} and "
            f"{height} x {width}"
        )
    x = pictures.unflatten(-1, (-1, size))  # (B, C, height, columns, size)
    x = x.unflatten(-3, (-1, size))  # (B, C, rows, size, columns, size)
    x = x.permute(0, 2, 4, 1, 3, 5)  # (B, rows, columns, C, size, size)
    return x.flatten(3).flatten(1, 2)  # (B, S, C * size * size)


class PatchEmbedding(nn.Module):
    """Make a vector of each patch of a picture, by one projection for all patches.

    Where a patch stands is not in its vector: that is for the positions to add.

    Args:
        size: Height and width of a patch, in pixels.
        channels: Numbers for each pixel.
        d_model: Width of a vector.

    Raises:
        ValueError: If a size is not positive.

    Source: Dosovitskiy et al. (2021), section 3.1, equation 1.
    """

    def __init__(self, size: int, channels: int, d_model: int) -> None:
        super().__init__()
        require_positive(size=size, channels=channels, d_model=d_model)
        self.size = size
        self.channels = channels
        self.projection = nn.Linear(channels * size * size, d_model)

    def forward(self, pictures: Tensor) -> Tensor:
        """Turn pictures into vectors.

        Args:
            pictures: Shape (B, channels, height, width).

        Returns:
            Shape (B, S, d_model), the patches row by row as one reads.

        Raises:
            ValueError: If ``pictures`` do not have as many channels.
        """
        patches = cut_into_patches(pictures, self.size)  # (B, S, C * size * size)
        if pictures.size(1) != self.channels:
            raise ValueError(
                f"pictures must have {self.channels} channels, got {pictures.size(1)}"
            )
        return self.projection(patches)  # (B, S, d_model)
