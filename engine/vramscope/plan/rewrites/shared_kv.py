"""Past and present in one buffer, where a graph that returns them as a new tensor could be built otherwise.

The standard Attention writes its new rows with TensorScatter and learns the valid length from
``nonpad_kv_seqlen``; MultiHeadAttention becomes GroupQueryAttention, which writes in place (operators.md 4.2,
4.3 and 6). Every other way of growing a cache stays, and is named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.graph.edit import ProgramEdit
from vramscope.graph.links import link
from vramscope.graph.model import KvForm
from vramscope.plan.rewrites.grouped import grouped, grouped_refusal
from vramscope.plan.rewrites.scattered import scattered, scattered_refusal
from vramscope.plan.rewrites.types import Impossible, Rewritten, rebuilt

if TYPE_CHECKING:
    from vramscope.graph.links import Links
    from vramscope.graph.model import KvPair, Model, Step

ATTENTION, MULTIHEAD = ("", "Attention"), ("com.microsoft", "MultiHeadAttention")


def shared_kv(model: Model) -> Rewritten | Impossible:
    """``model`` with every growing cache kept in one buffer."""
    contract = model.contract
    if contract is None:
        return Impossible("it is no decoder: it has no KV cache")
    growing = [pair for pair in contract.kv if pair.form is KvForm.GROW]
    if not growing:
        return Impossible("past and present share one buffer already")
    links = link(model.program)
    steps: dict[int, Step] = {}
    for pair in growing:
        found = _attention(model, links, pair)
        if isinstance(found, Impossible):
            return found
        steps[found.index] = found
    edit = ProgramEdit(model.program)
    ordered = [steps[index] for index in sorted(steps)]
    scattered(edit, [step for step in ordered if _kind(step) == ATTENTION])
    grouped(edit, contract, [step for step in ordered if _kind(step) == MULTIHEAD])
    made = rebuilt(model, edit.finish())
    now = made.model.contract if isinstance(made, Rewritten) else None
    left = [pair for pair in now.kv if pair.form is KvForm.GROW] if now is not None else []
    return Impossible(f"{left[0].input!r}: {left[0].reason}") if left else made


def _kind(step: Step) -> tuple[str, str]:
    return step.node.domain, step.node.operator


def _attention(model: Model, links: Links, pair: KvPair) -> Step | Impossible:
    """The attention of a growing pair, where it can write in place when built otherwise."""
    value = model.program.value_named(pair.input)
    readers = () if value is None else links.read_by(value.id)
    if len(readers) != 1:
        return Impossible(f"{pair.input!r}: {pair.reason}")
    step = readers[0].step
    if _kind(step) == ATTENTION:
        why = scattered_refusal(model.program, step)
    elif _kind(step) == MULTIHEAD:
        why = grouped_refusal(model, links, step)
    else:
        why = pair.reason
    return Impossible(why, step.node.name) if why else step
