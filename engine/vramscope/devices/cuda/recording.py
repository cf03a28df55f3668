"""Captures a CUDA stream's work as one graph, thread-locally; launches it, and asks CUDA about it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from vramscope.devices.base import GraphFacts
from vramscope.errors import RecordingError, VramscopeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from vramscope.devices.base import Action, Behind
    from vramscope.devices.cuda.platform import Issue, Platform
    from vramscope.devices.ledger import Ledger


class RecordedGraph:
    """One executable graph on its stream: a call launches it once, with the ledger sealed."""

    __slots__ = ("_facts", "_graph", "_ledger", "_platform")

    def __init__(self, graph: Any, platform: Platform, ledger: Ledger) -> None:  # noqa: ANN401 - CuPy has no types
        """``graph``: CuPy's."""
        self._graph = graph
        self._platform = platform
        self._ledger = ledger
        self._facts: GraphFacts | None = None

    def __call__(self) -> None:
        """Launches it."""
        with self._ledger.sealed("a replay"):
            self._graph.launch(self._platform.stream)

    @property
    def facts(self) -> GraphFacts:
        """Its nodes and its drawing, asked for once.

        Raises:
            VramscopeError: the driver refuses.
        """
        if self._facts is None:
            loader, handle = self._platform.loader, self._graph.graph
            self._facts = GraphFacts(loader.graph_nodes(handle), loader.graph_dot(handle))
        return self._facts


class Recorder:
    """Records on one stream. ``node`` is the one whose work is being recorded; empty outside a recording."""

    def __init__(self, platform: Platform, ledger: Ledger) -> None:
        """Nothing is recorded."""
        self._platform = platform
        self._ledger = ledger
        self.node = ""
        self.issues: list[Issue] = []

    def note(self, issues: Sequence[Issue]) -> None:
        """Remembers what was issued while recording."""
        if self.node:
            self.issues.extend(issues)

    def record(self, actions: Sequence[Action], behind: Behind) -> RecordedGraph:
        """Captures the actions as one graph and launches it once; ``behind`` is told as each was issued.

        Raises:
            RecordingError: an action failed, allocated, or read on the host.
        """
        self._platform.stream.synchronize()
        self.issues.clear()
        with self._ledger.sealed("the recording of a graph"), self._capture() as finish:
            for position, (name, action) in enumerate(actions):
                self.node = name
                try:
                    action()
                except (VramscopeError, self._platform.runtime.CUDARuntimeError) as error:
                    raise RecordingError.of(name, position, error) from error
                behind()
            graph = finish()
        graph.upload(self._platform.stream)
        replay = RecordedGraph(graph, self._platform, self._ledger)
        replay()
        return replay

    @contextmanager
    def _capture(self) -> Iterator[Callable[[], Any]]:
        """Capture mode for the block; whatever goes wrong, the stream leaves it."""
        stream = self._platform.stream
        stream.begin_capture(self._platform.runtime.streamCaptureModeThreadLocal)
        graph: list[Any] = []

        def finish() -> Any:  # noqa: ANN401 - CuPy has no types
            graph.append(stream.end_capture())
            return graph[0]

        try:
            yield finish
        finally:
            self.node = ""
            if not graph:
                self._abandon()

    def _abandon(self) -> None:
        try:
            self._platform.stream.end_capture()
        except self._platform.runtime.CUDARuntimeError:
            return
