"""Any order of runs, captures, replays, losses and slot switches against a small model of the session."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from small_models import array_of, opened, session_of

from vramscope.errors import BindingsChangedError, NeverCapturedError

COUNT = opened("g (float[N] s, float[N] x) => (float[N] t) { a = Mul(x, x) t = Add(s, a) }")


class SessionMachine(RuleBasedStateMachine):
    """The state is a sum that every step adds x² to, so a step too many or too few is seen at once."""

    def __init__(self) -> None:
        super().__init__()
        self.session = session_of(COUNT, {"N": 16})
        self.state = self.session.allocate_binding((2,), input_name="s", output_name="t")
        self.x = self.session.allocate_binding((2,), input_name="x")
        self.bindings = [self.state, self.x]
        self.expected = 0.0
        self.value = 0.0
        self.warm = False
        self.graphs = {"Primary": "none", "Verify": "none"}
        self.active = "Primary"

    def _step(self) -> None:
        self.expected += self.value**2

    @rule(value=st.integers(0, 5))
    def write(self, value: int) -> None:
        self.value = float(value)
        self.x.write(np.full(2, value, np.float32))

    @rule()
    def run(self) -> None:
        evictions = self.session.variants.evictions
        self.session.run_with_device_bindings({}, self.bindings)
        self._step()
        self.warm = True
        self._lose(evictions)

    @rule()
    def warm_up(self) -> None:
        evictions = self.session.variants.evictions
        self.session.warm_up(self.bindings)
        self.warm = True
        self._lose(evictions)

    @rule(extent=st.integers(3, 9))
    def run_elsewhere(self, extent: int) -> None:
        evictions = self.session.variants.evictions
        ones = np.ones(extent, np.float32)
        assert array_of(self.session.run({"s": ones, "x": ones}), "t").tolist() == [2] * extent
        self._lose(evictions)

    def _lose(self, before: int) -> None:
        """An eviction takes every graph that holds the node, and this program has but these nodes."""
        if self.session.variants.evictions > before:
            self.graphs = {name: "lost" if held == "held" else held for name, held in self.graphs.items()}

    @rule(preserve=st.booleans())
    def capture(self, preserve: bool) -> None:
        report = self.session.try_capture(self.bindings, preserve=preserve)
        assert report.executed == report.captured
        assert self.warm or not report.captured
        self.graphs[self.active] = "held" if report.captured else "none"
        if report.captured and not preserve:
            self._step()

    @rule()
    def replay(self) -> None:
        before = self.session.device_allocation_counts()
        held = self.graphs[self.active]
        if held == "none":
            with pytest.raises(NeverCapturedError):
                self.session.replay(self.bindings)
            return
        evictions = self.session.variants.evictions
        assert self.session.replay(self.bindings) is (held == "held")
        assert self.session.device_allocation_counts() == before
        self._step()
        if held == "lost":
            self.graphs[self.active] = "none"
            self._lose(evictions)

    @rule()
    def replay_over_other_bindings(self) -> None:
        if self.graphs[self.active] == "none":
            return
        with pytest.raises(BindingsChangedError):
            self.session.replay([self.x, self.state])
        self.graphs[self.active] = "none"

    @rule()
    def reset(self) -> None:
        assert self.session.reset() is (self.graphs[self.active] == "held")
        self.graphs[self.active] = "none"

    @rule(name=st.sampled_from(["Primary", "Verify"]))
    def switch(self, name: str) -> None:
        self.session.set_graph_slot("Primary" if name == "Primary" else "Verify")
        self.active = name

    @invariant()
    def every_step_counts_once(self) -> None:
        assert self.state.read().tolist() == [self.expected] * 2

    @invariant()
    def graphs_are_where_they_should_be(self) -> None:
        assert self.session.captured_segment_count() == (1 if self.graphs[self.active] == "held" else 0)

    def teardown(self) -> None:
        self.session.close()
        for item in self.bindings:
            item.close()
        assert self.session.runner.device.ledger.total.current_bytes == 0


TestSession = SessionMachine.TestCase
TestSession.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)
