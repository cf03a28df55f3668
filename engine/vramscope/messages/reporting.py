"""Reports and comparisons: a saved plan read back, and two plans (or a plan and its run) side by side."""

from __future__ import annotations

import msgspec

from vramscope.messages.headroom import HeadroomCurves
from vramscope.messages.live import SnapshotInfo
from vramscope.messages.model import ModelInfo
from vramscope.messages.planning import BytesFigure, ComponentInfo, PlanInfo, ScenarioInfo
from vramscope.messages.running import ProfileInfo


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured while the model ran, beside what was planned for that very run."""

    device: str
    scenario: ScenarioInfo
    components: list[ComponentInfo]
    """As planned."""
    total: BytesFigure
    """As planned."""
    snapshot: SnapshotInfo
    profile: ProfileInfo | None = None
    """What each node of the decode step took, where it was profiled."""
    groups: list[list[int]] = []
    """Steps of the program that the device made one launch."""


class ReportParams(msgspec.Struct, frozen=True, kw_only=True):
    """Shows a saved report in the place of the open model."""

    path: str


class ReportInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A report that was read; its node rows follow as tables, as those of a plan do."""

    path: str
    model: ModelInfo
    plan: PlanInfo
    run: RunRecord | None = None
    headroom: HeadroomCurves | None = None
    """As they were when the report was saved."""
    detailed: bool = False
    """Whether it can be asked for nodes and their neighbours."""


class BaselineParams(msgspec.Struct, frozen=True, kw_only=True):
    """What later plans are compared with: a model, a sample or a report; nothing: what is shown now.

    A model is planned in ``scenario``, or in the newest plan's where there is none.
    """

    as_it_is: bool = False
    """What is shown, without the other export that its scenario assumes."""

    path: str = ""
    sample: str = ""
    scenario: ScenarioInfo | None = None


class CompareParams(msgspec.Struct, frozen=True, kw_only=True):
    """Compares the baseline with what is shown now; ``run``: what was planned with what the run took."""

    run: bool = False


class SideInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One side of a comparison; ``kind`` is plan or run."""

    kind: str
    name: str
    path: str
    asked: list[str]
    """The scenario, a few words each."""
    total: BytesFigure
    verdict: str
    identity: str
    """Equal for two plans of the same graph."""
    decoder: bool = False


class DifferenceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One thing on both sides; None where a side lacks it, and a difference only where both are known."""

    name: str
    left: BytesFigure | None
    right: BytesFigure | None
    difference: int | None
    """Right less left."""
    phase: str = ""


class CompareInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Two sides; nodes follow as table ``compare:nodes`` with this ``ticket``, largest difference first."""

    ticket: int
    left: SideInfo
    right: SideInfo
    total: DifferenceInfo
    components: list[DifferenceInfo]
    layers: list[DifferenceInfo]
    matched: int
    """Nodes on both sides."""
    changed: int
    """Of these, nodes whose bytes differ."""
    only_left: int
    only_right: int
