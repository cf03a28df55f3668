"""What tests share: a bench over the stand-in of a card, and a session of one operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cuda_calls import Bench
from cuda_twin import Twin, twin_device
from small_models import RELU, opened, session_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vramscope.run.session import ProgramSession


@pytest.fixture
def made() -> Iterator[tuple[Bench, Twin]]:
    """The bench and the stand-in that counts what it launches."""
    device, twin = twin_device()
    bench = Bench(device)
    yield bench, twin
    bench.close()


@pytest.fixture
def relu() -> ProgramSession:
    """A session of one Relu over at most eight floats."""
    return session_of(opened(RELU), {"N": 8})
