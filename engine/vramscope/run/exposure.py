"""Whether a binding shows kernels its valid prefix or its whole physical shape (semantics 2.3, 2.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.graph.links import link
from vramscope.graph.masks import freeze_refusal
from vramscope.graph.model import ABSENT

if TYPE_CHECKING:
    from vramscope.graph.links import Links
    from vramscope.graph.model import Program, Step


def reads_capacity(step: Step, position: int) -> bool:
    """Whether ``step`` reads that input at its *physical* extent: a capacity-form input.

    GroupQueryAttention's past; default Attention's past only where a mask input hides what is not valid;
    IndexShare's past only with its bias and its third output.
    """
    node = step.node
    if (node.domain, node.operator) == ("com.microsoft", "GroupQueryAttention"):
        return position in (3, 4)
    if (node.domain, node.operator) == ("", "Attention"):
        return position in (4, 5) and _given(step.inputs, 3)
    if (node.domain, node.operator) == ("pkg.nxrt", "IndexShare"):
        return position in (3, 4) and _given(step.inputs, 6) and _given(step.outputs, 2)
    return False


def tolerates_padding(step: Step, position: int) -> bool:
    """Whether ``step`` may see that input at the padded width."""
    summed = not step.node.domain and step.node.operator in ("Shape", "ReduceSum") and position == 0
    return summed or reads_capacity(step, position)


def _given(values: tuple[int, ...], position: int) -> bool:
    return position < len(values) and values[position] != ABSENT


def exposes_prefix(program: Program, links: Links, value: int, *, aliased: bool) -> bool:
    """Whether a binding of input ``value`` exposes its logical prefix, decided once when it is made.

    An aliased one (past and present in one buffer) exposes it unless every consumer uses the physical
    capacity; any other unless every consumer tolerates the padded width. An input nobody reads exposes it.
    """
    readers = links.read_by(value)
    test = reads_capacity if aliased else tolerates_padding
    hidden = bool(readers) and all(test(reader.step, reader.position) for reader in readers)
    return not hidden or (not aliased and value in program.outputs)


def mask_is_freeze_safe(program: Program, value: int) -> bool:
    """Whether ``value`` is an attention mask that a captured decode step may see at capacity width."""
    return not freeze_refusal(program, link(program), value)
