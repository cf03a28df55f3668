"""Generating with drafts by lookup: passes verify several tokens, plain steps run where none is drafted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.run.events import never_cancelled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vramscope.decode.decoder import Decoder
    from vramscope.decode.speculation import Speculator
    from vramscope.run.events import CancelCheck


def generate_speculatively(
    decoder: Decoder,
    speculator: Speculator,
    prompt: Sequence[int],
    count: int,
    cancel: CancelCheck = never_cancelled,
) -> Iterator[int]:
    """The tokens that plain greedy decoding gives, several at a time where drafts hold.

    Ends after ``count`` tokens, at an end-of-sequence token, or where the context is full.

    Args:
        decoder: loaded, greedy, with a batch of one.
        speculator: of this decoder.
        prompt: token ids.
        count: tokens to generate at most.
        cancel: checked between passes and nodes.

    Raises:
        InputError: as :meth:`~vramscope.decode.decoder.Decoder.prefill` says.
    """
    history = list(prompt)
    fresh = [decoder.prefill([history], cancel).tokens[0]]
    contract = decoder.model.contract
    ends = contract.eos_tokens if contract is not None else ()
    while count > 0:
        yield from fresh[:count]
        history += fresh
        count -= len(fresh)
        if count <= 0 or history[-1] in ends or decoder.snapshot().position >= decoder.plan.context:
            return
        draft = speculator.draft(history) if speculator.fits() else ()
        fresh = (
            speculator.verify(history[-1], draft, cancel) if draft else [decoder.advance(cancel).tokens[0]]
        )
