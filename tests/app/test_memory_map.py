"""The memory map: blocks joined with nodes, found by place, clicked, drawn quickly."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PySide6.QtCore import QPointF

from vramscope.messages.columns import TableChunk, integer_column, text_column
from vramscope_app.panels.arena import ArenaPanel
from vramscope_app.rows.arena import COLOURS, Arena, arena_of, colour_of
from vramscope_app.rows.nodes import NodeTable, join_chunks

if TYPE_CHECKING:
    from types import ModuleType

    from PySide6.QtWidgets import QApplication
    from tests.app.conftest import Script

    from vramscope_app.look import Look

BLOCKS = (("embedded", 0, 4096, 0, 1), ("attended", 4096, 1024, 1, 3), ("mixed", 0, 2048, 2, 5))
COLUMNS = ("offset", "size", "first", "last")
MANY = 20_000


def blocks_chunk(phase: str, ticket: int = 1) -> TableChunk:
    numbers = np.array([block[1:] for block in BLOCKS], np.int64)
    columns = [
        text_column("value", [name for name, *_ in BLOCKS]),
        *(integer_column(name, numbers[:, place].tolist()) for place, name in enumerate(COLUMNS)),
    ]
    return TableChunk(
        table=f"arena:{phase}", ticket=ticket, start=0, rows=len(BLOCKS), columns=columns, last=True
    )


@pytest.fixture
def arena(messages: ModuleType) -> Arena:
    return arena_of(join_chunks([blocks_chunk("decode")]), join_chunks([messages.chunk("decode")]))


def test_blocks_know_their_nodes_and_the_arena_its_peak(arena: Arena) -> None:
    assert list(arena.nodes) == [
        "/model/embed/Gather",
        "/model/layers.0/attn/MatMul",
        "/model/layers.0/attn/GQA",
    ]
    assert (arena.steps, arena.bytes, arena.peak_step) == (6, 5120, 3)
    assert arena.text(1) == "attended of /model/layers.0/attn/MatMul · 1,024 bytes · steps 1 to 3"
    assert arena.summary.startswith("3 blocks in 5.00 KiB, peak 64.0 MiB at step 3")


@pytest.mark.parametrize(
    ("step", "offset", "block"),
    [(0.5, 10, 0), (1.9, 4095, 0), (1.5, 4096, 1), (2.0, 10, 2), (2.5, 3000, -1), (5.9, 0, 2), (6.0, 0, -1)],
)
def test_a_place_finds_the_block_that_lies_there(
    arena: Arena, step: float, offset: float, block: int
) -> None:
    assert arena.at(step, offset) == block


def test_every_block_is_drawn_once_in_the_colour_of_its_scope(arena: Arena) -> None:
    drawn = np.vstack([arena.rectangles(colour) for colour in range(len(COLOURS))])
    assert sorted(map(tuple, drawn.tolist())) == [(0, 0, 2, 4096), (1, 4096, 3, 1024), (2, 0, 4, 2048)]
    assert arena.colours[1] == arena.colours[2] == colour_of("model/layers.0/attn/deeper/still")


def test_a_click_on_a_block_chooses_its_node(script: Script) -> None:
    script.open()
    script.plan()
    for phase in ("prefill", "decode"):
        script.client.table.emit(blocks_chunk(phase))
    window = script.window
    assert window.arena.arena is not None
    assert window.arena.phase.count() == 2
    window.arena.choose_at(QPointF(2.5, 100))
    assert window.nodes.table_name(window.nodes.view.currentIndex()) == "/model/layers.0/attn/GQA"
    window.arena.choose_at(QPointF(2.5, 3000))
    assert window.nodes.table_name(window.nodes.view.currentIndex()) == "/model/layers.0/attn/GQA"
    script.client.table.emit(blocks_chunk("prefill", ticket=9))
    assert len(script.controller.state.arenas) == 2


def test_twenty_thousand_blocks_are_drawn_within_a_frame(qapp: QApplication, light: Look) -> None:
    steps = np.arange(MANY, dtype=np.int64)
    numbers = {
        "offset": (steps * 7919) % 1024 * 65536,
        "size": np.full(MANY, 65536, np.int64),
        "first": steps,
        "last": steps + 1 + steps % 50,
    }
    names = [f"value {step}" for step in range(MANY)]
    scopes = [f"model/layers.{step // 250}/mlp" for step in range(MANY)]
    nodes = NodeTable(1, MANY, {"name": names, "scope": scopes}, {"step": steps, "live_bytes": steps})
    panel = ArenaPanel(light)
    panel.resize(1200, 500)
    started = time.perf_counter()
    panel.set_tables({"run": NodeTable(1, MANY, {"value": names}, numbers)}, {"run": nodes})
    panel.show()
    panel.grab()
    opened = time.perf_counter() - started
    box, frames = panel.plot.getViewBox(), []
    for place in range(60):
        started = time.perf_counter()
        box.setXRange(place * 20, place * 20 + (MANY if place % 2 else 4000), padding=0)
        panel.plot.viewport().repaint()
        qapp.processEvents()
        frames.append(time.perf_counter() - started)
    frames.sort()
    print(
        f"\n20,000 blocks: shown after {opened * 1e3:.0f} ms; panning and zooming "
        f"p50 {frames[30] * 1e3:.1f} ms, p95 {frames[57] * 1e3:.1f} ms"
    )
    panel.close()
    panel.deleteLater()
    assert frames[30] < 0.1
