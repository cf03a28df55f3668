"""The block formats of GGUF: elements and bytes of a block, and decoding to f32."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from vramscope.errors import UnsupportedOperatorError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope.graph.model import Array
    from vramscope.ops.kernels.planned import Values


@dataclass(frozen=True, slots=True)
class BlockFormat:
    """``elements`` weights in ``size`` bytes."""

    name: str
    elements: int
    size: int

    def blocks(self, depth: int) -> int:
        """Blocks of a row of ``depth`` weights; the last may be partly used."""
        return -(-depth // self.elements)


FORMATS: Mapping[str, BlockFormat] = MappingProxyType(
    {
        name: BlockFormat(name, elements, size)
        for name, elements, size in (
            ("mxfp4", 32, 17),
            ("q8_0", 32, 34),
            ("iq4_nl", 32, 18),
            ("iq4_xs", 256, 136),
            ("q2_k", 256, 84),
            ("q3_k", 256, 110),
            ("q5_k", 256, 176),
            ("q6_k", 256, 210),
            ("iq3_xxs", 256, 98),
            ("iq3_s", 256, 110),
            ("iq2_xxs", 256, 66),
            ("iq2_xs", 256, 74),
            ("iq2_s", 256, 82),
            ("iq1_s", 256, 50),
            ("iq1_m", 256, 56),
        )
    }
)


def block_format(name: str, node: str) -> BlockFormat:
    """The format called ``name``.

    Raises:
        UnsupportedOperatorError: no format has that name.
    """
    found = FORMATS.get(name)
    if found is None:
        known = ", ".join(FORMATS)
        raise UnsupportedOperatorError(
            f"block format {name!r}", "it is not known", f"Known are {known}", node
        )
    return found


def decode(form: BlockFormat, packed: Array, target: Values) -> None:
    """Write rows of blocks [rows, blocks, bytes] as f32 into ``target`` [rows, blocks · elements].

    q8_0 is decoded in place; the others go through ``gguf``, which takes a few times the tile in temporaries:
    callers keep tiles small.
    """
    rows, blocks, _ = packed.shape
    if form.name == "q8_0":
        grouped = target.reshape(rows, blocks, form.elements)
        data = np.ascontiguousarray(packed).view(np.uint8)
        np.copyto(grouped, data[:, :, 2:].view(np.int8))
        scales = np.ascontiguousarray(data[:, :, :2]).view(np.float16)
        np.multiply(grouped, scales, out=grouped)
        return
    from gguf import GGMLQuantizationType
    from gguf.quants import dequantize

    flat = np.ascontiguousarray(packed).reshape(rows, blocks * form.size)
    np.copyto(target, dequantize(flat, GGMLQuantizationType[form.name.upper()]))
