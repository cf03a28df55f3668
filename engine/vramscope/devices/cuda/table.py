"""The table of CUDA builders: which operators run on the card, and what builds their launches."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from vramscope.devices.cuda import (
    attention,
    convolution,
    elementwise,
    indexing,
    layout,
    mixture,
    multihead,
    paged,
    products,
    rows,
    selected,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope.devices.cuda.work import Builder

BUILDERS: Mapping[tuple[str, str], Builder] = MappingProxyType(
    {
        **elementwise.BUILDERS,
        **layout.BUILDERS,
        **rows.BUILDERS,
        **products.BUILDERS,
        **attention.BUILDERS,
        **mixture.BUILDERS,
        **multihead.BUILDERS,
        **paged.BUILDERS,
        **convolution.BUILDERS,
        **indexing.BUILDERS,
        **selected.BUILDERS,
    }
)
"""By (domain, operator). Everything else runs on the host, on copies."""
