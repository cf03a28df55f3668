"""An exception as the fields of a failure: the engine's own in words, others with their traceback."""

from __future__ import annotations

import dataclasses
import traceback

from vramscope.errors import VramscopeError
from vramscope.protocol import ErrorInfo

_SENTENCE = ("what", "why", "remedy", "node")


def error_info(error: Exception, subject: str) -> ErrorInfo:
    """The fields of any exception.

    Args:
        error: what was raised.
        subject: what was asked for, named when the exception does not say.
    """
    if isinstance(error, VramscopeError):
        return _own(error)
    trace = "".join(traceback.format_exception(error))
    if isinstance(error, MemoryError):
        return ErrorInfo(
            code="HostMemory",
            what=subject,
            why="the operating system has no more memory for this process",
            remedy="Lower the context or the batch, or close other programs",
            details={"traceback": trace},
        )
    return ErrorInfo(
        code="Internal",
        what=subject,
        why=f"{type(error).__name__}: {error}",
        remedy="This is a defect of VRAMScope; please report it with the details",
        details={"traceback": trace},
    )


def _own(error: VramscopeError) -> ErrorInfo:
    extra = {
        item.name: str(getattr(error, item.name))
        for item in dataclasses.fields(error)
        if item.name not in _SENTENCE
    }
    return ErrorInfo(
        code=error.code, what=error.what, why=error.why, remedy=error.remedy, node=error.node, details=extra
    )
