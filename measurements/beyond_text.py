"""Pictures, clouds, rings and a graph: what an encoder gets right, and simple rules."""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

import networkx
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC
from tables import add, read
from torch import Tensor, nn
from torch.nn import functional as F

from transformer_lib.data.corpora.shapes import random_clouds
from transformer_lib.model import (
    Encoder,
    PositionalEncoding,
    TransformerConfig,
    TransformerParts,
)
from transformer_lib.variants import (
    Classifier,
    GraphAttention,
    PatchEmbedding,
    cut_into_patches,
    edge_mask,
)

TABLE = Path(__file__).with_suffix(".csv")
D_MODEL, HEADS, POINTS, CLOUDS = 32, 4, 32, 1000
DOTS, RINGS = 12, 4000
LEADERS = [0, 33]
SHUFFLED = torch.randperm(16, generator=torch.Generator().manual_seed(3))


def make_encoder(
    d_model: int = D_MODEL, num_heads: int = HEADS, num_layers: int = 2
) -> Encoder:
    sizes = {"d_model": d_model, "num_heads": num_heads, "d_ff": 2 * d_model}
    config = TransformerConfig.base(
        **sizes, num_layers=num_layers, dropout=0.0, norm_first=True
    )
    return TransformerParts(config).make_encoder()


def fit(
    model: nn.Module, x: Tensor, labels: Tensor, epochs: int = 20, batch: int = 64
) -> None:
    """Train with a warm-up."""
    batches = len(x) // batch
    optimiser = torch.optim.AdamW(model.parameters(), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, 3e-3, total_steps=epochs * batches, pct_start=0.15
    )
    for _ in range(epochs):
        for rows in torch.randperm(len(x))[: batches * batch].view(-1, batch):
            loss = F.cross_entropy(model(x[rows]), labels[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()


@torch.no_grad()
def right(model: nn.Module, x: Tensor, labels: Tensor) -> int:
    return (model(x).argmax(-1) == labels).sum().item()


# -- Pictures --------------------------------------------------------------------------


def digits(split: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Split the digits: 1,437 pictures to learn from and 360 to be asked about."""
    data = load_digits()
    pictures = torch.tensor(data.images, dtype=torch.float32)[:, None] / 16
    labels = torch.tensor(data.target)
    parts = train_test_split(
        range(len(labels)), test_size=360, random_state=split, stratify=data.target
    )
    learn, ask = map(torch.tensor, parts)
    return pictures[learn], labels[learn], pictures[ask], labels[ask]


def shuffle(pictures: Tensor) -> Tensor:
    """Lay the patches of every picture out in another order, the same for all."""
    patches = cut_into_patches(pictures, 2)[:, SHUFFLED]
    return F.fold(patches.mT, (8, 8), kernel_size=2, stride=2)


def patch_reader(size: int, positions: bool = True) -> nn.Module:
    embed = nn.Sequential(PatchEmbedding(size, 1, D_MODEL))
    if positions:
        embed.append(PositionalEncoding(D_MODEL, (8 // size) ** 2, "learned"))
    return Classifier(embed, make_encoder(), D_MODEL, 10)


def convolutions() -> nn.Module:
    """Three windows of 3 x 3 pixels; the picture shrinks after the second and third."""
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(2 * 2 * 32, 10)),
    )


def read_digits(
    make: Callable[[], nn.Module], seed: int, shuffled: bool = False
) -> tuple[int, int]:
    x, labels, asked, answers = digits(seed)
    if shuffled:
        x, asked = shuffle(x), shuffle(asked)
    model = make()
    fit(model, x, labels)
    return right(model, asked, answers), len(asked)


def svc(seed: int, shuffled: bool = False) -> tuple[int, int]:
    x, labels, asked, answers = digits(seed)
    if shuffled:
        x, asked = shuffle(x), shuffle(asked)
    model = SVC().fit(x.flatten(1), labels)
    found = torch.tensor(model.predict(asked.flatten(1)))
    return (found == answers).sum().item(), len(asked)


# -- Clouds, and dots on a ring --------------------------------------------------------


def each_alone(inputs: int) -> nn.Sequential:
    """Make a vector of each point; no point hears of another."""
    return nn.Sequential(
        nn.Linear(inputs, D_MODEL), nn.ReLU(), nn.Linear(D_MODEL, D_MODEL)
    )


class Largest(nn.Module):
    """An encoder, and the largest number of each feature in place of the mean."""

    def __init__(self, embed: nn.Module, classes: int) -> None:
        super().__init__()
        self.embed, self.encoder = embed, make_encoder()
        self.output = nn.Linear(D_MODEL, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.output(self.encoder(self.embed(x)).amax(1))


class DeepSet(nn.Module):
    """Each point alone, then the mean or the largest of all, and a network after it."""

    def __init__(self, inputs: int, classes: int, largest: bool) -> None:
        super().__init__()
        self.embed, self.largest = each_alone(inputs), largest
        for _ in range(2):
            self.embed.append(nn.LayerNorm(D_MODEL))
            self.embed.append(nn.Linear(D_MODEL, 2 * D_MODEL))
            self.embed.append(nn.ReLU())
            self.embed.append(nn.Linear(2 * D_MODEL, D_MODEL))
        self.output = nn.Sequential(
            *(nn.Linear(D_MODEL, 2 * D_MODEL), nn.ReLU()),
            *(nn.Linear(2 * D_MODEL, 2 * D_MODEL), nn.ReLU()),
            nn.Linear(2 * D_MODEL, classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        points = self.embed(x)
        return self.output(points.amax(1) if self.largest else points.mean(1))


def set_reader(kind: str, inputs: int, classes: int) -> nn.Module:
    if kind.startswith("deep set"):
        return DeepSet(inputs, classes, largest=kind.endswith("largest"))
    embed = each_alone(inputs)
    if kind.endswith("largest"):
        return Largest(embed, classes)
    if kind.endswith("positions"):
        embed.append(PositionalEncoding(D_MODEL, POINTS, "learned"))
    return Classifier(embed, make_encoder(), D_MODEL, classes)


def read_clouds(kind: str, seed: int) -> tuple[int, int]:
    generator = torch.Generator().manual_seed(26)
    x, labels = random_clouds(CLOUDS, POINTS, generator)
    asked, answers = random_clouds(CLOUDS, POINTS, generator)
    model = set_reader(kind, 3, 5)
    fit(model, x, labels, epochs=30 if kind.startswith("deep set") else 15, batch=32)
    return right(model, asked, answers), len(asked)


def random_rings(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw dots on a ring, each 1 or -1; the first has lost its own, and asks.

    Returns:
        The dots, shape (B, S, 3): two coordinates and 1, -1 or, for the first, 0; and
        for each ring 1 if the dot that lies nearest to the first has a 1, else 0.
    """
    spots = F.normalize(torch.randn(count, DOTS, 2, generator=generator), dim=-1)
    colours = 2.0 * torch.randint(2, (count, DOTS), generator=generator) - 1
    away = torch.cdist(spots[:, :1], spots[:, 1:])[:, 0]  # (B, S - 1)
    nearest = colours.gather(1, 1 + away.argmin(1, keepdim=True))[:, 0]
    colours[:, 0] = 0.0
    return torch.cat([spots, colours[..., None]], dim=-1), (nearest > 0).long()


def read_rings(kind: str, seed: int) -> tuple[int, int]:
    generator = torch.Generator().manual_seed(26)
    x, labels = random_rings(RINGS, generator)
    asked, answers = random_rings(1000, generator)
    if kind == "SVC":
        found = torch.tensor(SVC().fit(x.flatten(1), labels).predict(asked.flatten(1)))
        return (found == answers).sum().item(), len(asked)
    model = set_reader(kind, 3, 2)
    fit(model, x, labels, epochs=12)
    return right(model, asked, answers), len(asked)


# -- A graph ---------------------------------------------------------------------------


class Club(nn.Module):
    """A learned vector for each member, and something that lets them gather."""

    def __init__(self, gather: nn.Module, d_model: int = 16) -> None:
        super().__init__()
        self.members = nn.Parameter(torch.randn(1, 34, d_model))
        self.gather = gather
        self.output = nn.Linear(d_model, 2)

    def forward(self, mask: Tensor | None) -> Tensor:
        return self.output(self.gather(self.members, mask))[0]


class WithResidual(GraphAttention):
    """The same layers, and beside each its input is handed on."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        for number, layer in enumerate(self.layers):
            x = x if number == 0 else F.elu(x)
            x = x + layer(x, x, x, mask)
        return x


def share_of_own(model: Club, mask: Tensor | None) -> float:
    """How much of the answer for a member is due to its own vector, on the average.

    Of the lengths of the gradients of the scores' difference, in all members' vectors.
    """
    shares = []
    for member, (first, second) in enumerate(model(mask)):
        (g,) = torch.autograd.grad(second - first, model.members, retain_graph=True)
        lengths = g[0].norm(dim=-1)
        shares.append((lengths[member] / lengths.sum()).item())
    return sum(shares) / len(shares)


def read_club(
    kind: Callable[[int, int, int], nn.Module],
    layers: int,
    seed: int,
    masked: bool = True,
) -> tuple[int, int, str]:
    graph = networkx.karate_club_graph()
    sides = torch.tensor([int(graph.nodes[i]["club"] != "Mr. Hi") for i in graph])
    mask = edge_mask(graph.edges, 34) if masked else None
    model = Club(kind(16, 2, layers))
    optimiser = torch.optim.AdamW(model.parameters(), 1e-2, weight_decay=0.01)
    for _ in range(100):
        loss = F.cross_entropy(model(mask)[LEADERS], sides[LEADERS])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    found = model(mask).argmax(-1) == sides
    own = f"{share_of_own(model, mask):.3f}"
    return found.sum().item() - found[LEADERS].sum().item(), 32, own


def shortest_paths(seed: int) -> tuple[int, int]:
    """Choose the nearer leader; who is as near to both goes with the teacher."""
    graph = networkx.karate_club_graph()
    sides = [int(graph.nodes[i]["club"] != "Mr. Hi") for i in graph]
    first, second = (
        networkx.single_source_shortest_path_length(graph, i) for i in LEADERS
    )
    others = [i for i in graph if i not in LEADERS]
    return sum(int(second[i] < first[i]) == sides[i] for i in others), 32


RUNS: dict[tuple[str, str], tuple[Callable, int]] = {
    ("digits", "SVC"): (svc, 5),
    ("digits", "convolutions"): (partial(read_digits, convolutions), 5),
    ("digits", "patches of 2"): (partial(read_digits, partial(patch_reader, 2)), 5),
    ("digits", "patches of 2, no positions"): (
        partial(read_digits, partial(patch_reader, 2, positions=False)),
        5,
    ),
    ("digits", "patches of 4"): (partial(read_digits, partial(patch_reader, 4)), 5),
    ("shuffled", "SVC"): (partial(svc, shuffled=True), 5),
    ("shuffled", "convolutions"): (
        partial(read_digits, convolutions, shuffled=True),
        5,
    ),
    ("shuffled", "patches of 2"): (
        partial(read_digits, partial(patch_reader, 2), shuffled=True),
        5,
    ),
    **{
        ("clouds", kind): (partial(read_clouds, kind), 5)
        for kind in (
            "attention",
            "attention, largest",
            "attention and positions",
            "deep set, mean",
            "deep set, largest",
        )
    },
    ("rings", "SVC"): (partial(read_rings, "SVC"), 1),
    **{
        ("rings", kind): (partial(read_rings, kind), 5)
        for kind in ("attention", "deep set, mean", "deep set, largest")
    },
    ("club", "shortest paths"): (shortest_paths, 1),
    **{
        ("club", f"{name}, {layers} layers"): (partial(read_club, kind, layers), 20)
        for name, kind in (
            ("edges", GraphAttention),
            ("edges and residuals", WithResidual),
            ("edges, whole encoder", make_encoder),
        )
        for layers in (2, 3)
    },
    ("club", "no mask, 3 layers"): (
        partial(read_club, GraphAttention, 3, masked=False),
        10,
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20, help="at most so many of each")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    done = {(row["task"], row["model"], int(row["seed"])) for row in read(TABLE)}
    for (task, model), (run, seeds) in RUNS.items():
        for seed in range(min(seeds, arguments.seeds)):
            if (task, model, seed) not in done:
                torch.manual_seed(seed)
                found, asked, *own = run(seed=seed)
                row = {"task": task, "model": model, "seed": seed, "right": found}
                add(TABLE, [{**row, "of": asked, "own": "".join(own)}])


if __name__ == "__main__":
    main()
