"""Where the engine runs: on this machine, or behind ``ssh`` on one with a GPU."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from vramscope.errors import InputError
from vramscope.programs import command_of
from vramscope_app.translation import marked, tr

PROGRAM = "vramscope"
SSH = ("ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=15", "--")
"""No terminal and no question: whoever must type a password would wait for a prompt that nobody shows."""
REMEDY = marked("Write HOST, USER@HOST, or HOST:/path/to/vramscope; ports and keys belong into ~/.ssh/config")


@dataclass(frozen=True, slots=True)
class Place:
    """``destination`` as ssh knows it, empty for this machine; ``program`` is VRAMScope's command there."""

    destination: str = ""
    program: str = PROGRAM

    @classmethod
    def parse(cls, text: str) -> Place:
        """A place as a user writes it: ``HOST``, ``USER@HOST`` or ``HOST:PROGRAM``; empty is this machine.

        Raises:
            InputError: it could be taken for an option of ssh, has white space, or names no host.
        """
        destination, _, program = text.strip().partition(":")
        if not text.strip():
            return cls()
        if not destination or destination.startswith("-") or len(destination.split()) != 1:
            what = tr("the machine {text!r}", text=text)
            raise InputError(what, tr("it names no host for ssh"), tr(REMEDY))
        return cls(destination, program.strip() or PROGRAM)

    @property
    def remote(self) -> bool:
        """Whether paths are those of another machine."""
        return bool(self.destination)

    @property
    def command(self) -> tuple[str, ...]:
        """Program and arguments of an engine there that speaks over standard input and output."""
        if not self.remote:
            return (*command_of("vramscope"), "serve")
        return (*SSH, self.destination, f"{shlex.quote(self.program)} serve")

    def __str__(self) -> str:
        """As :meth:`parse` reads it."""
        return self.destination if self.program == PROGRAM else f"{self.destination}:{self.program}"


HERE = Place()
