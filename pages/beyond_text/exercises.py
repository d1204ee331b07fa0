"""The exercises of the chapter on pictures, clouds and graphs."""

import torch
from torch import nn

from bookkit.exercises import Build, Idea, Predict, numbers

# -- Smaller patches -------------------------------------------------------------------


def pairs(side, size):
    return (side // size) ** 4


SMALLER = Predict(
    name="beyond-text-1",
    title="smaller patches",
    task="""A model reads photographs of 224 x 224 pixels in patches of 16 x 16. To see
finer detail, you cut them into patches of 8 x 8. How many times as many (query, key)
pairs does each head compare?""",
    right=16,
    replies={
        16: "Four times as many tokens, and the pairs grow with their square.",
        4: "This is the factor for the tokens. And for pairs of tokens?",
        2: "This is the factor for one side of the picture.",
        8: "How many small patches replace a large one, and how many pairs replace a "
        "pair?",
        784: "This is the number of tokens.",
    },
    otherwise="How many small patches replace a large one?",
    hints=("Four small patches replace a large one.",),
    answer="""Each patch becomes four, so there are 784 tokens in place of 196. The
number of pairs grows with the square, by a factor of 16, from 38,416 to 614,656.""",
    computed=lambda: pairs(224, 8) / pairs(224, 16),
)

# -- Patches back to a picture ---------------------------------------------------------


def case(rows, columns, size=2, channels=1, pictures=1):
    shape = pictures, rows * columns, channels * size * size
    patches = torch.arange(float(torch.Size(shape).numel()), dtype=torch.float64)
    return {"patches": patches.view(shape), "size": size, "columns": columns}


PASTE = Build(
    name="beyond-text-2",
    title="patches back to a picture",
    task="""Write `paste(patches, size, columns)`, the inverse of `cut_into_patches`.
The patches, (B, S, K), come row by row, `columns` in each row. Each has
K = channels · size · size numbers: its rows of pixels, channel after channel.
Return the pictures, (B, C, Y, X).""",
    call="paste(patches, size, columns)",
    returns={"pictures": "B C Y X"},
    example={"patches": numbers(5, 14, 12), "size": 2, "columns": 7},
    ideas=[
        Idea(
            "patch",
            "A single patch is its own picture.",
            "Which axis do the numbers of a patch fill first?",
            [case(1, 1), case(1, 1, size=3)],
        ),
        Idea(
            "beside",
            "Two patches in one row stand side by side.",
            "Which numbers are in the first row of pixels of a picture of two patches?",
            [case(1, 2), case(1, 3)],
        ),
        Idea(
            "grid",
            "The patches fill row after row of the picture.",
            "In a picture with three patches in each row, where is the fourth?",
            [case(2, 1), case(2, 3), case(3, 2)],
        ),
        Idea(
            "channels",
            "Each channel of a patch goes to the same place in its own channel.",
            "Which four numbers of a patch of 12 are its second channel?",
            [case(1, 1, channels=3)],
        ),
        Idea(
            "pictures",
            "Each picture is made of its own patches.",
            "The first axis stays as it is.",
            [case(1, 1, pictures=2), case(2, 1, pictures=2)],
        ),
    ],
    hints=(
        "Read the listing of `cut_into_patches` from the bottom up.",
        "Split the patches into rows and columns, and each patch into channels and its "
        "own rows and columns. Then reorder the six axes.",
        "`unflatten`, then `permute` to (B, C, rows, size, columns, size), then "
        "`flatten` twice.",
    ),
    answer="""The order of the axes after `permute` is the order in which pixels lie in
memory: a row of patches, a row of pixels in it, a patch, a pixel. A diffusion
Transformer ends with this step. For whole pictures, `torch.nn.functional.fold` also
does it.""",
)


@PASTE.right
def paste(patches, size, columns):
    x = patches.unflatten(-1, (-1, size, size))  # (B, S, C, size, size)
    x = x.unflatten(1, (-1, columns))  # (B, rows, columns, C, size, size)
    x = x.permute(0, 3, 1, 4, 2, 5)  # (B, C, rows, size, columns, size)
    return x.flatten(4, 5).flatten(2, 3)


@PASTE.right
def by_fold(patches, size, columns):
    height = patches.shape[1] // columns * size
    return nn.functional.fold(
        patches.mT, (height, columns * size), kernel_size=size, stride=size
    )


@PASTE.right
def by_rows(patches, size, columns):
    tiles = patches.unflatten(-1, (-1, size, size))
    rows = [torch.cat(row.unbind(1), dim=-1) for row in tiles.split(columns, dim=1)]
    return torch.cat(rows, dim=-2)


@PASTE.right
def by_writing(patches, size, columns):
    tiles = patches.unflatten(-1, (-1, size, size))
    height = patches.shape[1] // columns * size
    result = patches.new_zeros(len(patches), tiles.shape[2], height, columns * size)
    for index in range(patches.shape[1]):
        top, left = (size * place for place in divmod(index, columns))
        result[..., top : top + size, left : left + size] = tiles[:, index]
    return result


EXERCISES = [SMALLER, PASTE]
