"""The desktop window: a client of the engine server, which it starts as a child process."""

NAME = "vramscope"
