"""A node's launches once they are made, and the kernels of nodes that launch nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from vramscope.devices.base import Pending, unwatched
from vramscope.devices.cuda.work import NoKernelError
from vramscope.errors import VramscopeError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vramscope.devices.base import BoundLaunch
    from vramscope.devices.cuda.library_form import AnyLaunch
    from vramscope.devices.cuda.platform import Issue
    from vramscope.devices.cuda.work import Builder, Work
    from vramscope.graph.model import Node
    from vramscope.ops.call import Call, Tensor
    from vramscope.ops.spec import Kernel, OpSpec

VOLATILE = "it reads on the host what may change from run to run"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A node's launches at these inputs; ``refusal`` says why there are none."""

    inputs: tuple[Tensor | None, ...]
    launches: tuple[Issue, ...]
    refusal: str = ""


@runtime_checkable
class Finalising(Protocol):
    """A kernel that can make final what a call needs without running it."""

    def finalise(self, call: Call) -> str:
        """Makes it; why it is not final, empty where it is."""


class Launching(Protocol):
    """What a node's kernel asks of its device."""

    def prepare(self, builder: Builder, node: Node, call: Call) -> Prepared:
        """Makes a call's launches; they wait in its memo unless they hang on what may change."""

    def run_on_host(self, node: Node, spec: OpSpec, call: Call, why: str) -> None:
        """Runs the host kernel on copies, and remembers why."""

    def note(self, launches: Sequence[Issue]) -> None:
        """Remembers what was issued while a graph is recorded."""


def node_kernel(device: Launching, builder: Builder, node: Node, spec: OpSpec) -> Kernel:
    """A node's kernels on the card where there are some, else its host kernel on copies."""

    def run(call: Call) -> None:
        made = call.memo
        if not isinstance(made, Prepared) or made.inputs is not call.inputs:
            made = device.prepare(builder, node, call)
        if made.refusal:
            device.run_on_host(node, spec, call, made.refusal)
        for launch in made.launches:
            launch()
        device.note(made.launches)

    def finalise(call: Call) -> str:
        memo = call.memo
        if isinstance(memo, Prepared) and memo.inputs is call.inputs:
            return ""
        made = device.prepare(builder, node, call)
        return VOLATILE if call.memo is None and not made.refusal else ""

    return _finalising(run, finalise)


def in_place_of(kernel: Kernel, other: Call, before: Callable[[], None] = unwatched) -> Kernel:
    """Another call in the place of the launch's own, behind launches that are ready."""

    def run(_call: Call) -> None:
        before()
        kernel(other)

    return _finalising(run, lambda _call: _finalised(kernel, other))


def _finalising(run: Kernel, finalise: Callable[[Call], str]) -> Kernel:
    """A function with a method: calling an object instead would cost every launch of an eager step."""
    vars(run)["finalise"] = finalise
    return run


def finalise_all(launches: Sequence[BoundLaunch]) -> tuple[Pending, ...]:
    """Makes final what launches need; what is computed late is left alone, for no graph holds it."""
    asked = (launch for launch in launches if not launch.late_inputs)
    found = ((launch.step.index, _finalised(launch.kernel, launch.call)) for launch in asked)
    return tuple(Pending(step, why) for step, why in found if why)


def _finalised(kernel: object, call: Call) -> str:
    try:
        return kernel.finalise(call) if isinstance(kernel, Finalising) else ""
    except VramscopeError as failure:
        return str(failure)


def nothing(_call: Call) -> None:
    """The node's work is done by another launch."""


def no_kernel(_work: Work) -> Sequence[AnyLaunch]:
    """The builder of operators that have none.

    Raises:
        NoKernelError: always.
    """
    raise NoKernelError("it has no CUDA kernel")
