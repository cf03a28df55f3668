"""One request and the device's validation latch: cleared, run, waited for, read, cleared (semantics 2.2)."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from vramscope.devices.latch import ErrorLatch, Latched
from vramscope.errors import DeferredValidationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vramscope.devices.base import Device


@contextmanager
def submission(device: Device, report: Callable[[int], None]) -> Iterator[None]:
    """Runs the block as one request.

    The latch is read only after the device was waited for, and cleared before and after, so that one
    request's flags never fail the next.

    Args:
        device: one without a latch never has flags.
        report: told of flags that were found, before they are raised.

    Raises:
        DeferredValidationError: kernels raised flags; a failure of the block itself is told in it too.
    """
    latch = device.latch if isinstance(device, Latched) else ErrorLatch()
    latch.reset()
    failure: BaseException | None = None
    try:
        yield
    except BaseException as error:
        failure = error
        raise
    finally:
        device.synchronize()
        flags = latch.read()
        latch.reset()
        if flags:
            report(flags)
            also = f"; and the run failed: {failure}" if failure is not None else ""
            raise DeferredValidationError(
                "this request's data",
                f"kernels raised the validation flags 0x{flags:x}{also}",
                "Check indices and lengths of the inputs",
            ) from failure
