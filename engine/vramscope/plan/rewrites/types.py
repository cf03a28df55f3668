"""A rewrite, what it makes of a model, and why it cannot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from vramscope.graph.contract import Origin, decoder_contract
from vramscope.graph.model import ABSENT, DecoderContract, Model, Weights

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope.graph.model import Program, Step


@dataclass(frozen=True, slots=True)
class Impossible:
    """Why a rewrite of this model is not made: a bare clause, and the node that is in the way."""

    reason: str
    node: str = ""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The model as a rewrite leaves it, and what of it stays as it was."""

    model: Model
    notes: tuple[str, ...] = ()


Apply: TypeAlias = Callable[[Model], Rewritten | Impossible]


@dataclass(frozen=True, slots=True)
class Rewrite:
    """One way in which a model could be exported otherwise.

    Attributes:
        id: what the user names it by.
        title: what is then different, as a noun.
        action: what to do, as a command.
        apply: the model so rewritten, or why not.
        exporters: how an exporter is told, by the first word of the dialect; "" for any other.
        suggested: whether it is looked at when bytes are to be saved.
    """

    id: str
    title: str
    action: str
    apply: Apply
    exporters: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    suggested: bool = True

    def how(self, contract: DecoderContract | None) -> str:
        """How to export a model of this dialect so; empty where nothing is known to do it."""
        family = contract.dialect.split("-")[0] if contract is not None else ""
        return self.exporters.get(family, self.exporters.get("", ""))


def rebuilt(model: Model, program: Program, notes: tuple[str, ...] = ()) -> Rewritten | Impossible:
    """``model`` with another program; what makes it a decoder is found anew, as when a file is opened."""
    contract = model.contract
    if contract is not None:
        found, _ = decoder_contract(program, Origin(model.producer, model.settings, {}))
        if found is None:
            return Impossible("nothing would tell any more that it is a decoder")
        contract = replace(found, eos_tokens=contract.eos_tokens, bos_token=contract.bos_token)
    return Rewritten(replace(model, program=program, contract=contract, weights=Weights.AS_IF), notes)


def given(step: Step, place: int) -> bool:
    """Whether a step has an input there."""
    return place < len(step.inputs) and step.inputs[place] != ABSENT
