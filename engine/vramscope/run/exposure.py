"""Whether a binding shows kernels its valid prefix or its whole physical shape (semantics 2.3, 2.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.graph.capacity import reads_capacity, tolerates_padding
from vramscope.graph.links import link
from vramscope.graph.masks import freeze_refusal

if TYPE_CHECKING:
    from vramscope.graph.links import Links
    from vramscope.graph.model import Program


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
