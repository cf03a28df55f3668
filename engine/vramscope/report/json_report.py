"""A plan as versioned JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from vramscope.report.document import document

if TYPE_CHECKING:
    from vramscope.messages.model import ModelInfo
    from vramscope.messages.planning import PlanInfo
    from vramscope.plan.types import Plan


def json_text(model: ModelInfo, info: PlanInfo, plan: Plan) -> str:
    """The whole document, indented, with a newline at its end."""
    encoded = msgspec.json.encode(document(model, info, plan))
    return msgspec.json.format(encoded, indent=1).decode() + "\n"
