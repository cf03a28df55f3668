"""What planning needs of a program and no scenario changes: lifetimes, views, shape classes.

Built once a model. Thousands of values have a few dozen distinct symbolic shapes, so a re-plan evaluates each
*class* of shape once; and thousands of nodes ask a few dozen distinct questions about scratch.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from vramscope.graph.compile import static_bytes
from vramscope.graph.dtypes import bit_width
from vramscope.graph.expr import free_symbols
from vramscope.graph.model import ABSENT, Model, Program, Step, ValueKind
from vramscope.ops.formulas import REFERENCE_WORKSPACE
from vramscope.ops.reference import has_reference
from vramscope.ops.table import spec_for
from vramscope.plan.arena import Owner
from vramscope.plan.shapes import IN_A_BODY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vramscope.graph.dtypes import ElementType
    from vramscope.graph.expr import Shape
    from vramscope.graph.model import AttributeValue
    from vramscope.ops.spec import OpSpec


@dataclass(frozen=True, slots=True)
class ShapeClass:
    """All values with this type and symbolic shape; ``shape`` None: the rank is unknown."""

    dtype: ElementType
    shape: Shape | None


@dataclass(frozen=True, slots=True)
class StepFacts:
    """What a step's row says in every plan.

    Attributes:
        kernel: ``host``, ``reference`` or ``none``: who runs it.
        inputs: value ids that it reads by name.
        outputs: value ids that it defines.
        own: those of its wanted outputs that have bytes of their own.
        weight_bytes: of the weights that it reads, each once: stored ones, and what constant steps made.
    """

    kernel: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    own: tuple[int, ...]
    weight_bytes: int


@dataclass(frozen=True, slots=True)
class ScratchQuestion:
    """A step with planned scratch.

    Steps of one ``group`` differ at most in the shapes of ``bound`` inputs.
    """

    step: int
    group: int
    bound: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Mention:
    """How many values mention a symbol, and the first node that reads or gives one of them."""

    uses: int
    first_node: str


@dataclass(frozen=True, slots=True)
class PlanningIndex:
    """The scenario-free part of a plan.

    Attributes:
        program: what is planned.
        specs: the operator row of each step.
        classes: distinct (type, shape) pairs.
        class_of: value id → index into ``classes``.
        wanted: step index → which of its outputs somebody reads.
        owners: values that need arena memory, in order of definition.
        root_of: value id → the value whose bytes it is (itself unless it is a view).
        bound: values that live in caller-owned buffers: graph inputs and outputs.
        readers: value id → first (step, input index) that reads it; IN_A_BODY where a body of the step does.
        makers: value id → the step that gives it.
        facts: of each main step, in order.
        scratch: the main steps with planned scratch.
        with_bodies: the main steps that have control-flow bodies.
        constants: results of constant steps that main steps or the outputs need.
        mentions: every symbol of the program.
    """

    program: Program
    specs: tuple[OpSpec, ...]
    classes: tuple[ShapeClass, ...]
    class_of: tuple[int, ...]
    wanted: tuple[tuple[bool, ...], ...]
    owners: tuple[Owner, ...]
    root_of: Mapping[int, int]
    bound: frozenset[int]
    readers: Mapping[int, tuple[int, int]]
    makers: Mapping[int, int]
    facts: tuple[StepFacts, ...]
    scratch: tuple[ScratchQuestion, ...]
    with_bodies: tuple[Step, ...]
    constants: frozenset[int]
    mentions: Mapping[str, Mention]

    @property
    def main_steps(self) -> tuple[Step, ...]:
        """The steps that run every time; constant ones run once, when a session is prepared."""
        return self.program.steps[self.program.constant_steps :]

    def view_edges(self) -> dict[int, int]:
        """Every view and the value whose bytes it is."""
        return {value: root for value, root in self.root_of.items() if value != root}


def build_index(model: Model) -> PlanningIndex:
    """Lifetimes, views and shape classes of the model's program."""
    program = model.program
    specs = tuple(spec_for(step.node) for step in program.steps)
    strided = _strided_inputs(model)
    uses = last_uses(program)
    wanted = tuple(tuple(o != ABSENT and o in uses for o in step.outputs) for step in program.steps)
    bound = frozenset((*program.inputs, *program.outputs))
    root_of = _roots(program, specs, bound, strided)
    classes, class_of = _classes(program)
    readers, makers = _readers(program), _makers(program)
    main = program.steps[program.constant_steps :]
    return PlanningIndex(
        program=program,
        specs=specs,
        classes=classes,
        class_of=class_of,
        wanted=wanted,
        owners=_owners(program, specs, root_of, bound, uses),
        root_of=root_of,
        bound=bound,
        readers=readers,
        makers=makers,
        facts=_facts(program, specs, wanted, root_of),
        scratch=tuple(_scratch(main, specs, class_of, bound, wanted)),
        with_bodies=tuple(step for step in main if step.bodies),
        constants=_constants(program, root_of),
        mentions=_mentions(program, classes, class_of, readers, makers),
    )


def _strided_inputs(model: Model) -> frozenset[int]:
    """KV inputs shown as a prefix of a larger buffer.

    Their bytes are not contiguous, so nothing views them.
    """
    if model.contract is None:
        return frozenset()
    names = {pair.input for pair in model.contract.kv if pair.form.moving}
    program = model.program
    return frozenset(item for item in program.inputs if program.values[item].name in names)


def body_captures(step: Step) -> tuple[int, ...]:
    """Values of the enclosing program that the step's bodies read, at any depth."""
    return tuple(outer for body in step.bodies.values() for outer in body.captures.values())


def last_uses(program: Program) -> dict[int, int]:
    """Value id → index of the last step that reads it; graph outputs live to the end."""
    uses: dict[int, int] = {}
    for step in program.steps:
        for value in (*step.inputs, *body_captures(step)):
            if value != ABSENT:
                uses[value] = step.index
    for value in program.outputs:
        uses[value] = len(program.steps)
    return uses


def _readers(program: Program) -> Mapping[int, tuple[int, int]]:
    readers: dict[int, tuple[int, int]] = {}
    for step in program.steps:
        for position, value in enumerate(step.inputs):
            if value != ABSENT:
                readers.setdefault(value, (step.index, position))
        for value in body_captures(step):
            readers.setdefault(value, (step.index, IN_A_BODY))
    return MappingProxyType(readers)


def _makers(program: Program) -> Mapping[int, int]:
    return MappingProxyType(
        {value: step.index for step in program.steps for value in step.outputs if value != ABSENT}
    )


def _facts(
    program: Program, specs: Sequence[OpSpec], wanted: Sequence[Sequence[bool]], root_of: Mapping[int, int]
) -> tuple[StepFacts, ...]:
    runners: dict[tuple[str, str, int, bool], str] = {}
    facts: list[StepFacts] = []
    sizes = {root: static_bytes(program.values[root]) for root in _constants(program, root_of)}
    sizes |= {root: source.size for root, source in program.weights.items()}
    for step in program.steps[program.constant_steps :]:
        node = step.node
        kind = (node.domain, node.operator, node.opset, bool(step.bodies))
        if kind not in runners:
            runners[kind] = _runner(step, specs[step.index])
        inputs = tuple(value for value in step.inputs if value != ABSENT)
        outputs = tuple(value for value in step.outputs if value != ABSENT)
        asked = zip(step.outputs, wanted[step.index], strict=True)
        own = tuple(value for value, want in asked if want and root_of[value] == value)
        weights = sum(sizes[root] for root in {root_of[value] for value in inputs} & sizes.keys())
        facts.append(StepFacts(runners[kind], inputs, outputs, own, weights))
    return tuple(facts)


def _runner(step: Step, spec: OpSpec) -> str:
    if spec.kernel is not None:
        return "host"
    node = step.node
    known = not step.bodies and has_reference(node.domain, node.operator, node.opset)
    return "reference" if known else "none"


def _scratch(
    steps: Sequence[Step],
    specs: Sequence[OpSpec],
    class_of: Sequence[int],
    bound: frozenset[int],
    wanted: Sequence[Sequence[bool]],
) -> Iterator[ScratchQuestion]:
    """Steps with the same operator, attributes, input classes and wanted outputs ask the same question."""
    groups: dict[object, int] = {}
    for step in steps:
        spec, node = specs[step.index], step.node
        if spec.workspace is None and (spec.domain, spec.name) not in REFERENCE_WORKSPACE:
            continue
        shapes = tuple(-1 if value == ABSENT else class_of[value] for value in step.inputs)
        attributes = _comparable(node.attributes)
        key = (
            node.domain,
            node.operator,
            node.opset,
            shapes,
            sum(wanted[step.index]),
            attributes or step.index,
        )
        group = groups.setdefault(key, len(groups))
        yield ScratchQuestion(step.index, group, tuple(value for value in step.inputs if value in bound))


def _constants(program: Program, root_of: Mapping[int, int]) -> frozenset[int]:
    made = {value for step in program.steps[: program.constant_steps] for value in step.outputs}
    read = set(program.outputs)
    for step in program.steps[program.constant_steps :]:
        read.update(value for value in (*step.inputs, *body_captures(step)) if value != ABSENT)
    return frozenset({root_of[value] for value in read} & made)


def _comparable(attributes: Mapping[str, AttributeValue]) -> tuple[tuple[str, AttributeValue], ...] | None:
    """The attributes as a dictionary key; None when one of them is a tensor."""
    if any(isinstance(value, np.ndarray) for value in attributes.values()):
        return None
    return (("", ""), *sorted(attributes.items(), key=lambda item: item[0]))


def _mentions(
    program: Program,
    classes: Sequence[ShapeClass],
    class_of: Sequence[int],
    readers: Mapping[int, tuple[int, int]],
    makers: Mapping[int, int],
) -> Mapping[str, Mention]:
    members: list[list[int]] = [[] for _ in classes]
    for value, number in enumerate(class_of):
        members[number].append(value)
    values: dict[str, list[int]] = {}
    for number, shape_class in enumerate(classes):
        for name in {name for dim in shape_class.shape or () for name in free_symbols(dim)}:
            values.setdefault(name, []).extend(members[number])
    found: dict[str, Mention] = {}
    for name, mentioning in values.items():
        first = min(mentioning)
        step = readers[first][0] if first in readers else makers.get(first, -1)
        found[name] = Mention(len(mentioning), program.steps[step].node.name if step >= 0 else "")
    return MappingProxyType(found)


def _roots(
    program: Program, specs: Sequence[OpSpec], bound: frozenset[int], strided: frozenset[int]
) -> Mapping[int, int]:
    roots = {value.id: value.id for value in program.values}
    for step, spec in zip(program.steps, specs, strict=True):
        constant = step.index < program.constant_steps
        for output, source in (*spec.view, *(spec.strided_view if constant else ())):
            if output >= len(step.outputs) or source >= len(step.inputs):
                continue
            value, origin = step.outputs[output], step.inputs[source]
            if ABSENT in (value, origin) or value in bound or roots[origin] in strided:
                continue
            roots[value] = roots[origin]
    return MappingProxyType(roots)


def _classes(program: Program) -> tuple[tuple[ShapeClass, ...], tuple[int, ...]]:
    numbers: dict[ShapeClass, int] = {}
    class_of = tuple(
        numbers.setdefault(ShapeClass(value.dtype, value.shape), len(numbers)) for value in program.values
    )
    return tuple(numbers), class_of


def _owners(
    program: Program,
    specs: Sequence[OpSpec],
    root_of: Mapping[int, int],
    bound: frozenset[int],
    uses: Mapping[int, int],
) -> tuple[Owner, ...]:
    last = dict(uses)
    for value, root in root_of.items():
        if value != root and value in uses:
            last[root] = max(last.get(root, -1), uses[value])
    owners: list[Owner] = []
    for step in program.steps[program.constant_steps :]:
        for position, value in enumerate(step.outputs):
            if value == ABSENT or value not in uses or value in bound or root_of[value] != value:
                continue
            item = program.values[value]
            if item.kind is not ValueKind.ACTIVATION or item.is_sequence:
                continue
            reuses = _reusable(program, step, position, specs[step.index], root_of, last, bound)
            owners.append(Owner(value, step.index, last[value], reuses))
    return tuple(owners)


def _reusable(
    program: Program,
    step: Step,
    position: int,
    spec: OpSpec,
    root_of: Mapping[int, int],
    last: Mapping[int, int],
    bound: frozenset[int],
) -> tuple[int, ...]:
    """Owners this output may overwrite: dead after this step, read by it once, and of one symbolic size.

    The size must be the same expression, not the same number: the plan's offsets also serve shorter
    sequences.
    """
    found: list[int] = []
    roots = [root_of[value] for value in step.inputs if value != ABSENT]
    for output, source in spec.in_place:
        if output != position or source >= len(step.inputs) or step.inputs[source] == ABSENT:
            continue
        root = root_of[step.inputs[source]]
        dead = last.get(root) == step.index and roots.count(root) == 1
        if root not in bound and dead and _same_size(program, root, step.outputs[position]):
            found.append(root)
    return tuple(found)


def _same_size(program: Program, first: int, second: int) -> bool:
    one, two = program.values[first], program.values[second]
    return one.shape is not None and one.shape == two.shape and bit_width(one.dtype) == bit_width(two.dtype)
