"""A node's launches once they are made, and the kernels of nodes that launch nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vramscope.devices.cuda.work import NoKernelError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.devices.cuda.library_form import AnyLaunch
    from vramscope.devices.cuda.platform import Issue
    from vramscope.devices.cuda.work import Work
    from vramscope.ops.call import Call, Tensor


@dataclass(frozen=True, slots=True)
class Prepared:
    """A node's launches at these inputs; ``refusal`` says why there are none."""

    inputs: tuple[Tensor | None, ...]
    launches: tuple[Issue, ...]
    refusal: str = ""


def nothing(_call: Call) -> None:
    """The node's work is done by another launch."""


def no_kernel(_work: Work) -> Sequence[AnyLaunch]:
    """The builder of operators that have none.

    Raises:
        NoKernelError: always.
    """
    raise NoKernelError("it has no CUDA kernel")
