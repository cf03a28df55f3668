"""How to start VRAMScope's programs in a process of their own: from a checkout, a wheel or a frozen build."""

from __future__ import annotations

import sys
from pathlib import Path

FROZEN = {"vramscope": "vramscope", "vramscope_app": "vramscope-app"}
"""Per module the program that a frozen build has for it; they stand beside each other."""


def command_of(module: str) -> tuple[str, ...]:
    """Program and first arguments that run ``module``: this Python with ``-m``, or the frozen program."""
    if getattr(sys, "frozen", False):
        return (str(Path(sys.executable).with_name(FROZEN[module])),)
    return sys.executable, "-m", module
