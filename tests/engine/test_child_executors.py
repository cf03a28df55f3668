"""Prepared bodies: one for each shape of the formal inputs, the oldest goes first (R-10, semantics 2.7)."""

from __future__ import annotations

import numpy as np
from small_models import array_of, opened, session_of

from vramscope.run.children import KEPT_CHILDREN, ChildStatistics

LOOP = """g (int64 n, float[N] x) => (float[N] y)
    { one = Constant<value_int=1>() go = Cast<to=9>(one)
      y = Loop(n, go, x) <body = b (int64 i, bool k, float[N] a) => (bool kk, float[N] o)
        { kk = Identity(k) o = Add(a, a) }> }"""
TWINS = """g (bool c, float[2] x) => (float[2] y, float[2] z)
    { y = If(c) <then_branch = a () => (float[2] p) { p = Relu(x) },
                 else_branch = b () => (float[2] q) { q = Neg(x) }>
      z = If(c) <then_branch = d () => (float[2] r) { r = Exp(x) },
                 else_branch = e () => (float[2] s) { s = Sqrt(x) }> }"""


def test_r10_children_are_kept_by_the_shapes_of_their_formal_inputs_and_only_the_oldest_goes() -> None:
    session = session_of(opened(LOOP), {"N": 16})

    def run(extent: int) -> None:
        feeds = {"n": np.array(3), "x": np.ones(extent, np.float32)}
        assert array_of(session.run(feeds), "y").tolist() == [8.0] * extent

    for extent in (1, 2, 3, 4):
        run(extent)
    (children,) = session.runner.memory.children.values()
    assert children.statistics == ChildStatistics(entries=4, hits=4 * 2, misses=4, evictions=0)
    run(1)
    run(5)
    kept = [formal[2][1] for _, formal in children.keys()]  # noqa: SIM118  # it is no dict
    assert kept == [(3,), (4,), (1,), (5,)]
    assert (children.statistics.entries, children.statistics.evictions) == (KEPT_CHILDREN, 1)
    misses = children.statistics.misses
    for extent in (3, 4, 1, 5):
        run(extent)
    assert children.statistics.misses == misses
    run(2)
    assert children.statistics.misses == misses + 1


def test_nodes_without_a_name_do_not_take_each_other_s_bodies() -> None:
    model = opened(TWINS)
    for step in model.program.steps:
        object.__setattr__(step.node, "name", "")
    session = session_of(model)
    x = np.array([1, 4], np.float32)
    for flag in (True, False, True):
        found = session.run({"c": np.array(flag), "x": x})
        assert array_of(found, "y").tolist() == (x if flag else np.negative(x)).tolist()
        wanted = np.exp(x) if flag else np.sqrt(x)
        np.testing.assert_allclose(np.asarray(array_of(found, "z"), np.float64), wanted, rtol=1e-6)


def test_two_sessions_do_not_share_children() -> None:
    model = opened(LOOP)
    first, second = session_of(model, {"N": 4}), session_of(model, {"N": 4})
    first.run({"n": np.array(2), "x": np.ones(2, np.float32)})
    assert len(first.runner.memory.children) == 1
    assert second.runner.memory.children == {}
