"""Checking where weights say they live, before any is mapped: inside the folder, present, long enough."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath

from vramscope.errors import MissingWeightsError, ModelFileError

PLAN_WITHOUT = "open it without its weights (--without-weights), to plan it alone"


@dataclass(frozen=True, slots=True)
class Region:
    """Bytes ``[offset, offset + size)`` of an external file."""

    file: Path
    offset: int
    size: int
    present: bool = True
    """False: the file is missing or ends before the region does, and the opening allows that."""


@dataclass(slots=True)
class ExternalFiles:
    """The external files of one model folder; each is resolved and measured once per opening.

    With ``may_lack``, a file may be missing or incomplete: its regions are then not ``present``.
    """

    folder: Path
    may_lack: bool = False
    lacking: dict[tuple[str, int], int] = field(default_factory=dict)
    """Bytes of every region that is not here, by location and offset."""
    _known: dict[str, tuple[Path, int | None]] = field(default_factory=dict)

    def region(self, tensor: str, location: str, offset: int, length: int | None, size: int) -> Region:
        """The checked region of one tensor.

        Args:
            tensor: its name, for the message.
            location: the path as the model file spells it.
            offset: first byte.
            length: bytes as the model file says, None where it does not say.
            size: bytes that type and shape ask for.

        Raises:
            MissingWeightsError: the file is missing or too short, and may not be.
            ModelFileError: outside the folder, or lengths that disagree.
        """
        file, have = self._measured(tensor, location)
        if offset < 0 or (length is not None and length < 0):
            raise _refusal(tensor, location, f"offset {offset} or length {length} is negative")
        if length is not None and length != size:
            why = f"the file says {length:,} bytes, its type and shape need {size:,}"
            raise _refusal(tensor, location, why)
        if have is not None and offset + size <= have:
            return Region(file, offset, size)
        if not self.may_lack:
            raise self._missing(tensor, location, Region(file, offset, size), have)
        self.lacking[location, offset] = size
        return Region(file, offset, size, present=False)

    def _measured(self, tensor: str, location: str) -> tuple[Path, int | None]:
        """The real path and its bytes, None where there is no such file."""
        if location not in self._known:
            file = inside(self.folder, location, tensor)
            try:
                self._known[location] = (file, file.stat().st_size if file.is_file() else None)
            except OSError as error:
                raise _refusal(tensor, location, error.strerror or type(error).__name__) from error
        return self._known[location]

    def _missing(self, tensor: str, location: str, wanted: Region, have: int | None) -> MissingWeightsError:
        if have is None:
            why, remedy = "there is no such file", f"Put it into {self.folder}"
        else:
            why = (
                f"it needs bytes {wanted.offset:,} to {wanted.offset + wanted.size:,}, the file has {have:,}"
            )
            remedy = "The file is incomplete: copy or download it again"
        return MissingWeightsError(_weight(tensor, location), why, f"{remedy}, or {PLAN_WITHOUT}")


def inside(folder: Path, location: str, tensor: str) -> Path:
    """The real path of ``location`` under ``folder``: symbolic links followed and still inside.

    Raises:
        ModelFileError: an absolute path, a ``..``, or a link that leaves the folder.
    """
    remedy = "Keep the weights beside the model and refer to them by a relative path"
    if not location or "\0" in location:
        raise _refusal(tensor, location, "the location is empty or no path", remedy)
    windows = PureWindowsPath(location)
    if PurePosixPath(location).is_absolute() or windows.drive or windows.root:
        raise _refusal(tensor, location, "the location is an absolute path", remedy)
    if ".." in windows.parts or ".." in PurePosixPath(location).parts:
        raise _refusal(tensor, location, "the location leaves the model's folder through '..'", remedy)
    real = Path(os.path.realpath(folder / location))
    if not real.is_relative_to(os.path.realpath(folder)):
        copy = (
            f"Copy the folder with its links resolved (cp -rL {shlex.quote(str(folder))} COPY) and open COPY"
        )
        raise _refusal(tensor, location, "a symbolic link leads out of the model's folder", copy)
    return real


def _refusal(tensor: str, location: str, why: str, remedy: str = "Export the model again") -> ModelFileError:
    return ModelFileError(_weight(tensor, location), why, remedy)


def _weight(tensor: str, location: str) -> str:
    return f"weight {tensor!r} in external file {location!r}"
