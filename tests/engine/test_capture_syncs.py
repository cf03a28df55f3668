"""Kernels that wait for the device: each is told to the audit, so none can be inside a graph (C-27)."""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
from cuda_twin import twin_device

import vramscope
from vramscope.devices.cuda.array import need_device
from vramscope.devices.cuda.table import BUILDERS
from vramscope.devices.host import HostDevice
from vramscope.devices.ledger import Site
from vramscope.errors import RecordingError
from vramscope.graph.model import Node
from vramscope.ops.table import TABLE, spec_for

PACKAGE = Path(vramscope.__file__).parent
WAITS = frozenset(("synchronize", "download", "fetch", "read", "memcpy", "memcpyAsync", "asnumpy", "item"))
"""Attributes whose call waits for the device, or copies to the host; so does ``get()`` of a CuPy array."""
READS = frozenset(("host", "host_integers"))
"""How a builder reads an input's values: a download, unless they are a small constant."""


class Scan:
    """One module: what each function calls, which inputs it reads on the host, where it waits outright."""

    def __init__(self, source: str) -> None:
        self.calls: dict[str, set[str]] = defaultdict(set)
        self.reads: dict[str, set[int]] = defaultdict(set)
        self.waits: dict[str, set[str]] = defaultdict(set)
        for function in ast.walk(ast.parse(source)):
            if isinstance(function, ast.FunctionDef):
                for node in ast.walk(function):
                    self._look(function.name, node)

    def _look(self, function: str, node: ast.AST) -> None:
        if isinstance(node, ast.Name):
            self.calls[function].add(node.id)
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            return
        if node.func.attr in READS:
            (index,) = node.args
            assert isinstance(index, ast.Constant), f"{function} reads an input that no scan can name"
            assert isinstance(index.value, int)
            self.reads[function].add(index.value)
        if node.func.attr in WAITS or (node.func.attr == "get" and not node.args):
            self.waits[function].add(node.func.attr)

    def reached(self, function: str) -> set[str]:
        """The module's functions that ``function`` may call, itself among them."""
        found, left = set(), [function]
        while left:
            name = left.pop()
            if name not in found:
                found.add(name)
                left.extend(self.calls[name] & (self.calls.keys() | self.reads.keys() | self.waits.keys()))
        return found

    def host_reads(self, function: str) -> set[int]:
        """Inputs that ``function`` reads on the host."""
        return {index for name in self.reached(function) for index in self.reads[name]}

    def host_waits(self, function: str) -> set[str]:
        """Calls that wait outright, in ``function`` or what it calls."""
        return {wait for name in self.reached(function) for wait in self.waits[name]}


def builder_name(operator: tuple[str, str]) -> tuple[str, str]:
    """Module and name of an operator's builder; a closure counts as the function that made it."""
    builder = BUILDERS[operator]
    return builder.__module__, builder.__qualname__.split(".")[0]


MODULES = sorted({builder_name(operator)[0] for operator in BUILDERS})
SCANS = {name: Scan(Path(str(sys.modules[name].__file__)).read_text(encoding="utf-8")) for name in MODULES}


@pytest.mark.parametrize("operator", sorted(BUILDERS), ids="::".join)
def test_c27_a_cuda_kernel_that_waits_says_which_inputs_it_waits_for(operator: tuple[str, str]) -> None:
    """An input read on the host is frozen under capture: the row must name it, or refuse capture outright."""
    module, name = builder_name(operator)
    scan = SCANS[module]
    spec = TABLE.get(operator)
    refused = spec is not None and bool(spec.capture_refusal)
    assert refused or scan.host_waits(name) == set()
    declared = set(spec.host_inputs) if spec is not None else set()
    assert refused or scan.host_reads(name) <= declared


def test_c27_the_scan_sees_reads_and_waits_through_helpers() -> None:
    scan = Scan(
        """
def outer(work):
    return helper(work)
def helper(work):
    work.mirror.synchronize()
    return work.host_integers(2)
def innocent(work):
    return work.input(2)
"""
    )
    assert (scan.host_reads("outer"), scan.host_waits("outer")) == ({2}, {"synchronize"})
    assert (scan.host_reads("innocent"), scan.host_waits("innocent")) == (set(), set())


def test_c27_some_builder_reads_on_the_host_and_is_found() -> None:
    named = {item: builder_name(item) for item in BUILDERS}
    reading = {item for item, (module, name) in named.items() if SCANS[module].host_reads(name)}
    assert {("", "Slice"), ("", "Split"), ("", "CumSum"), ("", "ReduceSum")} <= reading


def test_c27_what_runs_on_the_host_is_refused_by_the_cuda_device() -> None:
    device, _ = twin_device()
    for domain, operator in TABLE.keys() - BUILDERS.keys():
        node = Node("n", operator, domain, 22, MappingProxyType({}))
        assert device.capture_refusal(node, spec_for(node)), operator


def test_c27_host_kernels_know_no_device_and_so_cannot_wait_for_one() -> None:
    for path in (PACKAGE / "ops").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [item.name for item in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.startswith("vramscope.devices") for name in names), path


def test_c27_a_wait_or_a_host_read_inside_a_recording_fails_and_names_its_node() -> None:
    device = HostDevice()

    def fetch() -> None:
        device.download(np.zeros(1))

    for action in (device.synchronize, fetch):
        with pytest.raises(RecordingError) as refused:
            device.record([("first", lambda: None), ("waiting", action)])
        assert (refused.value.node, refused.value.action) == ("waiting", 1)
    cuda, twin = twin_device()
    buffer = cuda.allocate(Site("bindings", "x"), 8)

    def read() -> None:
        cuda.fetch(need_device(buffer.bytes))

    with pytest.raises(RecordingError, match="reading a value on the host"):
        cuda.record([("reading", read)])
    assert not twin.capturing
