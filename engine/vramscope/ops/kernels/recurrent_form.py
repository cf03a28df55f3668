"""What LSTM, GRU and RNN nodes have in common: extents, attributes, activations, scratch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vramscope.errors import ModelGraphError
from vramscope.graph.dtypes import ElementType
from vramscope.ops.kernels.functors import functor
from vramscope.ops.kernels.planned import lay_out

if TYPE_CHECKING:
    from collections.abc import Callable

    from vramscope.graph.model import Node
    from vramscope.ops.kernels.functors import Functor
    from vramscope.ops.kernels.planned import Values
    from vramscope.ops.spec import WorkspaceQuery, WorkspaceRequirement

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
DEFAULTS = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}
_WITH_ALPHA = frozenset(("affine", "leakyrelu", "thresholdedrelu", "scaledtanh", "hardsigmoid", "elu"))
_WITH_BETA = frozenset(("affine", "scaledtanh", "hardsigmoid"))


@dataclass(frozen=True, slots=True)
class RecurrentForm:
    """Extents of one call: ``steps`` T, ``batch`` B, ``inputs`` I, ``hidden`` H, ``directions`` D.

    ``itemsize`` is that of the arithmetic (4, or 8 for double); ``half``: weights are widened first.
    """

    operator: str
    steps: int
    batch: int
    inputs: int
    hidden: int
    directions: int
    itemsize: int
    half: bool
    biased: bool
    peepholes: bool

    @property
    def gates(self) -> int:
        """Gates of the operator."""
        return GATES[self.operator]

    @property
    def width(self) -> int:
        """Gates · hidden size."""
        return self.gates * self.hidden

    def sizes(self) -> dict[str, int]:
        """Bytes of every region."""
        state = self.itemsize * self.batch * self.hidden
        return {
            "sequence": self.itemsize * self.steps * self.batch * self.inputs,
            "projected": self.itemsize * self.steps * self.batch * self.width,
            "step": self.itemsize * self.batch * self.width,
            "state": state,
            "cell": state if self.operator == "LSTM" else 0,
            "next": state,
            "next_cell": state if self.operator == "LSTM" else 0,
            "spare": state,
            "weight": self.itemsize * self.width * self.inputs if self.half else 0,
            "recurrence": self.itemsize * self.width * self.hidden if self.half else 0,
            "bias": self.itemsize * 2 * self.width if self.biased else 0,
            "peepholes": self.itemsize * 3 * self.hidden if self.peepholes else 0,
        }


def recurrent_form(query: WorkspaceQuery) -> RecurrentForm:
    """The form of a call.

    Raises:
        ModelGraphError: X, W or R has a wrong rank or extent.
    """
    node, source, weight, recurrence = query.node, query.input(0), query.input(1), query.input(2)
    hidden = recurrence.shape[-1] if recurrence.shape else 0
    gates = GATES[node.operator]
    ranks = (len(source.shape), len(weight.shape), len(recurrence.shape))
    if ranks != (3, 3, 3) or weight.shape[1:] != (gates * hidden, source.shape[2]):
        raise ModelGraphError(
            f"inputs of {node.qualified}",
            f"X {list(source.shape)}, W {list(weight.shape)} and R {list(recurrence.shape)} do not fit",
            "",
            node.name,
        )
    first, second, inputs = source.shape
    batch_first = node.integer("layout", 0) == 1
    return RecurrentForm(
        operator=node.operator,
        steps=second if batch_first else first,
        batch=first if batch_first else second,
        inputs=inputs,
        hidden=hidden,
        directions=weight.shape[0],
        itemsize=8 if source.dtype is ElementType.DOUBLE else 4,
        half=source.dtype in (ElementType.FLOAT16, ElementType.BFLOAT16),
        biased=query.input(3).present,
        peepholes=query.input(7).present,
    )


def recurrent_workspace(query: WorkspaceQuery) -> WorkspaceRequirement:
    """Scratch of LSTM, GRU and RNN: the whole sequence projected through W once, and one step's gates."""
    form = recurrent_form(query)
    return lay_out(f"host-{form.operator.lower()}", form.sizes())


def activations(node: Node, directions: int) -> list[tuple[Callable[[Values], None], ...]]:
    """The activation functions of every direction, each acting in place.

    ``activation_alpha`` and ``activation_beta`` are used up in order by the functions that take them.
    """
    default = DEFAULTS[node.operator]
    named = node.attributes.get("activations")
    names = tuple(str(name) for name in named) if isinstance(named, tuple) else default * directions
    alphas, betas = list(node.numbers("activation_alpha")), list(node.numbers("activation_beta"))
    bound: list[Callable[[Values], None]] = []
    for name in names:
        function, alpha, beta = functor(name, node.name)
        if name.lower() in _WITH_ALPHA and alphas:
            alpha = alphas.pop(0)
        if name.lower() in _WITH_BETA and betas:
            beta = betas.pop(0)
        bound.append(_bind(function, alpha, beta))
    per = len(default)
    return [tuple(bound[start : start + per]) for start in range(0, per * directions, per)]


def _bind(function: Functor, alpha: float, beta: float) -> Callable[[Values], None]:
    return lambda values: function(values, alpha, beta)
