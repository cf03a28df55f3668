"""Every error of the engine: what failed, on which thing, why, and what to do about it.

An error is data. Its sentence is built from its fields, so a caller (command line, window, test) reads the
fields and never parses prose. Dataclasses with ``eq=False``: a frozen exception would break ``contextlib``.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(eq=False)
class VramscopeError(Exception):
    """The root: ``what`` names the thing, ``why`` the reason, ``remedy`` the cure, ``node`` where to look."""

    what: str
    why: str
    remedy: str = ""
    node: str = ""

    def __post_init__(self) -> None:
        super().__init__(self.sentence())

    def __str__(self) -> str:
        return self.sentence()

    def sentence(self) -> str:
        """The whole message in one line: ``what: why (at node). remedy``."""
        where = f" (at node {self.node})" if self.node else ""
        tail = f". {self.remedy}" if self.remedy else ""
        return f"{self.what}: {self.why}{where}{tail}"

    @property
    def code(self) -> str:
        """A stable name for the kind of error, for programs."""
        return type(self).__name__.removesuffix("Error")


class InputError(VramscopeError):
    """What the user gave cannot be used: a file, a folder, a number. The command line exits with 2."""


class ModelFileError(InputError):
    """The model file or one of its companions is missing, damaged, or points outside its folder."""


class MissingWeightsError(ModelFileError):
    """An external file of weights is missing or too short; the model can still be planned without it."""


class ModelGraphError(InputError):
    """The graph in the file is not valid: a dangling name, a cycle, a wrong rank, a duplicate."""


class UnsupportedOperatorError(InputError):
    """No kernel, no model-local function and no reference implementation runs this operator."""


class ScenarioError(InputError):
    """A batch, prompt, context, budget or maximum that cannot be planned."""


class ShapeOverflowError(VramscopeError):
    """More than 2**63 - 1 elements or bytes: no device holds it (semantics 1.5, 1.12)."""


class BindingError(VramscopeError):
    """A binding that does not match the graph: name, type, rank, extent, device or size (semantics 1.12)."""


@dataclass(eq=False)
class InputNotFoundError(BindingError):
    """A name that is no input of the graph; ``known`` are its inputs (semantics 1.12)."""

    name: str = ""
    known: tuple[str, ...] = ()


@dataclass(eq=False)
class OutputNotFoundError(BindingError):
    """A name that is no output of the graph; ``known`` are its outputs (semantics 1.12)."""

    name: str = ""
    known: tuple[str, ...] = ()


@dataclass(eq=False)
class DtypeMismatchError(BindingError):
    """An element type that is not the declared one (semantics 1.12, 1.14)."""

    expected: str = ""
    got: str = ""


@dataclass(eq=False)
class RankMismatchError(BindingError):
    """A shape with another number of axes than declared (semantics 1.14)."""

    expected: int = 0
    got: int = 0


@dataclass(eq=False)
class ShapeMismatchError(BindingError):
    """An extent that contradicts a static dimension, or an output that its binding does not hold."""

    expected: tuple[int | str, ...] = ()
    got: tuple[int, ...] = ()


class SequenceOutputError(BindingError):
    """A sequence where only tensors can be: bound to a buffer, or asked for as a tensor."""


class ExternalMemoryError(BindingError):
    """Memory of the caller that cannot be used in place: null, misaligned, too short, not contiguous."""


@dataclass(eq=False)
class SymbolConflictError(BindingError):
    """Two bound inputs give one symbol different extents (semantics 1.14)."""

    symbol: str = ""
    first: int = 0
    second: int = 0
    first_source: str = ""
    second_source: str = ""


@dataclass(eq=False)
class UnboundedAxisError(VramscopeError):
    """An axis of a planned value has no provable ceiling: guessing would under-reserve (semantics 1.6)."""

    value: str = ""
    axis: int = 0
    symbol: str = ""
    input_index: int = 0
    operator: str = ""


@dataclass(eq=False)
class OutOfBudgetError(VramscopeError):
    """A reservation that the device's budget does not hold; nothing was changed (semantics 2.11)."""

    requested: int = 0
    available: int = 0
    site: str = ""


@dataclass(eq=False)
class TierExhaustedError(OutOfBudgetError):
    """A tier's limit does not hold the request, also after every other holder was asked (semantics 2.11)."""

    tier: str = ""


class InvalidRequestError(VramscopeError):
    """A request to the ledger or the governor that means nothing: a negative size, a foreign holder."""


@dataclass(eq=False)
class AllocationFailedError(VramscopeError):
    """The device refused memory; ``fits_after_trim`` says if cached blocks are all that is in the way."""

    requested: int = 0
    used: int = 0
    cached: int = 0
    fits_after_trim: bool = False


@dataclass(eq=False)
class CapacityUnavailableError(VramscopeError):
    """No capacity, because something below refused; ``cause`` is that refusal (semantics 2.11)."""

    cause: VramscopeError | None = None


@dataclass(eq=False)
class HeterogeneousExecutionUnsupportedError(VramscopeError):
    """``facility`` needs one device, and the session runs on two providers (semantics 1.21)."""

    facility: str = ""


@dataclass(eq=False)
class WorkspaceNotPreparedError(VramscopeError):
    """A slot that a capture may not replace is missing (``prepared`` 0) or too small (semantics 1.11)."""

    required: int = 0
    prepared: int = 0
    required_alignment: int = 1
    prepared_alignment: int = 0


class ReleasePendingError(VramscopeError):
    """A deferred release did not settle in time; waiting again may succeed (semantics 1.8)."""


class LedgerSealedError(VramscopeError):
    """An allocation was asked for while a graph is being captured or replayed."""


@dataclass(eq=False)
class RecordingError(VramscopeError):
    """Work that failed or allocated while it was recorded as a graph; ``action`` counts from 0."""

    action: int = 0

    @classmethod
    def of(cls, node: str, action: int, error: Exception) -> RecordingError:
        """The failure of one action: what its node raised, and what becomes of the node."""
        remedy = "The operator runs eagerly from now on"
        return cls("recording a graph", str(error), remedy, node, action)


class NeverCapturedError(VramscopeError):
    """A replay was asked for and no graph was ever captured on this slot (semantics 1.17)."""


class ResourcesChangedError(VramscopeError):
    """What a captured graph was recorded with is gone: its code, its weights, its device."""


@dataclass(eq=False)
class BindingsChangedError(VramscopeError):
    """A replay's bindings differ from the captured ones: the first binding and field (semantics 1.18)."""

    binding: str = ""
    field: str = ""
    old: str = ""
    new: str = ""


class DeferredValidationError(VramscopeError):
    """Kernels of this request found invalid data; known only once the device was waited for."""


class CancelledError(VramscopeError):
    """The user asked to stop; the session stays usable."""


class ProtocolError(VramscopeError):
    """A frame or a message that the other side must not have sent."""


class BrokenStreamError(ProtocolError):
    """A frame whose end cannot be found, so nothing after it can be read."""
