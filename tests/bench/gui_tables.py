"""Large made-up tables and streams for the window's bench: nodes, arena blocks, events, snapshots."""

from __future__ import annotations

import numpy as np

from vramscope.messages.live import EMPTY_SNAPSHOT, CounterInfo, EventInfo, Events, SnapshotInfo, TokenInfo
from vramscope_app.rows.nodes import NodeTable

MIB = 2**20
LAYERS = 500
KINDS = ("allocate", "release", "transfer", "replay", "phase", "note")


def node_table(rows: int) -> NodeTable:
    """Nodes of a decoder with :data:`LAYERS` layers, as the engine would describe them."""
    steps = np.arange(rows, dtype=np.int64)
    layers = steps * LAYERS // rows
    operators = ("MatMul", "Add", "GroupQueryAttention", "SimplifiedLayerNormalization", "Mul")
    numbers = {
        "step": steps,
        "weight_bytes": (steps * 7919) % 97 * MIB,
        "output_bytes": (steps * 104_729) % 1013 * 4096,
        "workspace_bytes": (steps * 31) % 11 * 65_536,
        "live_bytes": (steps * 17) % 4093 * 4096,
        "peak_bytes": np.where(steps % 1000, 0, 4096 * (steps // 1000)),
    }
    texts = {
        "name": [f"/model/layers.{layer}/node.{step}" for step, layer in enumerate(layers.tolist())],
        "operator": [operators[step % len(operators)] for step in range(rows)],
        "domain": [""] * rows,
        "scope": [f"model/layers.{layer}" for layer in layers.tolist()],
        "kernel": ["host"] * rows,
        "input_shapes": ["1×64×4096"] * rows,
        "output_shapes": ["1×≤64×4096"] * rows,
        "certainty": ["exact" if step % 3 else "bound" for step in range(rows)],
    }
    return NodeTable(1, rows, texts, numbers)


def arena_table(blocks: int) -> NodeTable:
    """Blocks of an arena that live for a few steps each, spread over it."""
    made = np.arange(blocks, dtype=np.int64)
    numbers = {
        "first": made,
        "last": made + 1 + (made * 7) % 23,
        "size": (1 + (made * 104_729) % 61) * 4096,
        "offset": (made * 7919) % 4093 * 16_384,
    }
    return NodeTable(1, blocks, {"value": [f"value {place}" for place in range(blocks)]}, numbers)


def events(first: int, count: int) -> Events:
    """A batch of events; one in 5,000 ends a graph."""
    made = [
        EventInfo(
            sequence=place,
            seconds=place / 50_000,
            kind="invalidate" if place % 5000 == 4999 else KINDS[place % len(KINDS)],
            step=place // 8,
            subject=f"buffer {place % 512}",
            text=f"{place % 97} KiB for layer {place % 32}",
            bytes=place % 97 * 1024,
            component="workspace",
        )
        for place in range(first, first + count)
    ]
    return Events(events=made, dropped=0)


def token(step: int) -> TokenInfo:
    """A token; the first is a prefill's, and every 50,000 steps some are eager."""
    return TokenInfo(
        step=step,
        tokens=[step % 512],
        text=" a" if step % 40 else "\n",
        replayed=step % 50_000 > 20,
        milliseconds=0.1 + step % 13 / 100,
    )


def snapshot(sequence: int, seconds: float, step: int) -> SnapshotInfo:
    """The ledger after a step."""
    counter = CounterInfo(
        component="workspace",
        current_bytes=MIB + step % 7 * 4096,
        peak_bytes=2 * MIB,
        total_bytes=step * 4096,
        current_count=9,
        peak_count=11,
        total_count=40 + step // 1000,
    )
    return type(EMPTY_SNAPSHOT)(
        sequence=sequence,
        seconds=seconds,
        state="ready",
        position=step % 4096,
        capacity=4096,
        steps_eager=20,
        steps_replayed=step,
        allocations_last_step=0,
        allocated_bytes=counter.current_bytes,
        peak_bytes=2 * MIB,
        budget=4 * MIB,
        counters=[counter],
        kernel_temporaries=EMPTY_SNAPSHOT.kernel_temporaries,
        uploads=step,
        upload_bytes=step * 8,
        downloads=step,
        download_bytes=step * 8,
        slots=[],
        measured=[],
    )
