"""The engine's own short words, which the window shows: it sends them in English."""

from __future__ import annotations

from vramscope_app.translation import marked

COMPONENTS = (
    marked("weights"),
    marked("KV cache"),
    marked("activations"),
    marked("workspace"),
    marked("inputs and outputs"),
    marked("device context"),
    marked("total"),
)
CERTAINTIES = (
    marked("exact"), marked("bound"), marked("measured"), marked("growing"), marked("unknown"),
)  # fmt: skip
STATES = (
    marked("idle"),
    marked("warm-up"),
    marked("armed"),
    marked("ready"),
    marked("captured"),
    marked("unsupported"),
    marked("end of sequence"),
    marked("context full"),
    marked("no free KV block"),
)
SEVERITIES = (marked("error"), marked("warning"), marked("note"))
PRECONDITIONS = (
    marked("A prompt is prefilled"),
    marked("Room for one more token"),
    marked("No recording failed before"),
    marked("No control flow, no sequences"),
    marked("No shape depends on data"),
    marked("No shape grows by the step"),
    marked("Every node warm at its shapes"),
    marked("Every kernel can be recorded"),
)
SUGGESTIONS = (marked("Prefill in passes of at most 256 tokens"),)
"""Titles that no number changes; those that have one are worded by what they change, exports by their id."""
