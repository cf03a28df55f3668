"""What curves and details of a report can be like: a report is a file that anybody may have written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from vramscope.report.details import MOST_NODES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vramscope.messages.headroom import HeadroomCurves
    from vramscope.report.details import NodeItem, PhaseDetail
    from vramscope.report.document import PlanDocument

LARGEST_NUMBER = 2**63 - 1
LONGEST_TEXT = 2**16
"""Characters: a longer name or sentence would stall whoever shows it."""
MOST_POINTS, MOST_LINES = 200, 64
"""Contexts of a chart, and components, batches or cards."""
MOST_VALUES = 16 * MOST_NODES
MOST_PLACES = 4096
"""Values, attributes or regions of one node, and bounds of one value."""


def possible(cell: int | str | None) -> bool:
    """Bytes, or unknown."""
    return cell is None or (isinstance(cell, int) and 0 <= cell <= LARGEST_NUMBER)


def wrong_text(part: object) -> str:
    """Whether a text anywhere below is too long."""
    if isinstance(part, str):
        return f"a text of {len(part):,} characters" if len(part) > LONGEST_TEXT else ""
    below = (
        [*part.keys(), *part.values()] if isinstance(part, dict) else part if isinstance(part, list) else []
    )
    return next(filter(None, map(wrong_text, below)), "")


def _numbers(found: Iterable[int], least: int = -1) -> bool:
    return all(least <= number <= LARGEST_NUMBER for number in found)


def wrong_curves(curves: HeadroomCurves | None) -> str:
    """What no chart can be like; empty when all is well."""
    if curves is None:
        return ""
    points, limits = len(curves.contexts), len(curves.limits)
    if not 1 <= points <= MOST_POINTS or sorted(set(curves.contexts)) != curves.contexts:
        return "the contexts of its chart cannot be"
    if max(len(curves.components), len(curves.lines), limits) > MOST_LINES or not curves.lines:
        return "its chart has no lines, or too many"
    rows = [item.bytes for item in curves.components] + [line.totals for line in curves.lines]
    edges = [line.largest_contexts for line in curves.lines]
    if any(len(row) != points for row in rows) or any(len(edge) != limits for edge in edges):
        return "a line of its chart has not as many points as it has contexts"
    known = (number for edge in edges for number in edge if number is not None)
    sizes = (number for row in rows for number in row)
    whole = _numbers(curves.contexts, 1) and _numbers(sizes) and _numbers(known, 0)
    whole &= _numbers((limit.available for limit in curves.limits), 1)
    return (
        ""
        if whole and _numbers((line.batch for line in curves.lines), 1)
        else "a number of its chart cannot be"
    )


def wrong_details(found: PlanDocument) -> str:
    """Whether nodes and values refer to each other as they can; empty when all is well."""
    if not set(found.details) <= set(found.nodes):
        return "its details are of other phases"
    if sum(len(detail.nodes) for detail in found.details.values()) > MOST_NODES:
        return f"details of more than {MOST_NODES:,} nodes"
    wrong = (_wrong_detail(phase, detail) for phase, detail in found.details.items())
    return next(filter(None, wrong), "")


def _wrong_detail(phase: str, detail: PhaseDetail) -> str:
    if len(detail.values) > MOST_VALUES or any(len(item.bounds) > MOST_PLACES for item in detail.values):
        return f"{phase} has more values or bounds than can be"
    if len({node.step for node in detail.nodes}) != len(detail.nodes):
        return f"a step of {phase} comes twice"
    if not _numbers(item.bytes for item in detail.values):
        return f"a value of {phase} has a size that cannot be"
    if not all(_possible_node(node, len(detail.values)) for node in detail.nodes):
        return f"a node of {phase} refers to what is not there"
    return wrong_text(msgspec.to_builtins(detail))


def _possible_node(node: NodeItem, values: int) -> bool:
    places = (*node.inputs, *node.outputs, *node.captures)
    regions = [number for item in node.regions for number in (item.offset, item.size)]
    few = max(len(places), len(node.attributes), len(node.regions)) <= MOST_PLACES
    placed = all(0 <= place < values for place in places)
    return few and placed and _numbers((*regions, node.step, node.opset, node.alignment), 0)
