"""The desktop window: a client of the engine server, which it starts as a child process."""

NAME = "vramscope"
DEFAULT_SAMPLE = "tiny-llama"
"""Opened where nothing else is asked for."""
DESKTOP_ID = "org.vramscope.VRAMScope"
"""The name of the desktop entry, the icon and the AppStream component in ``packaging/linux``."""
