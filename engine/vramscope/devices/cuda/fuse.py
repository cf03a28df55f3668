"""Finds groups of nodes that become one launch: norm, product, bias, residual, gated activation.

Only the decode step's few-row products with constant weights take part. A group runs at the place of its last
member; it is made only where nobody else reads what lies between its members, and where nothing that runs
meanwhile writes over what it reads.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from vramscope.devices.cuda.array import on_device
from vramscope.devices.cuda.fused_form import GELU, GELU_TANH, PLAIN, SILU, Fused, Norm
from vramscope.devices.cuda.fused_weights import product_of
from vramscope.graph.model import ABSENT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vramscope.devices.base import BoundLaunch, FusionFacts
    from vramscope.devices.cuda.array import DeviceArray
    from vramscope.graph.model import Array
    from vramscope.ops.call import Call

HOST_TOTAL = 6
"""Input of GroupQueryAttention (total_sequence_length) that is for the host alone."""
_PLAIN_NORMS = ("SimplifiedLayerNormalization", "RMSNormalization")
_SKIP_NORM = "SkipSimplifiedLayerNormalization"


@dataclass(slots=True, eq=False)
class Group:
    """Members of one launch by position, and what it computes; it runs at ``at``."""

    fused: Fused
    members: set[int]
    at: int
    writes: int
    """The value it gives."""


@dataclass(slots=True, eq=False)
class Plan:
    """What was found: the launch of each group's last member, and members that do nothing themselves."""

    groups: list[Group] = field(default_factory=list)
    sums: dict[int, DeviceArray] = field(default_factory=dict)
    """Skip norms by position whose sum a product has written already, and where it lies."""


class Program:
    """Who makes and who reads each value among the launches; views count as what they view."""

    def __init__(self, launches: Sequence[BoundLaunch], roots: Mapping[int, int], facts: FusionFacts) -> None:
        """Of launches in order."""
        self.launches = launches
        self._roots = roots
        self.kept = {self.root(value) for value in facts.kept}
        self.constants = facts.constants
        self.maker: dict[int, int] = {}
        self.readers: dict[int, list[int]] = {}
        for position, launch in enumerate(launches):
            for value in launch.step.inputs:
                self.readers.setdefault(self.root(value), []).append(position)
            for value in launch.step.outputs:
                self.maker[self.root(value)] = position

    def root(self, value: int) -> int:
        """The value whose bytes it is."""
        return self._roots.get(value, value)

    def operator(self, position: int) -> str:
        """The operator at a position."""
        return self.launches[position].step.node.operator

    def only_reader(self, value: int) -> int | None:
        """The one launch that reads a value nobody else sees."""
        found = self.readers.get(self.root(value), [])
        return found[0] if len(found) == 1 and self.root(value) not in self.kept else None

    def placed(self, position: int, index: int = 0) -> DeviceArray | None:
        """Where an output of a launch lies."""
        placed = self.launches[position].call.placed
        return on_device(placed[index]) if index < len(placed) else None

    def given(self, position: int, index: int) -> DeviceArray | None:
        """An input of a launch."""
        inputs = self.launches[position].call.inputs
        return on_device(inputs[index]) if index < len(inputs) else None

    def is_constant(self, position: int, index: int) -> bool:
        """Whether an input is a weight."""
        inputs = self.launches[position].step.inputs
        return index < len(inputs) and inputs[index] in self.constants


def find_groups(program: Program) -> Plan:
    """All groups of a program, checked for overlaps."""
    plan = Plan()
    if any(launch.step.bodies or launch.late_inputs for launch in program.launches):
        return plan
    for position in range(len(program.launches)):
        fused = product_of(program.launches[position].call, program.is_constant(position, 1))
        if fused is not None:
            value = program.launches[position].step.outputs[0]
            plan.groups.append(Group(fused, {position}, position, value))
    for group in plan.groups:
        _absorb_bias(program, group)
    _join_pairs(program, plan)
    for group in plan.groups:
        _absorb_residual(program, plan, group)
    _absorb_norms(program, plan)
    plan.groups = [group for group in plan.groups if len(group.members) > 1 or _alone(group)]
    return plan


def unread_positions(program: Program, builds: Callable[[Call], bool]) -> list[int]:
    """Launches whose results no kernel reads: grouped attention takes its lengths from seqlens_k alone."""
    launches = program.launches
    if any(launch.step.bodies or launch.late_inputs for launch in launches):
        return []
    grouped = [n for n in range(len(launches)) if program.operator(n) == "GroupQueryAttention"]
    if not all(builds(launches[position].call) for position in grouped):
        return []
    reads: dict[int, set[int]] = {}
    for position, launch in enumerate(launches):
        for index, value in enumerate(launch.step.inputs):
            if not (position in grouped and index == HOST_TOTAL):
                reads.setdefault(program.root(value), set()).add(position)
    unread: list[int] = []
    for position in reversed(range(len(launches))):
        values = {program.root(value) for value in launches[position].step.outputs if value != ABSENT}
        if values & program.kept or any(reads.get(value, set()) - set(unread) for value in values):
            continue
        unread.append(position)
    return unread


def _alone(group: Group) -> bool:
    """A product by itself is still better off with the fused kernels, where they have its form."""
    return group.fused.suits()


def _absorb_bias(program: Program, group: Group) -> None:
    reader = program.only_reader(group.writes)
    if reader is None or program.operator(reader) != "Add" or group.fused.biases[0] is not None:
        return
    for index in (0, 1):
        bias, out = program.given(reader, index), program.placed(reader)
        if bias is None or out is None or not program.is_constant(reader, index):
            continue
        if bias.size == group.fused.n and out.size == group.fused.rows * group.fused.n:
            _extend(program, group, reader, replace(group.fused, biases=(bias,), y=out))
            return


def _extend(program: Program, group: Group, position: int, fused: Fused, value: int | None = None) -> bool:
    """Takes another member in, if the kernels have the form and nothing is overwritten meanwhile."""
    trial = Group(fused, {*group.members, position}, max(group.at, position), group.writes)
    if not fused.suits() or not _undisturbed(program, trial):
        return False
    group.fused, group.members, group.at = fused, trial.members, trial.at
    group.writes = program.launches[position].step.outputs[0] if value is None else value
    return True


def _undisturbed(program: Program, group: Group) -> bool:
    """Nothing between the first member and the launch overwrites an input.

    The result overlaps none either.
    """
    fused = group.fused
    reads = [fused.x, fused.residual, fused.norm.skip if fused.norm else None]
    inputs = [item for item in reads if item is not None]
    own = [item for item in inputs if not (item is fused.residual and same_bytes(item, fused.y))]
    if any(overlap(fused.y, item) for item in own):
        return False
    for position in range(min(group.members), group.at):
        if position in group.members:
            continue
        for index in range(len(program.launches[position].call.placed)):
            written = program.placed(position, index)
            if written is not None and any(overlap(written, item) for item in inputs):
                return False
    return True


def same_bytes(one: DeviceArray, two: DeviceArray) -> bool:
    """Whether they lie at one place."""
    return one.address == two.address and one.nbytes == two.nbytes


def overlap(one: DeviceArray, two: DeviceArray) -> bool:
    """Whether a byte belongs to both."""
    return one.address < two.address + two.nbytes and two.address < one.address + one.nbytes


def _join_pairs(program: Program, plan: Plan) -> None:
    """act(x · W0) · (x · W1): two products of one input, the first activated."""
    by_value = {program.root(group.writes): group for group in plan.groups}
    gone: set[int] = set()
    for first in plan.groups:
        if id(first) in gone or first.fused.joined:
            continue
        found = activation_behind(program, first.writes)
        if found is None:
            continue
        activation, members, value = found
        product = program.only_reader(value)
        if product is None or program.operator(product) != "Mul":
            continue
        inputs = [program.root(item) for item in program.launches[product].step.inputs]
        other = next((item for item in inputs if item != program.root(value)), None)
        second = by_value.get(other) if other is not None else None
        out = program.placed(product)
        if second is None or second is first or out is None or not _joinable(program, first, second):
            continue
        fused = replace(
            first.fused,
            weights=(*first.fused.weights, *second.fused.weights),
            biases=(*first.fused.biases, *second.fused.biases),
            joined=activation,
            y=out,
        )
        trial = Group(fused, {*first.members, *second.members, *members, product}, product, first.writes)
        if fused.suits() and _undisturbed(program, trial):
            first.fused, first.members, first.at = fused, trial.members, product
            first.writes = program.launches[product].step.outputs[0]
            gone.add(id(second))
    plan.groups = [group for group in plan.groups if id(group) not in gone]


def _joinable(program: Program, first: Group, second: Group) -> bool:
    one, two = first.fused, second.fused
    same = one.x.address == two.x.address and (one.n, one.k, one.rows) == (two.n, two.k, two.rows)
    return same and two.joined == PLAIN and program.only_reader(second.writes) is not None


def activation_behind(program: Program, value: int) -> tuple[int, set[int], int] | None:
    """The activation of a value that nobody else sees: which, its nodes, and the value it gives."""
    readers = program.readers.get(program.root(value), [])
    if program.root(value) in program.kept:
        return None
    if len(readers) == 1:
        return _single_activation(program, readers[0])
    if len(readers) != 2:
        return None
    gate = next((item for item in readers if program.operator(item) == "Sigmoid"), None)
    times = next((item for item in readers if program.operator(item) == "Mul"), None)
    if gate is None or times is None or program.only_reader(program.launches[gate].step.outputs[0]) != times:
        return None
    return SILU, {gate, times}, program.launches[times].step.outputs[0]


def _single_activation(program: Program, position: int) -> tuple[int, set[int], int] | None:
    node = program.launches[position].step.node
    found = PLAIN
    if node.operator == "Gelu":
        found = GELU_TANH if node.text("approximate", "none") == "tanh" else GELU
    elif node.operator == "FastGelu" and len(program.launches[position].step.inputs) == 1:
        found = GELU_TANH
    elif node.operator == "Swish" and node.number("alpha", 1.0) == 1.0:
        found = SILU
    if not found:
        return None
    return found, {position}, program.launches[position].step.outputs[0]


def _absorb_residual(program: Program, plan: Plan, group: Group) -> None:
    """The sum of a product and the residual stream, written by the product."""
    reader = program.only_reader(group.writes)
    if reader is None or group.fused.joined:
        return
    skip = program.operator(reader) == _SKIP_NORM
    if not skip and program.operator(reader) != "Add":
        return
    call = program.launches[reader].call
    if skip and (call.has(3) or call.wants(1) or call.wants(2) or not call.wants(3)):
        return
    inputs = program.launches[reader].step.inputs
    index = 1 if program.root(inputs[0]) == program.root(group.writes) else 0
    residual, out = program.given(reader, index), program.placed(reader, 3 if skip else 0)
    if residual is None or out is None or residual.size != group.fused.rows * group.fused.n:
        return
    if program.root(inputs[0]) == program.root(inputs[1]) or out.size != residual.size:
        return
    fused = replace(group.fused, residual=residual, y=out)
    value = program.launches[reader].step.outputs[3 if skip else 0]
    before = set(group.members)
    if _extend(program, group, reader, fused, value) and skip:
        group.members = before | {reader}
        plan.sums[reader] = out


def _absorb_norms(program: Program, plan: Plan) -> None:
    """Norms whose every reader is a product that can do it by itself."""
    by_member = {position: group for group in plan.groups for position in group.members}
    for position, launch in enumerate(program.launches):
        norm = _norm_at(program, plan, position)
        if norm is None:
            continue
        x, parameters = norm
        output = launch.step.outputs[0]
        readers = program.readers.get(program.root(output), [])
        groups = {id(by_member[item]): by_member[item] for item in readers if item in by_member}
        placed = program.placed(position)
        if program.root(output) in program.kept or placed is None or not groups:
            continue
        whole = all(item in by_member and _reads(by_member[item], placed) for item in readers)
        trials = [
            (
                group,
                Group(replace(group.fused, x=x, norm=parameters), {*group.members, position}, group.at, 0),
            )
            for group in groups.values()
        ]
        if not whole or not all(t.fused.suits() and _undisturbed(program, t) for _, t in trials):
            continue
        for group, trial in trials:
            group.fused = trial.fused
            if position not in plan.sums:
                group.members = trial.members
        if position in plan.sums:
            plan.sums[position] = x
            _mark_done(plan, position)


def _mark_done(plan: Plan, position: int) -> None:
    """The skip norm needs no launch of its own.

    Its sum is written by one product, its norm done by others.
    """
    del plan.sums[position]


def _reads(group: Group, placed: DeviceArray) -> bool:
    return group.fused.norm is None and group.fused.x.address == placed.address


def _norm_at(program: Program, plan: Plan, position: int) -> tuple[DeviceArray, Norm] | None:
    """The activation and parameters of an RMS norm over the last axis with one wanted output."""
    launch = program.launches[position]
    node, call = launch.step.node, launch.call
    if node.operator in _PLAIN_NORMS:
        x, gamma = program.given(position, 0), program.given(position, 1)
        default = 1e-5
        if call.wants(1) or node.integer("axis", -1) not in (-1, (x.ndim - 1) if x is not None else -1):
            return None
        skip = None
    elif node.operator == _SKIP_NORM and not call.has(3) and not (call.wants(1) or call.wants(2)):
        x, gamma, default = program.given(position, 0), program.given(position, 2), 1e-12
        skip = program.given(position, 1)
        if position in plan.sums:
            x, skip = plan.sums[position], None
        elif call.wants(3):
            return None
    else:
        return None
    if x is None or gamma is None or gamma.size != x.shape[-1] or (skip is not None and skip.size != x.size):
        return None
    return x, Norm(gamma, node.number("epsilon", default), skip)


def norm_of_sum(call: Call, total: DeviceArray) -> Call:
    """A skip norm whose sum is written already, as a plain norm of that sum."""
    node = replace(
        call.node,
        operator="SimplifiedLayerNormalization",
        domain="",
        attributes={**call.node.attributes, "epsilon": call.node.number("epsilon", 1e-12), "axis": -1},
    )
    return replace(
        call,
        node=node,
        inputs=(cast("Array", total), call.inputs[2]),
        placed=[call.placed[0], None],
        wanted=(call.wants(0), False),
        memo=None,
    )
