"""The CUDA device for the tests in this folder; without one they are skipped with the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from vramscope.devices.cuda.device import CudaDevice
from vramscope.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cuda_calls import Bench


@pytest.fixture
def cuda() -> Iterator[CudaDevice]:
    """A device; everything is given back behind the test."""
    try:
        device = CudaDevice()
    except InputError as error:
        pytest.skip(str(error))
    yield device
    device.close()


@pytest.fixture
def bench(cuda: CudaDevice) -> Iterator[Bench]:
    """Runs single nodes."""
    from cuda_calls import Bench

    made = Bench(cuda)
    yield made
    made.close()
