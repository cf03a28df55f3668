"""Places a neighbourhood in layers from left to right: a node after all it reads, few wires crossing."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vramscope.messages.neighbours import LinkInfo, NeighbourInfo, NeighboursInfo

WIDTH, HEIGHT = 168.0, 40.0
"""Of a box."""
GAP, STRIDE = 14.0, 56.0
"""Between boxes of a layer, and between layers."""
SWEEPS = 8


@dataclass(frozen=True, slots=True)
class Box:
    """A node in its place: the middle of its box."""

    node: NeighbourInfo
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Wire:
    """A value's way from box to box, through the gaps of the layers between them."""

    link: LinkInfo
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """Boxes and wires of a neighbourhood."""

    boxes: tuple[Box, ...] = ()
    wires: tuple[Wire, ...] = ()

    def box(self, step: int) -> Box | None:
        """The box of a step."""
        return next((box for box in self.boxes if box.node.step == step), None)

    def beside(self, step: int, along: int, across: int) -> int:
        """The step of the nearest box in a direction; the same step where there is none.

        Args:
            step: where to start.
            along: 1 to the right (who reads it), −1 to the left.
            across: where ``along`` is 0: 1 for the next box below, −1 above.
        """
        here = self.box(step)
        if here is None:
            return step
        found = [box for box in self.boxes if _lies(box, here, along, across)]
        if not found:
            return step
        return min(found, key=lambda box: (abs(box.x - here.x), abs(box.y - here.y))).node.step


def _lies(box: Box, here: Box, along: int, across: int) -> bool:
    return (box.x - here.x) * along > 0 if along else box.x == here.x and (box.y - here.y) * across > 0


def arrange(info: NeighboursInfo) -> Picture:
    """The picture of a neighbourhood."""
    if not info.nodes:
        return Picture()
    pairs = list(dict.fromkeys((link.source, link.target) for link in info.links))
    ranks = _ranks([node.step for node in info.nodes], pairs)
    layers, chains = _layers(ranks, pairs)
    _sweep(layers, chains)
    places = _places(layers)
    boxes = tuple(Box(node, *places[node.step, 0]) for node in info.nodes)
    wires = tuple(Wire(link, _way(chains[link.source, link.target], places)) for link in info.links)
    return Picture(boxes, wires)


_Slot = tuple[int, int]
"""A box is (step, 0); where a wire passes a layer it is (−number of the pair − 1, layer)."""


def _ranks(steps: Sequence[int], pairs: Sequence[tuple[int, int]]) -> dict[int, int]:
    """The layer of each step: one more than the lowest it reads. Steps are in the order in which they run."""
    ranks = dict.fromkeys(steps, 0)
    for source, target in sorted(pairs, key=lambda pair: pair[1]):
        ranks[target] = max(ranks[target], ranks[source] + 1)
    first: dict[int, int] = {}
    for source, target in pairs:
        first[source] = min(first.get(source, ranks[target]), ranks[target])
    reading = {target for _, target in pairs}
    return {step: ranks[step] if step in reading else first.get(step, 1) - 1 for step in steps}


def _layers(
    ranks: Mapping[int, int], pairs: Sequence[tuple[int, int]]
) -> tuple[list[list[_Slot]], dict[tuple[int, int], list[_Slot]]]:
    layers: list[list[_Slot]] = [[] for _ in range(max(ranks.values()) + 1)]
    for step, rank in ranks.items():
        layers[rank].append((step, 0))
    chains = {}
    for number, (source, target) in enumerate(pairs):
        between = [(-number - 1, layer) for layer in range(ranks[source] + 1, ranks[target])]
        for slot in between:
            layers[slot[1]].append(slot)
        chains[source, target] = [(source, 0), *between, (target, 0)]
    return layers, chains


def _sweep(layers: list[list[_Slot]], chains: Mapping[tuple[int, int], Sequence[_Slot]]) -> None:
    """Orders every layer by the middle of what it is joined to, there and back in turn."""
    above: dict[_Slot, list[_Slot]] = {}
    below: dict[_Slot, list[_Slot]] = {}
    for chain in chains.values():
        for upper, lower in pairwise(chain):
            above.setdefault(lower, []).append(upper)
            below.setdefault(upper, []).append(lower)
    for sweep in range(SWEEPS):
        joined = below if sweep % 2 else above
        for layer in reversed(layers) if sweep % 2 else layers:
            at = {slot: place for other in layers for place, slot in enumerate(other)}
            middle = {slot: _middle([at[other] for other in joined.get(slot, [slot])]) for slot in layer}
            layer.sort(key=lambda slot: (middle[slot], at[slot]))


def _middle(places: Sequence[int]) -> float:
    return sum(places) / len(places)


def _places(layers: Sequence[Sequence[_Slot]]) -> dict[_Slot, tuple[float, float]]:
    places = {}
    for rank, layer in enumerate(layers):
        heights = [HEIGHT if slot[0] >= 0 else 0.0 for slot in layer]
        y = -(sum(heights) + GAP * (len(layer) - 1)) / 2
        for slot, height in zip(layer, heights, strict=True):
            places[slot] = (rank * (WIDTH + STRIDE), y + height / 2)
            y += height + GAP
    return places


def _way(
    chain: Sequence[_Slot], places: Mapping[_Slot, tuple[float, float]]
) -> tuple[tuple[float, float], ...]:
    """From the right edge of a box to the left edge of another, straight through the layers between."""
    first, *between, last = (places[slot] for slot in chain)
    through = ((x + side, y) for x, y in between for side in (-WIDTH / 2, WIDTH / 2))
    return ((first[0] + WIDTH / 2, first[1]), *through, (last[0] - WIDTH / 2, last[1]))
