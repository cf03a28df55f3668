"""What runs say of single nodes: after a capture its path, after profiled steps its time and its launch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vramscope_app.rows.nodes import UNKNOWN, NodeTable, with_paths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.messages.running import ProfileInfo
    from vramscope_app.state import AppState


def node_parts(state: AppState) -> tuple[object, ...]:
    """What the tables of nodes are made of; equal for two states that show the same ones."""
    return (id(state.nodes), id(state.capture), id(state.profile), state.slots.groups)


def measured_columns(state: AppState) -> list[str]:
    """Columns that have something to show after profiled steps."""
    return ["nanoseconds", "launch"] if state.slots.groups else ["nanoseconds"]


def measured_nodes(table: NodeTable, state: AppState) -> NodeTable:
    """The decode phase's table with what a capture and a profile say of its nodes."""
    return with_profile(with_paths(table, state.capture), state.profile, state.slots.groups)


def with_profile(table: NodeTable, profile: ProfileInfo | None, groups: Sequence[Sequence[int]]) -> NodeTable:
    """The table with what was measured: ``nanoseconds`` (−1: none) and the ``launch`` that nodes share."""
    if profile is None and not groups:
        return table
    steps = table.integers("step").tolist()
    times = {} if profile is None else dict(zip(profile.nodes, profile.microseconds, strict=True))
    spent = [round(1000 * times[step]) if step in times else UNKNOWN for step in steps]
    shared = {step: f"{n} · {len(group)}" for n, group in enumerate(groups, 1) for step in reversed(group)}
    launches = [shared.get(step, "") for step in steps]
    numbers = {**table.numbers, "nanoseconds": np.array(spent, np.int64)}
    return NodeTable(table.ticket, table.rows, {**table.texts, "launch": launches}, numbers)
