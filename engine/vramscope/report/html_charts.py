"""Charts of the HTML report as inline SVG: no script, colours of the page, a title under the mouse."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from vramscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.messages.planning import ComponentInfo, HeadroomInfo
    from vramscope.report.entries import LayerTotal, NodeEntry

COLOURS = {
    "weights": "#0072b2",
    "KV cache": "#e69f00",
    "activations": "#009e73",
    "workspace": "#cc79a7",
    "inputs and outputs": "#56b4e9",
}
"""Okabe and Ito's palette, as in the window: distinguishable with every common colour-vision deficiency."""

OTHER = "#8a929c"
WIDTH = 1000
LEFT, RIGHT, TOP, BOTTOM = 84, 16, 14, 30
HEIGHT = 260
MOST_POINTS = 1000
"""Of a line; of more steps the highest in each group is drawn, so that no peak is lost."""

DASHES = ("", "7 4", "2 3", "9 3 2 3", "1 4", "12 4")
"""A pattern a line: colour alone tells nothing apart."""


def colour_of(component: str) -> str:
    """A component's colour."""
    return COLOURS.get(component, OTHER)


def component_bar(components: Sequence[ComponentInfo], available: int | None) -> str:
    """The stacked components, and a line where the card ends."""
    total = sum(item.figure.bytes or 0 for item in components)
    whole = max(available or 0, total, 1)
    parts, start = [f'<rect class="ground" width="{WIDTH}" height="34"/>'], 0.0
    for item in components:
        width = WIDTH * (item.figure.bytes or 0) / whole
        text = f"{item.name}: {_bytes(item.figure.bytes)}"
        parts.append(
            f'<rect x="{start:.2f}" width="{width:.2f}" height="34" fill="{colour_of(item.name)}">'
            f"<title>{escape(text)}</title></rect>"
        )
        start += width
    if available is not None:
        place = min(WIDTH * available / whole, WIDTH - 1.5)
        parts.append(
            f'<path class="limit" d="M{place:.2f} 0V34"><title>available: {_bytes(available)}</title></path>'
        )
    return _svg(parts, 34, "What fills the memory")


def headroom_lines(cells: Sequence[HeadroomInfo], available: int | None) -> str:
    """Totals over contexts, a line a batch; empty where there are fewer than two contexts to join."""
    known = [cell for cell in cells if cell.bytes is not None]
    contexts = sorted({cell.context for cell in known})
    if len(contexts) < 2:
        return ""
    top = max([cell.bytes or 0 for cell in known] + [available or 0]) * 1.05
    scale = _Scale(contexts[0], contexts[-1], top)
    parts = _axes(scale, [f"{context:,}" for context in _ends(contexts)], _ends(contexts))
    for place, batch in enumerate(dict.fromkeys(cell.batch for cell in known)):
        line = [(cell.context, cell.bytes or 0) for cell in known if cell.batch == batch]
        parts.append(_line(scale, line, f"batch {batch}", DASHES[place % len(DASHES)]))
        last = line[-1]
        parts.append(_label(scale.x(last[0]) - 4, scale.y(last[1]) - 5, f"batch {batch:,}", "end"))
    if available is not None:
        level = scale.y(available)
        parts.append(f'<path class="limit" d="M{LEFT} {level:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(_label(LEFT + 6, level - 5, f"available {_bytes(available)}", "start"))
    parts.append(_label(WIDTH / 2, HEIGHT - 4, "context, tokens", "middle"))
    return _svg(parts, HEIGHT, "Total over context, a line a batch")


def arena_steps(rows: Sequence[NodeEntry]) -> str:
    """Arena bytes alive at each step of a phase, the peak marked; empty where they are not known."""
    points = [(row.step, row.live_bytes, row.name) for row in rows if row.live_bytes is not None]
    if len(points) < 2 or len(points) < len(rows):
        return ""
    peak = max(points, key=lambda point: point[1])
    scale = _Scale(points[0][0], points[-1][0], max(peak[1], 1) * 1.15)
    ends = [points[0][0], points[-1][0]]
    parts = _axes(scale, [f"{step:,}" for step in ends], ends)
    shape = " ".join(f"L{scale.x(step):.1f} {scale.y(size):.1f}" for step, size, _ in _thinned(points))
    ground, first, last = HEIGHT - BOTTOM, scale.x(points[0][0]), scale.x(points[-1][0])
    parts.append(f'<path class="area" d="M{first:.1f} {ground}{shape}L{last:.1f} {ground}Z"/>')
    x, y = scale.x(peak[0]), scale.y(peak[1])
    side = "start" if x < WIDTH / 2 else "end"
    parts.append(f'<circle class="peak" cx="{x:.1f}" cy="{y:.1f}" r="4"/>')
    parts.append(_label(x + (8 if side == "start" else -8), y - 6, f"{_bytes(peak[1])} at {peak[2]}", side))
    parts.append(_label(WIDTH / 2, HEIGHT - 4, "step", "middle"))
    return _svg(parts, HEIGHT, "Arena bytes alive over the steps")


def layer_bar(layer: LayerTotal, most: int) -> str:
    """A layer's weights, outputs and scratch as one small bar beside the largest layer's."""
    parts, start = [], 0.0
    sizes = (layer.weight_bytes, layer.output_bytes, layer.workspace_bytes)
    for name, size in zip(("weights", "activations", "workspace"), sizes, strict=True):
        width = 200 * (size or 0) / max(most, 1)
        parts.append(f'<rect x="{start:.2f}" width="{width:.2f}" height="12" fill="{colour_of(name)}"/>')
        start += width
    return f'<svg class="small" viewBox="0 0 200 12" aria-hidden="true">{"".join(parts)}</svg>'


class _Scale:
    """From contexts or steps and bytes to places of the picture."""

    def __init__(self, first: int, last: int, top: float) -> None:
        self.first, self.span, self.top = first, max(last - first, 1), max(top, 1.0)

    def x(self, value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (value - self.first) / self.span

    def y(self, size: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * size / self.top


def _axes(scale: _Scale, texts: Sequence[str], places: Sequence[int]) -> list[str]:
    parts = []
    for part in range(4):
        size = round(scale.top * part / 3)
        level = scale.y(size)
        parts.append(f'<path class="grid" d="M{LEFT} {level:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(_label(LEFT - 8, level + 4, _bytes(size), "end"))
    for place, text in zip(places, texts, strict=True):
        anchor = "start" if place == places[0] else "end" if place == places[-1] else "middle"
        parts.append(_label(scale.x(place), HEIGHT - BOTTOM + 18, text, anchor))
    return parts


def _line(scale: _Scale, points: Sequence[tuple[int, int]], name: str, dash: str) -> str:
    shape = "L".join(f"{scale.x(place):.1f} {scale.y(size):.1f}" for place, size in points)
    pattern = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<path class="line"{pattern} d="M{shape}"><title>{escape(name)}</title></path>'


def _label(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _ends(contexts: Sequence[int]) -> list[int]:
    """The first and the last, and one in the middle where there is room."""
    middle = contexts[len(contexts) // 2]
    wide = (middle - contexts[0]) * 5 > contexts[-1] - contexts[0] < (contexts[-1] - middle) * 5
    return [contexts[0], middle, contexts[-1]] if wide and len(contexts) > 2 else [contexts[0], contexts[-1]]


def _thinned(points: Sequence[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """The highest of each group of steps."""
    size = -(-len(points) // MOST_POINTS)
    return [
        max(points[start : start + size], key=lambda point: point[1]) for start in range(0, len(points), size)
    ]


def _bytes(size: int | None) -> str:
    return "unknown" if size is None else format_bytes(size)


def _svg(parts: Sequence[str], height: int, name: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(name)}">{"".join(parts)}</svg>'
    )
