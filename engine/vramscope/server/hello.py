"""Who answers: versions, devices, cards and samples."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version

from vramscope.errors import ProtocolError
from vramscope.messages.model import CardInfo, Hello, HelloParams
from vramscope.protocol import VERSION
from vramscope.server.devices import list_devices
from vramscope.server.samples import known_samples


def engine_version() -> str:
    """The installed version, or ``unknown`` in a source tree that was never installed."""
    try:
        return version("vramscope")
    except PackageNotFoundError:
        return "unknown"


def hello(params: HelloParams) -> Hello:
    """Answers a client that speaks this version.

    Raises:
        ProtocolError: it speaks another one.
    """
    if params.version != VERSION:
        raise ProtocolError(
            f"protocol version {params.version}",
            f"this engine speaks version {VERSION}",
            "Install the same version of VRAMScope on both sides",
        )
    return Hello(
        version=VERSION,
        engine_version=engine_version(),
        python=platform.python_version(),
        process=os.getpid(),
        devices=list_devices(),
        cards=cards(),
        samples=known_samples(),
    )


def cards() -> list[CardInfo]:
    """The catalogue."""
    from vramscope.plan.cards import load_cards

    return [
        CardInfo(
            name=card.name,
            architecture=card.architecture,
            memory_bytes=card.memory_bytes,
            bandwidth_bytes_per_second=card.bandwidth_bytes_per_second,
        )
        for card in load_cards()
    ]
