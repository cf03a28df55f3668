"""Doing it: bindings, signatures, eager runs, capture, replay, and the events they report."""
