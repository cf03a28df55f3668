"""A plan as versioned JSON: what ``.vramscope.json`` holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from vramscope.report.document import PlanDocument


def json_text(document: PlanDocument) -> str:
    """The whole document, indented, with a newline at its end."""
    return msgspec.json.format(msgspec.json.encode(document), indent=1).decode() + "\n"
