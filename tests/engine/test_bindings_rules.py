"""The order in which bindings are validated and symbols bound (B-07 to B-09, semantics 1.12-1.15)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from small_models import array_of, opened, session_of

from vramscope.devices.host import HostDevice
from vramscope.errors import (
    BindingError,
    DtypeMismatchError,
    InputNotFoundError,
    OutputNotFoundError,
    RankMismatchError,
    SequenceOutputError,
    ShapeMismatchError,
    ShapeOverflowError,
    SymbolConflictError,
    VramscopeError,
)
from vramscope.graph.dtypes import ElementType
from vramscope.run.device_binding import BindingSpec, DeviceIoBinding

if TYPE_CHECKING:
    from vramscope.run.session import ProgramSession

ADD = "g (float[N] a, float[N] b) => (float[N] c) { c = Add(a, b) }"
SPLIT = """g (float[4] x) => (seq(float[2]) parts, float[4] y)
    { two = Constant<value_ints=[2,2]>() parts = SplitToSequence(x, two) y = Relu(x) }"""


@pytest.fixture
def add() -> ProgramSession:
    return session_of(opened(ADD), {"N": 8})


def raw(
    session: ProgramSession,
    names: tuple[str, str],
    shape: tuple[int, ...],
    *,
    dtype: ElementType = ElementType.FLOAT,
    size: int = 64,
    device: HostDevice | None = None,
) -> DeviceIoBinding:
    """A binding as a caller may make one by itself, whatever it is worth."""
    memory = np.zeros(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    view = memory[start : start + size]
    spec = BindingSpec(*names, dtype, shape)
    return DeviceIoBinding(device or session.runner.device, spec, view, view.ctypes.data, keep=memory)


def refused(session: ProgramSession, *bindings: DeviceIoBinding) -> VramscopeError:
    with pytest.raises((BindingError, ShapeOverflowError)) as caught:
        session.run_with_device_bindings({}, bindings)
    return caught.value


HUGE = (2**62, 4)
TEXT = ElementType.INT64


def test_the_checks_surface_in_the_rule_book_s_order(add: ProgramSession) -> None:
    """Each binding breaks a rule and every later one; the first is told."""
    elsewhere = HostDevice()
    worst = raw(add, ("nowhere", "nothing"), HUGE, dtype=TEXT, size=8, device=elsewhere)
    twice = raw(add, ("nowhere", "other"), (1,))
    assert "two bindings bind it" in refused(add, worst, twice).why
    found = refused(add, worst)
    assert "device host" in found.why
    found = refused(add, raw(add, ("nowhere", "nothing"), HUGE, dtype=TEXT, size=8))
    assert isinstance(found, ShapeOverflowError)
    assert str(list(HUGE)) in found.what
    found = refused(add, raw(add, ("nowhere", "nothing"), (4,), dtype=TEXT, size=8))
    assert "[4] needs 32 bytes and the buffer has 8" in found.why
    found = refused(add, raw(add, ("nowhere", "nothing"), (4,), dtype=TEXT))
    assert isinstance(found, InputNotFoundError)
    assert (found.name, found.known) == ("nowhere", ("a", "b"))
    missing = refused(add, raw(add, ("a", "nothing"), (4,), dtype=TEXT))
    assert isinstance(missing, OutputNotFoundError)
    assert (missing.name, missing.known) == ("nothing", ("c",))
    other = refused(add, raw(add, ("", "c"), (4,), dtype=TEXT))
    assert isinstance(other, DtypeMismatchError)
    assert (other.expected, other.got) == ("FLOAT", "INT64")


def test_the_first_failing_binding_is_told_before_a_later_one(add: ProgramSession) -> None:
    short = raw(add, ("a", ""), (4,), size=8)
    elsewhere = raw(add, ("b", ""), (4,), device=HostDevice())
    assert "needs 16 bytes" in refused(add, short, elsewhere).why
    assert "device" in refused(add, elsewhere, short).why


def test_a_duplicate_input_and_a_duplicate_output_are_refused(add: ProgramSession) -> None:
    a, c = raw(add, ("a", ""), (2,)), raw(add, ("", "c"), (2,))
    assert refused(add, a, raw(add, ("a", ""), (2,))).what == "input a"
    assert refused(add, c, raw(add, ("", "c"), (2,))).what == "output c"
    both = refused(add, raw(add, ("b", "c"), (2,)), c, a, raw(add, ("a", ""), (2,)))
    assert both.what == "input a", "inputs are looked at before outputs"


def test_a_sequence_output_cannot_be_bound_and_only_run_outputs_gives_it() -> None:
    session = session_of(opened(SPLIT))
    bound = raw(session, ("", "parts"), (4,), dtype=ElementType.INT64)
    with pytest.raises(SequenceOutputError, match="output parts"):
        session.run_with_device_bindings({"x": np.ones(4, np.float32)}, [bound])
    x = np.arange(4, dtype=np.float32)
    with pytest.raises(SequenceOutputError, match="run_outputs"):
        session.run({"x": x})
    y = session.allocate_binding((4,), output_name="y")
    with pytest.raises(SequenceOutputError, match="run_with_device_bindings"):
        session.run_with_device_bindings({"x": x}, [y])
    parts = session.run_outputs({"x": x})["parts"]
    assert isinstance(parts, list)
    assert [np.asarray(item).tolist() for item in parts] == [[0, 1], [2, 3]]


def test_b08_one_symbol_has_one_extent_and_the_refusal_names_both_sources(add: ProgramSession) -> None:
    a, b = raw(add, ("a", ""), (2,)), raw(add, ("b", ""), (3,))
    for order, first, second in (((a, b), 2, 3), ((b, a), 3, 2)):
        found = refused(add, *order)
        assert isinstance(found, SymbolConflictError)
        assert (found.symbol, found.first, found.second) == ("N", first, second)
    agreeing = raw(add, ("b", ""), (2,))
    assert array_of(add.run_with_device_bindings({}, [a, agreeing]), "c").tolist() == [0, 0]


def test_case_15_conflicting_feeds_are_refused_naming_the_symbol_and_both_inputs() -> None:
    model = opened(
        """g (int64[B,S] input_ids, int64[B,S] attention_mask) => (int64[B,S] y)
        { y = Mul(input_ids, attention_mask) }"""
    )
    session = session_of(model, {"B": 1, "S": 128})
    ids, mask = np.ones((1, 100), np.int64), np.ones((1, 96), np.int64)
    with pytest.raises(SymbolConflictError) as caught:
        session.run({"input_ids": ids, "attention_mask": mask})
    error = caught.value
    assert (error.symbol, error.first, error.second) == ("S", 100, 96)
    assert (error.first_source, error.second_source) == (
        "input input_ids, axis 1",
        "input attention_mask, axis 1",
    )
    bound = raw(session, ("attention_mask", ""), (1, 96), dtype=ElementType.INT64, size=768)
    with pytest.raises(SymbolConflictError, match="input_ids, axis 1 makes it 100"):
        session.run_with_device_bindings({"input_ids": ids}, [bound])


def test_b09_rank_static_extents_and_missing_inputs_are_refused_by_name() -> None:
    session = session_of(opened("g (float[N,4] x, float[4] b) => (float[N,4] y) { y = Add(x, b) }"), {"N": 8})
    b = np.zeros(4, np.float32)
    with pytest.raises(RankMismatchError, match="input x") as rank:
        session.run({"x": np.zeros(4, np.float32), "b": b})
    assert (rank.value.expected, rank.value.got) == (2, 1)
    with pytest.raises(ShapeMismatchError, match="input x") as shape:
        session.run({"x": np.zeros((2, 5), np.float32), "b": b})
    assert (shape.value.expected, shape.value.got) == (("N", 4), (2, 5))
    with pytest.raises(BindingError, match="input b: it is missing"):
        session.run({"x": np.zeros((2, 4), np.float32)})
    with pytest.raises(InputNotFoundError, match="input c"):
        session.run({"c": b})
    with pytest.raises(DtypeMismatchError, match="DOUBLE is given"):
        session.run({"x": np.zeros((2, 4)), "b": b})


def test_an_input_cannot_be_a_host_tensor_and_a_binding_at_once(add: ProgramSession) -> None:
    a = raw(add, ("a", ""), (2,))
    two = np.ones(2, np.float32)
    with pytest.raises(BindingError, match="host tensor and as a binding"):
        add.run_with_device_bindings({"a": two, "b": two}, [a])


def test_host_inputs_bind_symbols_before_bindings_do(add: ProgramSession) -> None:
    a = raw(add, ("a", ""), (2,))
    with pytest.raises(SymbolConflictError) as caught:
        add.run_with_device_bindings({"b": np.ones(3, np.float32)}, [a])
    assert (caught.value.first_source, caught.value.second_source) == ("input b, axis 0", "input a, axis 0")


def test_bytes_of_elements_that_share_them_are_counted_exactly() -> None:
    model = opened("g (uint4[N] x) => (float[N] y) { y = Cast<to=1>(x) }", opsets='["" : 21]')
    session = session_of(model, {"N": 8})
    x = raw(session, ("x", ""), (5,), dtype=ElementType.UINT4, size=3)
    x._raw[:] = [0x21, 0x43, 0x05]
    assert array_of(session.run_with_device_bindings({}, [x]), "y").tolist() == [1, 2, 3, 4, 5]
    short = raw(session, ("x", ""), (5,), dtype=ElementType.UINT4, size=2)
    assert "needs 3 bytes and the buffer has 2" in refused(session, short).why
    with pytest.raises(BindingError, match="share bytes"):
        x.set_logical((4,))


def test_a_refused_run_leaves_the_session_usable_and_its_memory_as_it_was(add: ProgramSession) -> None:
    two = np.ones(2, np.float32)
    add.run({"a": two, "b": two})
    before = add.device_allocation_counts()
    with pytest.raises(SymbolConflictError):
        add.run({"a": two, "b": np.ones(3, np.float32)})
    assert array_of(add.run({"a": two, "b": two}), "c").tolist() == [2, 2]
    assert add.device_allocation_counts() == before


def test_two_sessions_of_one_process_do_not_see_each_other() -> None:
    device = HostDevice()
    one = session_of(opened(ADD), {"N": 8}, device=device)
    two = session_of(opened(ADD), {"N": 8}, device=device)
    bindings = [
        [item.allocate_binding((2,), input_name=name) for name in ("a", "b")]
        + [item.allocate_binding((2,), output_name="c")]
        for item in (one, two)
    ]
    for session, mine in zip((one, two), bindings, strict=True):
        session.run_with_device_bindings({}, mine)
        assert session.try_capture(mine).captured
    one.close()
    bindings[1][0].write(np.array([3, 4], np.float32))
    assert two.replay(bindings[1])
    assert bindings[1][2].read().tolist() == [3, 4]
    assert one.captured_segment_count() == 0
    assert two.captured_segment_count() == 1
    two.close()
    for item in (*bindings[0], *bindings[1]):
        item.close()
    assert device.ledger.total.current_bytes == 0


def test_a_session_keeps_what_changes_in_few_fields(add: ProgramSession) -> None:
    assert len(vars(add)) <= 10
