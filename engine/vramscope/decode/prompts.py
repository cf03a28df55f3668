"""What a prompt must be before it is prefilled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.graph.model import DecoderContract
    from vramscope.plan.types import Plan


def check_prompts(prompts: Sequence[Sequence[int]], contract: DecoderContract, plan: Plan) -> int:
    """The longest prompt's length.

    Raises:
        InputError: a wrong number of prompts, an empty one, one longer than the context, a token outside the
            vocabulary, or lengths that differ where the graph cannot mask them.
    """
    batch = plan.scenario.batch
    if len(prompts) != batch or any(not prompt for prompt in prompts):
        why = f"the batch is {batch} and no prompt may be empty"
        raise InputError(f"{len(prompts)} prompts", why, "Give every sequence a prompt of its own")
    longest = max(len(prompt) for prompt in prompts)
    if longest > plan.context:
        why = f"the context is {plan.context:,}"
        raise InputError(f"a prompt of {longest:,} tokens", why, "Shorten it or plan a longer context")
    outside = [item for prompt in prompts for item in prompt if not 0 <= item < contract.vocabulary]
    if outside:
        why = f"the vocabulary has {contract.vocabulary:,} tokens"
        raise InputError(f"token {outside[0]}", why, "Use this model's own tokenizer")
    ragged = any(len(prompt) != longest for prompt in prompts)
    if ragged and plan.scenario.prefill_chunk:
        why = "a prompt that is taken in several passes has one length for the whole batch"
        raise InputError("prompts of different lengths", why, "Prefill them in one pass, or one by one")
    if ragged and not all(pair.form.ragged for pair in contract.kv):
        which = "only GroupQueryAttention and PagedAttention keep one length a sequence"
        why = f"{which}; this graph has one for the whole batch"
        raise InputError("prompts of different lengths", why, "Pad them in the text, or run them one by one")
    return longest
