"""Numbers of a scenario that cannot be planned: each is refused by name, with the reason and the remedy."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from vramscope.errors import ScenarioError
from vramscope.graph.dtypes import BYTES_LIMIT
from vramscope.plan.options import binding_option
from vramscope.plan.types import CUDA_RUNTIME, OWN_RUNTIME, REFERENCE_RUNTIME, Scenario

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from vramscope.graph.model import Model
    from vramscope.plan.symbols import PhaseBindings

ZERO = {
    "context": "the model's own limit",
    "prefill chunk": "the whole prompt in one pass",
    "block size": "the model's own",
    "number of KV blocks": "as many as full sequences need",
}
"""What 0 means, where it may be given."""

KNOWN_SYMBOLS = 8
"""How many symbols a refusal names."""


def check_scenario(scenario: Scenario, symbols: Collection[str]) -> None:
    """Refuses numbers that no model can be planned with.

    Args:
        scenario: what is asked.
        symbols: every symbol of the program.

    Raises:
        ScenarioError: names the first number that cannot be, why, and what to give instead.
    """
    least = {
        "batch": (scenario.batch, 1),
        "prompt": (scenario.prompt, 1),
        "context": (scenario.context, 0),
        "smallest KV bucket": (scenario.bucket.minimum, 1),
        "prefill chunk": (scenario.prefill_chunk, 0),
        "block size": (scenario.block_size, 0),
        "number of KV blocks": (scenario.kv_blocks, 0),
    }
    for name, (number, smallest) in least.items():
        if number < smallest:
            why = "it is negative" if smallest == 0 else f"it is below {smallest}"
            remedy = f"Give 0 for {ZERO[name]}, or more" if smallest == 0 else "Give 1 or more"
            raise ScenarioError(f"a {name} of {number:,}", why, remedy)
        _check_size(f"a {name} of {number:,}", number)
    if scenario.weight_budget is not None and scenario.weight_budget <= 0:
        what = f"a weight budget of {scenario.weight_budget:,} bytes"
        raise ScenarioError(what, "it holds no weight", "Give a weight budget above 0")
    for name, maximum in scenario.maxima.items():
        _check_number("maximum", name, maximum, symbols)
    for name, extent in scenario.extents.items():
        _check_number("extent", name, extent, symbols)
    if scenario.runtime not in (OWN_RUNTIME, CUDA_RUNTIME, REFERENCE_RUNTIME):
        choices = f"Choose {OWN_RUNTIME}, {CUDA_RUNTIME} or {REFERENCE_RUNTIME}"
        raise ScenarioError(f"runtime {scenario.runtime!r}", "it is not known", choices)


def _check_size(what: str, number: int) -> None:
    if number > BYTES_LIMIT:
        raise ScenarioError(what, "it exceeds any device", f"Give at most {BYTES_LIMIT:,}")


def _check_number(kind: str, name: str, number: int, symbols: Collection[str]) -> None:
    if name not in symbols:
        near = difflib.get_close_matches(name, symbols, n=KNOWN_SYMBOLS)
        shown = near or sorted(symbols)[:KNOWN_SYMBOLS]
        more = f" and {len(symbols) - len(shown)} more" if not near and len(symbols) > len(shown) else ""
        remedy = f"It has {', '.join(shown)}{more}" if shown else "It has none: every extent is fixed"
        raise ScenarioError(f"the {kind} of {name!r}", "the model has no such symbol", remedy)
    if number < 0:
        raise ScenarioError(
            f"the {kind} {number:,} of {name}", "an extent is never negative", "Give 0 or more"
        )
    _check_size(f"the {kind} {number:,} of {name}", number)


def idle_maxima(model: Model, scenario: Scenario, phases: Sequence[PhaseBindings]) -> list[str]:
    """A sentence for each declared maximum that changes nothing.

    Because its symbol is bound in every phase.
    """
    notes: list[str] = []
    for name, maximum in scenario.maxima.items():
        if all(name in phase.symbols for phase in phases):
            source = phases[0].sources[name]
            extents = " and ".join(f"{phase.symbols[name]:,} ({phase.phase.value})" for phase in phases)
            option = binding_option(model, scenario, phases[0].phase, name, phases[0].symbols[name])
            cure = f"; {option} sets it" if option else ""
            notes.append(
                f"The maximum {maximum:,} of {name} changes nothing: {source} binds it to {extents}{cure}"
            )
    return notes
