"""Transfer: the summary of an upload or a download."""

from __future__ import annotations

from dataclasses import dataclass

from luigi_pai.outgoing.never_sent import summary_of_left_out

__all__ = ["Transfer", "readable"]

_STEP = 1024
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


@dataclass(frozen=True)
class Transfer:
    """The summary of an upload or a download; as text, one line.

    Attributes:
        done: ``uploaded`` or ``downloaded``.
        destination: as given.
        moved: number of new and changed files, which were sent or fetched.
        files: number of all files.
        size: bytes that were sent or fetched.
        left_out: names of the files and folders that an upload left out, as they may contain credentials.
    """

    done: str
    destination: str
    moved: int
    files: int
    size: int
    left_out: tuple[str, ...] = ()

    def __str__(self) -> str:
        files = "file" if self.files == 1 else "files"
        text = (
            f"{self.done} {self.moved:,} of {self.files:,} {files}, {readable(self.size)}, "
            f"to {self.destination}"
        )
        return "; ".join(filter(None, (text, summary_of_left_out(self.left_out))))


def readable(size: float) -> str:
    """Return a number of bytes as ``512 B``, ``12 KiB`` or ``1.5 GiB``."""
    units = iter(_UNITS)
    unit = next(units)
    while round(size) >= _STEP and unit != _UNITS[-1]:
        size, unit = size / _STEP, next(units)
    digits = 1 if size < 10 and size != round(size) else 0  # noqa: PLR2004 - two digits are enough
    return f"{size:.{digits}f} {unit}"
