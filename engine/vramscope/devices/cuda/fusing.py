"""Puts groups of nodes into a bound program: one launch at a group's place, nothing at its other members."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from vramscope.devices.cuda.fuse import Program, find_groups, norm_of_sum, unread_positions
from vramscope.devices.cuda.fused_launch import fused_launch
from vramscope.devices.cuda.many_rows import find_biased, find_gates
from vramscope.devices.cuda.prepared import in_place_of, nothing
from vramscope.ops.table import spec_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from vramscope.devices.base import BoundLaunch, FusionFacts, Groups
    from vramscope.devices.cuda.array import DeviceArray
    from vramscope.devices.cuda.fuse import Group
    from vramscope.devices.cuda.launch import Launch
    from vramscope.graph.model import Node
    from vramscope.ops.call import Call
    from vramscope.ops.spec import Kernel, OpSpec


class FusingDevice(Protocol):
    """What fusing asks of a device."""

    @property
    def clusters(self) -> bool:
        """Whether the card runs clusters of blocks."""

    def kernel(self, node: Node, spec: OpSpec) -> Kernel:
        """The node's kernels."""

    def launching(self, launch: Launch) -> Callable[[], None]:
        """A call that issues the launch, and counts it while a graph is recorded."""

    def builds(self, call: Call) -> bool:
        """Whether a call's kernels can be made."""


def fuse_program(
    device: FusingDevice, launches: Sequence[BoundLaunch], roots: Mapping[int, int], facts: FusionFacts
) -> Groups:
    """Gives the members of every group their new kernels.

    Returns:
        Positions of the launches that became one, group by group.
    """
    program = Program(launches, roots, facts)
    unread = unread_positions(program, device.builds)
    for position in unread:
        launches[position].kernel = nothing
    if any(launch.step.bodies or launch.late_inputs for launch in launches):
        return ()
    few = find_groups(program)
    for group in few.groups:
        _put(launches, group.members, group.at, _fused(device, launches, group, few.sums.get(group.at)))
    taken = {*unread, *(position for group in few.groups for position in group.members)}
    members = [tuple(sorted(group.members)) for group in few.groups]
    for gate in tuple(find_gates(program, taken)):
        _put(launches, gate.members, gate.at, _issuing(device.launching(gate.launch)))
        taken |= gate.members
        members.append(tuple(sorted(gate.members)))
    for biased in tuple(find_biased(program, taken)):
        pair = (biased.product, biased.at)
        kernel = device.kernel(biased.call.node, spec_for(biased.call.node))
        _put(launches, pair, biased.at, in_place_of(kernel, biased.call))
        members.append(pair)
    return tuple(group for group in members if len(group) > 1)


def _put(launches: Sequence[BoundLaunch], members: Iterable[int], at: int, kernel: Kernel) -> None:
    for position in members:
        launches[position].kernel = nothing
    launches[at].kernel = kernel


def _issuing(issue: Callable[[], None]) -> Kernel:
    def run(_call: Call) -> None:
        issue()

    return run


def _fused(
    device: FusingDevice, launches: Sequence[BoundLaunch], group: Group, total: DeviceArray | None
) -> Kernel:
    issue = device.launching(fused_launch(group.fused, clusters=device.clusters))
    rest = None if total is None else norm_of_sum(launches[group.at].call, total)
    if rest is None:
        return _issuing(issue)
    return in_place_of(device.kernel(rest.node, spec_for(rest.node)), rest, issue)
