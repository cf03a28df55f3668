"""Where each part of a reference kernel's scratch lies; nothing large lies outside it (L-01 to L-05)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from small_models import opened, session_of
from workspace_questions import F16, F32, SP, SS, contrib, experts, group, standard

from vramscope.api import make_plan, open_path
from vramscope.decode.decoder import Decoder
from vramscope.devices.host import HostDevice
from vramscope.errors import ShapeOverflowError, VramscopeError
from vramscope.graph.model import Node
from vramscope.ops.call import Call
from vramscope.plan.types import Scenario

if TYPE_CHECKING:
    from vramscope.ops.spec import WorkspaceRequirement

SAMPLES = Path(__file__).resolve().parents[2] / "resources" / "samples"
PRODUCT_CAP = 32 * 2**20
"""The preference cap of the reference's matrix products."""


def regions(need: WorkspaceRequirement) -> dict[str, tuple[int, int]]:
    """Offset and size by name."""
    return {item.name: (item.offset, item.size) for item in need.regions}


def ceil256(size: int) -> int:
    return -(-size // 256) * 256


# ------------------------------------------------------------------------------------ contrib Attention


@pytest.mark.parametrize(
    ("batch", "heads", "queries", "keys"), [(2, 4, 128, 96), (1, 3, 5, 7), (1, 8, 512, 512)]
)
def test_l01_contrib_attention_is_padded_scores_then_the_product_area(
    batch: int, heads: int, queries: int, keys: int
) -> None:
    for dtype, size in ((F16, 2), (F32, 4)):
        need = contrib(dtype, batch, heads, queries, keys)
        scores = batch * heads * queries * keys * size
        assert need.lifetime is SS
        assert need.bytes == ceil256(scores) + PRODUCT_CAP
        assert list(regions(need).values()) == [(0, scores), (ceil256(scores), PRODUCT_CAP)]


# ------------------------------------------------------------------------------------ default Attention


def test_l02_attention_lays_scores_staging_present_and_control_in_order() -> None:
    extents = (2, 4, 2, 3, 8)
    scores, row = 2 * 4 * 3 * (5 + 3) * 4, 2 * 2 * (5 + 3) * 8 * 4
    growing = standard(F32, extents, past=5)
    assert list(regions(growing).values()) == [
        (0, scores),
        (ceil256(scores), row),
        (ceil256(scores) + ceil256(row), row),
        (ceil256(scores) + 2 * ceil256(row), 16),
        (ceil256(scores) + 2 * ceil256(row) + 256, 16),
    ]
    assert growing.bytes == ceil256(scores) + 2 * ceil256(row) + 256 + 16, (
        "the end of the last part, not rounded"
    )
    alone = standard(F32, extents, past=5, outputs=1)
    assert len(alone.regions) == len(growing.regions), "present scratch takes the staging's place"
    fixed = standard(F32, extents, past=8, mask=8)
    assert [size for _, size in regions(fixed).values()] == [2 * 4 * 3 * (8 + 3) * 4, 16, 16]


def test_l02_attention_holds_its_scratch_for_the_session_only_in_a_single_row() -> None:
    assert standard(F32, (1, 2, 2, 1, 8), past=5).lifetime is SP
    assert standard(F32, (1, 2, 2, 2, 8), past=5).lifetime is SS
    assert standard(F32, (2, 2, 2, 1, 8), past=5).lifetime is SS
    scores = regions(standard(F16, (1, 2, 2, 1, 8), past=5))["scores"]
    assert scores == (0, 2 * 6 * 4), "scores are float32 whatever the inputs are"


# ------------------------------------------------------------------------------------ GroupQueryAttention


def test_l03_grouped_attention_stages_what_is_packed_and_transposes_what_has_rows() -> None:
    query, new = 32 * 8 * 64 * 2, 32 * 2 * 64 * 2
    packed = group(F16, (8, 2, 64, 32), 256, packed=1)
    assert packed.bytes == 2 * ceil256(query) + ceil256(query) + 2 * ceil256(new) == 114_688
    plain = group(F16, (8, 2, 64, 32), 256)
    assert plain.bytes == 2 * ceil256(query)
    assert packed.lifetime is plain.lifetime is SP


def test_l03_a_packed_single_row_overlays_its_transposed_query() -> None:
    query, new = 8 * 64 * 2, 2 * 64 * 2
    assert group(F16, (8, 2, 64, 1), 256, packed=1).bytes == ceil256(query) + 2 * ceil256(new)
    assert group(F16, (8, 2, 64, 1), 256).bytes == 0
    assert group(F16, (8, 2, 64, 1), 256, do_rotary=1).bytes == ceil256(query), (
        "rotary needs the transposed row"
    )


def test_l03_reference_scores_are_last_and_only_on_their_route() -> None:
    need = group(F32, (4, 2, 64, 8), 256)
    query, scores = 8 * 4 * 64 * 4, 4 * 8 * 256 * 4
    assert list(regions(need).values())[-1] == (2 * ceil256(query), scores)
    assert need.bytes == 2 * ceil256(query) + scores
    assert group(F16, (4, 2, 64, 8), 256).bytes == 2 * ceil256(query // 2), (
        "half precision has no reference scores"
    )
    assert group(F32, (4, 2, 512, 1), 256).bytes == 0, "a single row of up to 512 takes the decode route"
    assert group(F32, (4, 2, 513, 1), 256).bytes == 4 * 256 * 4


def test_l03_a_shortfall_of_scratch_names_what_is_needed_and_what_is_there() -> None:
    call = Call(Node("n", "GroupQueryAttention", "com.microsoft", 1, {}), (), [], (), ())
    call.scratch_bytes = np.empty(1024, np.uint8)
    with pytest.raises(VramscopeError, match="the kernel needs 1,280 bytes and 1,024 are prepared"):
        call.scratch((1280,), np.uint8)


# ------------------------------------------------------------------------------------ mixtures of experts


def test_l04_a_mixture_is_six_parts_at_256_and_nothing_for_no_rows() -> None:
    need = experts(3, 2, 64, 128)
    routed = 6
    sizes = [4 * routed, 4 * routed, 4 * routed * 128, 4 * routed * 64, 4 * routed * 64]
    assert [size for _, size in regions(need).values()] == sizes
    assert all(offset % 256 == 0 for offset, _ in regions(need).values())
    last = need.regions[-1]
    assert need.bytes == last.offset + last.size > 0
    assert (need.alignment, need.lifetime) == (256, SP)
    assert experts(0, 2, 64, 128).bytes == 0
    with pytest.raises(ShapeOverflowError, match="more than any device"):
        experts(2**40, 2, 2**20, 2**20)


# ------------------------------------------------------------------------------------ nothing beside the plan


def test_l05_no_run_allocates_the_product_cap_or_scores_beside_its_workspace() -> None:
    """A decoder, and an Attention whose scores are far larger than its tiles: all scratch is in the slots."""
    device = HostDevice()
    model = open_path(SAMPLES / "tiny-llama")
    plan = make_plan(model, Scenario(prompt=8, context=64))
    decoder = Decoder(model, plan, device=device)
    decoder.load()
    before = device.ledger.allocation_counts
    decoder.prefill([[5, 9, 11]])
    decoder.step()
    decoder.capture()
    decoder.replay()
    assert device.ledger.allocation_counts == before
    sizes = [
        counts.peak_bytes for site, counts in device.ledger.sites.items() if site.component == "workspace"
    ]
    assert max(sizes) < PRODUCT_CAP
    rows = 256
    one = f"float[1,2,{rows},8]"
    text = f"g ({one} q, {one} k, {one} v) => ({one} y) {{ y = Attention(q, k, v) }}"
    attention = HostDevice()
    session = session_of(opened(text, opsets='["" : 23]'), device=attention)
    feed = np.ones((1, 2, rows, 8), np.float32)
    session.run({"q": feed, "k": feed, "v": feed})
    names = {site.component for site in attention.ledger.sites}
    assert names == {"inputs and outputs", "workspace", "activations"}
    assert attention.ledger.component("activations").peak_bytes == 0
    assert attention.ledger.component("workspace").peak_bytes <= 2 * rows * rows * 4 + 2**20


def test_l05_the_reference_device_s_cap_is_a_bound_that_is_shared_and_not_summed() -> None:
    text = """g (float[8,64] x, float[64,64] w) => (float[8,64] y)
        { a = MatMul(x, w) y = MatMul(a, w) }"""
    plan = make_plan(opened(text), Scenario(runtime="reference"))
    assert plan.phases[0].workspace.total == PRODUCT_CAP
