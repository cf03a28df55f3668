"""What tests of CUDA builders share: a bench over the stand-in of a card."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cuda_calls import Bench
from cuda_twin import Twin, twin_device

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def made() -> Iterator[tuple[Bench, Twin]]:
    """The bench and the stand-in that counts what it launches."""
    device, twin = twin_device()
    bench = Bench(device)
    yield bench, twin
    bench.close()
