"""What stands beside the open model: a report in its place, a baseline, the newest comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.errors import InputError

if TYPE_CHECKING:
    from vramscope.messages.reporting import CompareParams
    from vramscope.report.compare import Comparison
    from vramscope.report.document import PlanDocument


class Shelf:
    """Keeps documents; none of them holds a model or a byte of a device."""

    def __init__(self) -> None:
        """Starts empty."""
        self.report: PlanDocument | None = None
        self.baseline: PlanDocument | None = None
        self.compared: Comparison | None = None
        self._tickets = 0

    def compare(self, params: CompareParams, shown: PlanDocument) -> Comparison:
        """Compares what is shown with the baseline, or with its own run.

        Raises:
            InputError: there is no baseline, or nothing ran.
        """
        from vramscope.report.compare import compare_plans, compare_run

        self._tickets += 1
        if params.run:
            self.compared = compare_run(shown, self._tickets)
        elif self.baseline is None:
            raise InputError(
                "the comparison", "nothing is kept to compare with", "Keep a plan as the baseline first"
            )
        else:
            self.compared = compare_plans(self.baseline, shown, self._tickets)
        return self.compared
