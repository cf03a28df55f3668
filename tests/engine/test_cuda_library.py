"""What cuBLASLt is asked and told, on a stand-in for its C interface."""

from __future__ import annotations

import ctypes
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from vramscope.devices.cuda.driver import KernelLoader
from vramscope.devices.cuda.launch import Launch, Source
from vramscope.devices.cuda.library import ProductLibrary
from vramscope.devices.cuda.library_form import LibraryProduct, Operand
from vramscope.errors import VramscopeError

if TYPE_CHECKING:
    from collections.abc import Callable

A, B, C = 2**20, 2**21, 2**22
PRODUCT = LibraryProduct(
    "f16", 40, 64, 32, Operand(A, 32), Operand(B, 32, turned=True), Operand(C, 64), workspace=2**23, room=4096
)


class Function:
    """One function of the library: counted, its arguments kept."""

    def __init__(self, work: Callable[..., int]) -> None:
        self.work = work
        self.argtypes: Any = None

    def __call__(self, *arguments: Any) -> int:  # noqa: ANN401 - a C interface
        return self.work(*arguments)


class Lt:
    """Handles are numbers; attributes are remembered; ``refusals``: codes by function."""

    def __init__(self) -> None:
        self.alive: set[int] = set()
        self.made = 0
        self.calls: Counter[str] = Counter()
        self.attributes: dict[int, dict[int, int]] = {}
        self.shapes: dict[int, tuple[int, ...]] = {}
        self.products: list[tuple[Any, ...]] = []
        self.refusals: dict[str, int] = {}
        self.found = 1

    def __getattr__(self, name: str) -> Function:
        """The function of that name."""
        if not name.startswith("cublasLt"):
            raise AttributeError(name)
        function = Function(lambda *arguments: self._called(name, arguments))
        self.__dict__[name] = function
        return function

    def _called(self, name: str, arguments: tuple[Any, ...]) -> int:
        self.calls[name] += 1
        if name in self.refusals:
            return self.refusals[name]
        if name.endswith("Create"):
            self.made += 1
            arguments[0]._obj.value = self.made
            self.alive.add(self.made)
            self.shapes[self.made] = tuple(getattr(item, "value", item) for item in arguments[1:])
        elif name.endswith("Destroy"):
            self.alive.remove(arguments[0].value)
        elif name.endswith("SetAttribute"):
            item, attribute, value, size = arguments
            assert ctypes.sizeof(value._obj) == size.value
            self.attributes.setdefault(item.value, {})[attribute] = value._obj.value
        elif name.endswith("Heuristic"):
            self.asked = [item.value for item in arguments[:7]]
            arguments[9]._obj.value = self.found
        else:
            self.products.append(arguments)
        return 0


@pytest.fixture
def lt() -> Lt:
    return Lt()


def library_over(lt: Lt) -> ProductLibrary:
    return ProductLibrary(cast("ctypes.CDLL", lt))


def test_a_product_is_the_turned_one_of_column_major_matrices(lt: Lt) -> None:
    bound = library_over(lt).bind(PRODUCT, 7)
    bound()
    (call,) = lt.products
    _, descriptor, alpha, b, left, a, right, beta, c, out, d, again, _, workspace, room, stream = call
    assert (b, a, c, d) == (B, A, C, C)
    assert (workspace, room, stream) == (PRODUCT.workspace, PRODUCT.room, 7)
    factors = (ctypes.c_float * 2).from_address(alpha)
    assert (list(factors), beta) == ([1.0, 0.0], alpha + 4)
    assert lt.attributes[descriptor.value] == {3: 1, 4: 0}
    shapes = [lt.shapes[item.value] for item in (left, right, out)]
    assert shapes == [(2, 32, 64, 32), (2, 32, 40, 32), (2, 64, 40, 64)]
    assert again is out


def test_it_may_use_the_planned_workspace_alone_and_reduces_in_float32(lt: Lt) -> None:
    narrow = replace(PRODUCT, a=Operand(A + 2, 33))
    library_over(lt).bind(narrow, 7)
    assert lt.attributes[lt.asked[6]] == {1: 4096, 3: 2, 5: 256, 6: 2, 7: 256, 8: 256}


def test_a_form_is_asked_about_once(lt: Lt) -> None:
    library = library_over(lt)
    for product in (PRODUCT, replace(PRODUCT, a=Operand(A + 512, 32)), replace(PRODUCT, workspace=0)):
        library.bind(product, 7)
    assert lt.calls["cublasLtMatmulAlgoGetHeuristic"] == 1
    library.bind(replace(PRODUCT, a=Operand(A + 16, 32)), 7)
    library.bind(replace(PRODUCT, m=41), 7)
    library.bind(replace(PRODUCT, bias=A), 7)
    assert lt.calls["cublasLtMatmulAlgoGetHeuristic"] == 4


def test_biases_and_batches_are_told(lt: Lt) -> None:
    a, b, c = Operand(A, 32, step=1280), Operand(B, 64, step=2048), Operand(C, 64, step=2560)
    library_over(lt).bind(replace(PRODUCT, bias=A, count=3, a=a, b=b, c=c), 7)()
    _, descriptor, _, _, left, _, right, _, _, out, *_ = lt.products[0]
    assert lt.attributes[descriptor.value] == {3: 0, 4: 0, 7: 4, 8: A}
    batches = [lt.attributes[item.value] for item in (left, right, out)]
    assert batches == [{5: 3, 6: 2048}, {5: 3, 6: 1280}, {5: 3, 6: 2560}]


def test_everything_is_given_back(lt: Lt) -> None:
    library = library_over(lt)
    library.start(lambda _index: None, 0)
    library.bind(PRODUCT, 7)
    library.bind(replace(PRODUCT, bias=A), 7)
    assert lt.alive
    library.close()
    assert not lt.alive
    library.bind(PRODUCT, 7)()
    library.close()
    assert not lt.alive


def test_a_refused_launch_says_which_product(lt: Lt) -> None:
    bound = library_over(lt).bind(PRODUCT, 7)
    lt.refusals["cublasLtMatmul"] = 15
    with pytest.raises(VramscopeError, match="f16 40x64x32"):
        bound()


@pytest.mark.parametrize(
    "fault", ["cublasLtCreate", "cublasLtMatmulAlgoGetHeuristic", "none found", "missing"]
)
def test_own_kernels_do_what_the_library_does_not_have(
    lt: Lt, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lt.refusals = {fault: 3}
    lt.found = 0 if fault == "none found" else 1
    loader = KernelLoader.__new__(KernelLoader)
    loader._products = None if fault == "missing" else library_over(lt)
    own = Launch(Source("own", ""), "own", (1, 1, 1), (32, 1, 1), ())
    bound: list[object] = []

    def bind(launch: object, _stream: int, *, overlap: bool) -> object:
        assert overlap
        bound.append(launch)
        return launch

    monkeypatch.setattr(loader, "bind", bind)
    product = replace(PRODUCT, instead=lambda: own)
    assert loader._bound_product(product, 7, overlap=True) is cast("Any", own)
    assert bound == [own]
    with pytest.raises(VramscopeError):
        loader._bound_product(PRODUCT, 7, overlap=True)
