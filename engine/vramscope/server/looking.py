"""The requests that look at what is shown, a plan or a report: ``node``, ``neighbours``, ``headroom``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vramscope.messages.headroom import HeadroomCurves, HeadroomParams
    from vramscope.messages.neighbours import NeighboursInfo, NeighboursParams
    from vramscope.messages.node import NodeInfo, NodeParams
    from vramscope.report.document import Extras
    from vramscope.server.engine import Engine
    from vramscope.server.listener import Listener


def node(engine: Engine, params: NodeParams, _listener: Listener) -> NodeInfo:
    """One node in full."""
    from vramscope.server.node_detail import node_detail, reported_node

    if engine.shelf.report is not None:
        return reported_node(engine.shelf.report, engine.ticket, params)
    return node_detail(engine.plan_made, engine.model, engine.ticket, params)


def neighbours(engine: Engine, params: NeighboursParams, _listener: Listener) -> NeighboursInfo:
    """The nodes around one."""
    from vramscope.server import neighbours as around

    if engine.shelf.report is not None:
        return around.reported_neighbours(engine.shelf.report, engine.ticket, params)
    return around.neighbours(engine.plan_made, engine.model, engine.ticket, params)


def headroom(engine: Engine, params: HeadroomParams, listener: Listener) -> HeadroomCurves:
    """Plans the open decoder over contexts and batches."""
    from vramscope.server.headroom import headroom_curves

    return headroom_curves(engine.planner, params, listener)


def extras(engine: Engine, *, headroom: bool, whole: bool) -> Extras:
    """What a report of the newest plan holds beside it: a grid of totals, or all that a window shows."""
    from vramscope.report.arena import arena_blocks
    from vramscope.report.details import phase_details
    from vramscope.report.document import Extras
    from vramscope.server.headroom import headroom_grid, usual_curves

    plan, model = engine.plan_made, engine.model
    grid = headroom_grid(engine.planner, plan) if headroom or whole else []
    if not whole:
        return Extras(grid)
    return Extras(
        grid, usual_curves(engine.planner, plan), arena_blocks(plan, model), phase_details(plan, model)
    )
