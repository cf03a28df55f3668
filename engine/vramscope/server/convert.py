"""Engine types to messages: the model, the scenario and the plan."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from vramscope.decode.tokenizer_files import has_chat_template
from vramscope.errors import ScenarioError
from vramscope.messages.model import ContractInfo, InputInfo, KvInfo, ModelInfo
from vramscope.messages.planning import (
    AssumptionInfo,
    AxisInfo,
    BytesFigure,
    ComponentInfo,
    PhaseInfo,
    PlanInfo,
    ProblemInfo,
    ScenarioInfo,
    SuggestionInfo,
    VerdictInfo,
)
from vramscope.plan.suggest import headroom_after
from vramscope.plan.types import BucketPolicy, Scenario, VerdictKind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from vramscope.graph.model import DecoderContract, Model, Program, WeightSource
    from vramscope.plan.types import AxisRow, Component, Figure, PhasePlan, Plan, Suggestion, Verdict

FIRST_CONTEXT = 2048
"""Tokens of context that are planned first, under the model's own limit: a long limit needs no long plan."""

FIRST_PROMPT = 64
"""Tokens of prompt that are planned first."""

DEFAULT_PROMPT = "The capital of France is"
"""Offered when the model has a tokenizer."""


def scenario_of(info: ScenarioInfo) -> Scenario:
    """The planner's question."""
    return Scenario(
        batch=info.batch,
        prompt=info.prompt,
        context=info.context,
        card=info.card,
        budget=info.budget,
        maxima=MappingProxyType(dict(info.maxima)),
        bucket=BucketPolicy(info.bucket_minimum, info.bucket_growing),
        extents=MappingProxyType(dict(info.extents)),
        runtime=info.runtime,
        weight_budget=info.weight_budget,
        prefill_chunk=info.prefill_chunk,
        block_size=info.block_size,
        kv_blocks=info.kv_blocks,
        as_if=tuple(info.as_if),
    )


def scenario_info(scenario: Scenario) -> ScenarioInfo:
    """The same as a message."""
    return ScenarioInfo(
        batch=scenario.batch,
        prompt=scenario.prompt,
        context=scenario.context,
        card=scenario.card,
        budget=scenario.budget,
        maxima=dict(scenario.maxima),
        bucket_minimum=scenario.bucket.minimum,
        bucket_growing=scenario.bucket.growing,
        extents=dict(scenario.extents),
        runtime=scenario.runtime,
        weight_budget=scenario.weight_budget,
        prefill_chunk=scenario.prefill_chunk,
        block_size=scenario.block_size,
        kv_blocks=scenario.kv_blocks,
        as_if=list(scenario.as_if),
    )


def first_scenario(contract: DecoderContract | None) -> ScenarioInfo:
    """What to plan when a model was just opened."""
    if contract is None:
        return ScenarioInfo()
    limit = contract.context_limit.value if contract.context_limit else FIRST_CONTEXT
    context = min(limit, FIRST_CONTEXT)
    return ScenarioInfo(context=context, prompt=max(1, min(FIRST_PROMPT, context // 2)))


def programs_of(program: Program) -> Iterator[Program]:
    """A program and every control-flow body inside it."""
    yield program
    for step in program.steps:
        for body in step.bodies.values():
            yield from programs_of(body)


def stored_weights(model: Model) -> list[WeightSource]:
    """Every stored weight once, however many values share it."""
    found: dict[str, WeightSource] = {}
    for program in programs_of(model.program):
        for weight in program.weights.values():
            found.setdefault(weight.identity, weight)
    return list(found.values())


def model_info(model: Model, sample: str = "") -> ModelInfo:
    """What the opened model is; a sample is called by its own name, not by the folder it was made in."""
    has_tokenizer = (model.folder / "tokenizer.json").is_file()
    named = model.folder.name if model.path.stem == "model" else model.path.stem
    return ModelInfo(
        path=str(model.path),
        name=sample or named,
        producer=model.producer,
        nodes=sum(len(program.steps) for program in programs_of(model.program)),
        weights_bytes=sum(weight.size for weight in stored_weights(model)),
        contract=None if model.contract is None else _contract(model.contract),
        inputs=_inputs(model.program),
        problems=list(model.problems),
        has_tokenizer=has_tokenizer,
        has_chat_template=has_chat_template(model.folder),
        has_weights=model.has_weights,
        default_prompt=DEFAULT_PROMPT if has_tokenizer else "",
        scenario=first_scenario(model.contract),
    )


def _inputs(program: Program) -> list[InputInfo]:
    values = [program.values[identity] for identity in program.inputs]
    return [
        InputInfo(name=value.name, dtype=value.dtype.name, dims=[str(dim) for dim in value.shape or ("?",)])
        for value in values
    ]


def _contract(contract: DecoderContract) -> ContractInfo:
    limit, blocks = contract.context_limit, contract.block_size
    return ContractInfo(
        dialect=contract.dialect,
        feeds={name: feed.value for name, feed in contract.feeds.items()},
        logits=contract.logits,
        layers=contract.layers,
        vocabulary=contract.vocabulary,
        context_limit=limit.value if limit else None,
        context_source=limit.source if limit else "",
        kv=[
            KvInfo(
                layer=pair.layer,
                role=pair.role,
                input=pair.input,
                output=pair.output,
                heads=pair.heads,
                head_size=pair.head_size,
                form=pair.form.value,
                reason=pair.reason,
            )
            for pair in contract.kv
        ],
        notes=list(contract.notes),
        block_size=blocks.value if blocks else 0,
        block_source=blocks.source if blocks else "",
    )


def bytes_figure(figure: Figure) -> BytesFigure:
    """Bytes and how they are known."""
    return BytesFigure(bytes=figure.bytes, certainty=figure.certainty.value)


def plan_info(
    plan: Plan,
    problems: Sequence[str],
    suggestions: Sequence[Suggestion] | None,
    *,
    ticket: int,
    milliseconds: float,
    growing: Collection[str] = (),
) -> PlanInfo:
    """The plan without its node rows.

    Args:
        plan: the answer of the planner.
        problems: the model's own, told again with every plan.
        suggestions: what would save bytes; None when nobody looked.
        ticket: names this plan; its node tables carry the same.
        milliseconds: how long planning took.
        growing: symbols that count the tokens there are.
    """
    return PlanInfo(
        ticket=ticket,
        scenario=scenario_info(plan.scenario),
        context=plan.context,
        context_source=plan.context_source,
        kv_capacity=plan.kv.capacity,
        kv_bytes_per_token=plan.kv.bytes_per_token,
        components=[component_info(item) for item in plan.components],
        total=bytes_figure(plan.total),
        verdict=_verdict(plan.verdict),
        axes=[_axis(row, grows=row.symbol in growing) for row in plan.axes],
        phases=[_phase(item) for item in plan.phases],
        suggestions=[
            SuggestionInfo(
                title=item.title,
                saves=item.saves,
                change=dict(item.change),
                headroom=headroom_after(plan, item),
                how=item.how,
            )
            for item in suggestions or ()
        ],
        problems=_problems(plan, problems),
        node_rows=sum(len(item.nodes) for item in plan.phases),
        milliseconds=milliseconds,
        brief=suggestions is None,
        assumes=[AssumptionInfo(id=item.id, title=item.title, how=item.how) for item in plan.assumes],
        as_it_is=plan.as_it_is,
    )


def component_info(component: Component) -> ComponentInfo:
    """One component."""
    return ComponentInfo(
        name=component.name.value, figure=bytes_figure(component.figure), detail=component.detail
    )


def _verdict(verdict: Verdict) -> VerdictInfo:
    return VerdictInfo(
        kind=verdict.kind.value,
        sentence=verdict.sentence,
        needed=bytes_figure(verdict.needed),
        available=verdict.available,
        headroom=verdict.headroom,
        blame=verdict.blame,
        largest_context=verdict.largest_context,
        largest_batch=verdict.largest_batch,
    )


def _axis(row: AxisRow, *, grows: bool) -> AxisInfo:
    return AxisInfo(
        symbol=row.symbol,
        low=row.low,
        high=row.high,
        certainty=row.certainty.value,
        kind=row.kind,
        source=row.source,
        derivation=list(row.derivation),
        uses=row.uses,
        first_node=row.first_node,
        refused=row.refused,
        editable=row.editable,
        grows=grows,
    )


def _phase(phase: PhasePlan) -> PhaseInfo:
    step = phase.arena.peak_step
    peak = next((row.name for row in phase.nodes if row.step == step and not phase.refusals), "")
    return PhaseInfo(
        name=phase.phase.value,
        arena_bytes=-1 if phase.refusals else phase.arena.bytes,
        arena_peak=-1 if phase.refusals else phase.arena.peak,
        arena_naive=-1 if phase.refusals else phase.arena.naive,
        workspace_bytes=-1 if phase.refusals else phase.workspace.total,
        peak_node=peak,
    )


def _problems(plan: Plan, problems: Sequence[str]) -> list[ProblemInfo]:
    refused = [item.error() for item in {item.symbol: item for item in reversed(plan.refusals)}.values()]
    found = [
        ProblemInfo(severity="error", text=f"{item.what}: {item.why}", remedy=item.remedy, node=item.node)
        for item in refused
    ]
    if plan.verdict.kind is VerdictKind.SHORT:
        found.append(ProblemInfo(severity="error", text=plan.verdict.sentence, remedy="", node=""))
    found += [ProblemInfo(severity="warning", text=text, remedy="", node="") for text in problems]
    notes = [text for text in plan.notes if text not in problems]
    found += [ProblemInfo(severity="note", text=text, remedy="", node="") for text in notes]
    return found


def check_maxima(plan: Plan) -> None:
    """Refuses a maximum of a symbol that the model lacks: a slip that would otherwise go unseen.

    Raises:
        ScenarioError: there is no such symbol.
    """
    symbols = [axis.symbol for axis in plan.axes]
    for symbol in plan.scenario.maxima:
        if symbol not in symbols:
            known = f"It has: {', '.join(symbols)}" if symbols else "It has none at all"
            raise ScenarioError(f"the maximum of {symbol}", "the model has no such symbol", known)
