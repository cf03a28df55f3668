"""Workspace slots while shapes move: unprepared, prepared, refused, held by a capture (P-12, P-13)."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import pytest
from small_models import array_of, opened, session_of

from vramscope.devices.host import HostDevice
from vramscope.errors import (
    AllocationFailedError,
    BindingError,
    OutOfBudgetError,
    VramscopeError,
    WorkspaceNotPreparedError,
)
from vramscope.ops import table
from vramscope.ops.spec import Lifetime, OpSpec, WorkspaceQuery, WorkspaceRequirement
from vramscope.plan.types import ComponentName
from vramscope.run.bodies import BodyRunner

if TYPE_CHECKING:
    from vramscope.devices.base import Buffer
    from vramscope.devices.ledger import Site
    from vramscope.graph.model import Step
    from vramscope.ops.call import Call, Tensor
    from vramscope.plan.arena import ArenaPlan
    from vramscope.run.memory import SessionMemory
    from vramscope.run.session import ProgramSession

ROW_BYTES = 1024
GRAPH = "g (float[N,2] x) => (float[N,2] y) { y = Relu(x) }"
KEPT = Lifetime.SESSION_PERSISTENT


def rows_scratch(query: WorkspaceQuery) -> WorkspaceRequirement:
    """1,024 bytes a row, aligned to 512 from four rows on."""
    rows = query.input(0).shape[0]
    return WorkspaceRequirement(ROW_BYTES * rows, 512 if rows >= 4 else 256, KEPT, "rows")


def relu(call: Call) -> None:
    """Writes all of its scratch, so that a slot that is too small fails."""
    x = call.array(0)
    call.scratch((ROW_BYTES * x.shape[0],), np.uint8)[:] = 7
    np.maximum(x, 0, out=call.output(0, x.shape))


def step_scratch(query: WorkspaceQuery) -> WorkspaceRequirement:
    """256 bytes a row for one step."""
    return WorkspaceRequirement(256 * query.input(0).shape[0], 256, Lifetime.STEP_SCOPED, "rows of a step")


@pytest.fixture(autouse=True)
def scratching(monkeypatch: pytest.MonkeyPatch) -> None:
    """Relu needs scratch here that stays, Neg some for a step."""
    neg = table.TABLE["", "Neg"]
    rows = {
        ("", "Relu"): OpSpec("", "Relu", relu, rows_scratch),
        ("", "Neg"): OpSpec("", "Neg", neg.kernel, step_scratch),
    }
    monkeypatch.setattr(table, "TABLE", MappingProxyType({**table.TABLE, **rows}))


class Tight(HostDevice):
    """Refuses workspace of one size, once for each time it is told."""

    refusals = 0
    size = 4 * ROW_BYTES

    def allocate(self, site: Site, size: int) -> Buffer:
        if site.component == "workspace" and size == self.size and self.refusals:
            self.refusals -= 1
            raise OutOfBudgetError(f"{size:,} bytes for {site}", "the device is full for now", requested=size)
        return super().allocate(site, size)


def run(session: ProgramSession, rows: int) -> None:
    x = np.arange(2 * rows, dtype=np.float32).reshape(rows, 2) - 3
    assert np.array_equal(array_of(session.run({"x": x}), "y"), np.maximum(x, 0))


def slot(session: ProgramSession) -> tuple[int, int]:
    """Bytes and alignment of the persistent slot."""
    memory = session.runner.memory
    assert memory.workspace[KEPT].address % memory.alignments[KEPT] == 0
    return memory.workspace[KEPT].size, memory.alignments[KEPT]


BRANCHES = """g (bool c, float[4,2] x) => (float[4,2] y) { z = Abs(x) y = If(c) <
    then_branch = t () => (float[4,2] p) { p = Relu(z) },
    else_branch = e () => (float[4,2] q) { q = Relu(z) }> }"""


@pytest.mark.parametrize("flag", [True, False])
def test_p10_a_branch_runs_in_the_slot_that_was_planned_for_the_larger_of_both(flag: bool) -> None:
    session = session_of(opened(BRANCHES))
    assert slot(session) == (4096, 512)
    held = session.runner.memory.workspace[KEPT]
    held.bytes[:] = 0
    x = np.array([[1, -2], [3, -4], [-5, 6], [-7, 8]], np.float32)
    assert array_of(session.run({"c": np.array(flag), "x": x}), "y").tolist() == np.abs(x).tolist()
    assert session.runner.memory.workspace[KEPT] is held
    assert set(held.bytes.tolist()) == {7}, "the branch's kernel wrote all of it"


def test_what_a_branch_inherits_must_be_large_and_aligned_enough() -> None:
    session = session_of(opened(BRANCHES))
    memory, feeds = session.runner.memory, {"c": np.array(True), "x": np.ones((4, 2), np.float32)}
    memory.alignments[KEPT] = 256
    with pytest.raises(WorkspaceNotPreparedError) as weak:
        BodyRunner(*_branch(session)).run("then_branch", [])
    assert (weak.value.required_alignment, weak.value.prepared_alignment) == (512, 256)
    assert weak.value.node == "Relu_0"
    memory.alignments[KEPT] = 512
    memory.give(memory.workspace.pop(KEPT))
    memory.workspace[KEPT] = memory.take(ComponentName.WORKSPACE, KEPT.value, 4095)
    with pytest.raises(VramscopeError, match="needs 4,096 bytes and 4,095 are prepared"):
        BodyRunner(*_branch(session)).run("then_branch", [])
    assert array_of(session.run(feeds), "y").tolist() == [[1, 1]] * 4, "a run replaces the slot"


def _branch(session: ProgramSession) -> tuple[Step, dict[int, Tensor], SessionMemory, ArenaPlan]:
    """What the If's bodies run with: the value that they capture is all ones."""
    program, plan = session.runner.planner.model.program, session.runner.plan
    (step,) = (item for item in program.steps if item.bodies)
    ones: Tensor = np.ones((4, 2), np.float32)
    outer = dict.fromkeys(step.bodies["then_branch"].captures.values(), ones)
    return step, outer, session.runner.memory, plan.phases[0].arena


BOTH = "g (float[N,2] x) => (float[N,2] y) { a = Relu(x) y = Neg(a) }"


def test_the_persistent_slot_stays_when_the_step_slot_cannot_be_reserved_behind_it() -> None:
    device = Tight()
    session = session_of(opened(BOTH), {"N": 16}, device=device)
    device.size, device.refusals = 16 * 256, 1
    with pytest.raises(OutOfBudgetError, match="full for now"):
        session.prepare({"x": np.zeros((16, 2), np.float32)})
    assert slot(session) == (16 * ROW_BYTES, 512)
    assert Lifetime.STEP_SCOPED not in session.runner.memory.workspace
    assert session.state.preparation_required, "its shapes were valid"
    session.prepare({"x": np.zeros((16, 2), np.float32)})
    assert session.runner.memory.workspace[Lifetime.STEP_SCOPED].size == 16 * 256


def test_a_preparation_for_what_is_not_valid_requires_nothing() -> None:
    session = session_of(opened(GRAPH), {"N": 8})
    for wrong in (np.zeros((2, 3), np.float32), np.zeros(2, np.float32), np.zeros((2, 2), np.int64)):
        with pytest.raises(BindingError):
            session.prepare({"x": wrong})
    assert not session.state.preparation_required
    run(session, 8)


def test_p12_an_unprepared_session_replaces_its_slot_and_leaves_it_empty_when_refused() -> None:
    device = Tight()
    session = session_of(opened(GRAPH), {"N": 8}, device=device)
    run(session, 2)
    assert slot(session) == (2048, 256)
    assert not session.state.preparation_required
    device.refusals = 1
    with pytest.raises(OutOfBudgetError):
        run(session, 4)
    assert KEPT not in session.runner.memory.workspace
    assert device.ledger.component("workspace").current_bytes == 0
    assert session.governance.state.leases["session-persistent workspace"] == 1024, "the plan's own pledge"
    run(session, 4)
    assert slot(session) == (4096, 512)
    address = session.runner.memory.workspace[KEPT].address
    run(session, 2)
    assert slot(session) == (4096, 512)
    assert session.runner.memory.workspace[KEPT].address == address


def test_p13_a_prepared_session_prepares_again_in_place_for_a_larger_eager_step() -> None:
    session = session_of(opened(GRAPH), {"N": 8})
    session.prepare({"x": np.zeros((2, 2), np.float32)})
    assert slot(session) == (2048, 256)
    assert session.state.preparation_required
    run(session, 4)
    assert slot(session) == (4096, 512)
    assert session.state.preparation_required
    run(session, 2)
    assert slot(session) == (4096, 512)


def test_a_slot_keeps_its_bytes_when_only_the_alignment_is_too_weak() -> None:
    session = session_of(opened(GRAPH), {"N": 8})
    run(session, 3)
    session.runner.memory.alignments[KEPT] = 128
    run(session, 2)
    assert slot(session) == (3072, 256)


def test_a_capture_may_not_replace_prepared_workspace_and_says_what_is_missing() -> None:
    session = session_of(opened(GRAPH), {"N": 8})
    x = session.allocate_binding((4, 2), input_name="x")
    y = session.allocate_binding((4, 2), output_name="y")
    session.prepare({"x": np.zeros((2, 2), np.float32)})
    with pytest.raises(WorkspaceNotPreparedError, match="2,048 aligned to 256 are prepared") as refused:
        session.try_capture([x, y])
    error = refused.value
    assert (error.required, error.prepared) == (4096, 2048)
    assert (error.required_alignment, error.prepared_alignment, error.node) == (512, 256, "Relu_y")
    memory = session.runner.memory
    memory.give(memory.workspace.pop(KEPT))
    with pytest.raises(WorkspaceNotPreparedError, match="none is prepared") as empty:
        session.try_capture([x, y])
    assert empty.value.prepared == 0
    session.prepare(bindings=[x, y])
    x.write(np.full((4, 2), -1, np.float32))
    session.warm_up([x, y])
    assert session.try_capture([x, y]).is_single_graph
    x.write(np.full((4, 2), 5, np.float32))
    assert session.replay([x, y])
    assert y.read().tolist() == [[5, 5]] * 4


def test_a_failed_preparation_does_not_latch() -> None:
    session = session_of(opened(GRAPH), {"N": 8})
    with pytest.raises(BindingError, match="x"):
        session.prepare({"x": np.zeros((2, 3), np.float32)})
    assert not session.state.preparation_required


def test_an_alignment_that_the_device_does_not_give_is_refused_and_leaves_the_slot_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def strict(query: WorkspaceQuery) -> WorkspaceRequirement:
        return WorkspaceRequirement(ROW_BYTES * query.input(0).shape[0], 2**40, KEPT, "rows")

    row = OpSpec("", "Relu", relu, strict)
    monkeypatch.setattr(table, "TABLE", MappingProxyType({**table.TABLE, ("", "Relu"): row}))
    device = HostDevice()
    with pytest.raises(AllocationFailedError, match="does not align"):
        session_of(opened(GRAPH), {"N": 8}, device=device)
    assert device.ledger.total.current_bytes == 0
