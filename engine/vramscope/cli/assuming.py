"""``--as-if ID[,ID]``: the option, its list of rewrites, and what it adds to what is printed."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from vramscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vramscope.messages.planning import PlanInfo, SuggestionInfo

HELP = "help"
"""In the place of an id: lists them."""


class AsIf(argparse.Action):
    """Collects ids over commas and repetitions; ``help`` prints what there is and ends."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,
        option_string: str | None = None,  # argparse's own signature
    ) -> None:
        """Takes one occurrence of the option."""
        ids = [item.strip() for item in str(values).split(",") if item.strip()]
        if not ids:
            parser.error(f"argument --as-if: no id given; --as-if {HELP} lists them")
        if HELP in ids:
            print("\n".join(rewrite_lines()))
            parser.exit()
        setattr(namespace, self.dest, [*getattr(namespace, self.dest), *ids])


def add_as_if(group: argparse._ActionsContainer, what: str) -> None:
    """The option itself; ``what`` it does to the command, as a clause."""
    group.add_argument(
        "--as-if", metavar="ID[,ID]", action=AsIf, default=[],
        help=f"{what} as if it were exported otherwise, such as last-logits,kv8 (--as-if {HELP}: the list)",
    )  # fmt: skip


def rewrite_lines() -> Iterator[str]:
    """Every rewrite with its id, and how exporters are told."""
    from vramscope.plan.rewrites.table import REWRITES

    width = max(len(rewrite.id) for rewrite in REWRITES)
    for rewrite in REWRITES:
        yield f"{rewrite.id:<{width}}  {rewrite.title}"
        for family, how in rewrite.exporters.items():
            others = "otherwise" if len(rewrite.exporters) > 1 else "how"
            yield f"{'':<{width}}    {family or others}: {how}"


def assumption_lines(made: PlanInfo) -> Iterator[str]:
    """What the plan assumes, what that saves against the file, and how to export it so."""
    if not made.assumes:
        return
    yield f"Planned as if exported otherwise: {', '.join(item.title for item in made.assumes)}"
    if made.as_it_is is not None and made.total.bytes is not None:
        less = made.as_it_is - made.total.bytes
        word = "less" if less >= 0 else "more"
        saved = f"so exported it takes {format_bytes(abs(less))} {word}"
        yield f"  as it is         {format_bytes(made.as_it_is)}; {saved}"
    for item in made.assumes:
        if item.how:
            yield f"  {item.id:<15}  {item.how}"


def suggestion_words(item: SuggestionInfo) -> str:
    """A suggestion's title, with the option that plans another export."""
    wanted = item.change.get("as_if")
    return item.title if wanted is None else f"{item.title} (--as-if {wanted})"
