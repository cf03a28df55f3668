"""What a replay must match of a binding, and how a difference is told."""

from __future__ import annotations

import numpy as np
import pytest

from vramscope.graph.dtypes import ElementType
from vramscope.run.bindings import Binding
from vramscope.run.signature import Difference, changed_error, field_text, signature_of


def binding(logical: int, written: int, **names: str) -> Binding:
    array = np.zeros(4, np.float32)
    fields = {"input": "", "output": "", **names}
    return Binding(
        fields["input"],
        fields["output"],
        ElementType.FLOAT,
        (4,),
        (logical,),
        (written,),
        array,
        array.ctypes.data,
    )


@pytest.mark.parametrize(
    ("names", "logical", "written", "accepts"),
    [
        ({"input": "a", "output": "b"}, 2, 2, True),
        ({"output": "b"}, 2, 3, True),
        ({"output": "b"}, 4, 4, False),
        ({"output": "b"}, 4, 2, False),
        ({"output": "b"}, 2, 4, False),
        ({"input": "a"}, 2, 2, False),
    ],
)
def test_a_smaller_output_is_accepted_where_a_length_is_shown(
    names: dict[str, str], logical: int, written: int, accepts: bool
) -> None:
    assert signature_of(binding(logical, written, **names)).accepts_output_subshape is accepts


def test_addresses_are_written_in_hexadecimal_and_counts_are_not() -> None:
    assert [field_text(item) for item in (2**20, 2**20 + 1, True, (1, 2))] == [
        "1048576",
        "0x100001",
        "True",
        "(1, 2)",
    ]


def test_the_blame_counts_the_others() -> None:
    first = Difference("x", "dtype", "FLOAT", "")
    assert changed_error([first]).why == "dtype was FLOAT and is nothing"
    two = changed_error([first, Difference("y", "count", "1", "2")])
    assert (two.why, two.binding) == ("dtype was FLOAT and is nothing, and 1 more changed: count", "x")
