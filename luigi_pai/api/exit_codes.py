"""Exit codes: what that of a container usually means, and sets of them as settings write them."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable

__all__ = ["EXIT_CODES_ADVICE", "exit_codes", "usual_cause"]

_CAUSES = {
    1: "the program failed; its log says why",
    2: "wrong arguments, or the shell could not read the command",
    126: "the command is there and cannot be executed: is it a script without its x bit?",
    127: "the command was not found: is it in the image, and on PATH?",
    128: "the program ended itself with a code out of range",
    137: "killed with SIGKILL: mostly for using more memory than memoryMB, or with the job",
    139: "a segmentation fault in the program or one of its libraries: mostly CUDA or a wrong build",
    143: "ended with SIGTERM: stopped, or moved away by the cluster",
    214: "stopped by its user (OpenPAI 0.x)",
    255: "the program ended with -1, or ssh failed",
    -210: "stopped by its user",
    -220: "stopped because its job was over",
}
_SIGNALS = 128
EXIT_CODES_ADVICE = "exit codes and ranges of them, such as 1, 75 or 134-139"
_RANGE = re.compile(r"\s*(-?\d+)\s*(?:-\s*(-?\d+)\s*)?")


def usual_cause(exit_code: int | None) -> str | None:
    """Return what an exit code usually comes from; None for 0 and for codes that programs choose freely."""
    if not exit_code:
        return None
    if exit_code in _CAUSES:
        return _CAUSES[exit_code]
    try:
        return f"ended by {signal.Signals(exit_code - _SIGNALS).name}" if exit_code > _SIGNALS else None
    except ValueError:
        return None


def exit_codes(value: object) -> tuple[range, ...]:
    """Return the ranges of exit codes that a value stands for.

    Args:
        value: ``"1, 128-255"``, a code, or a list of codes, ranges and such texts.

    Raises:
        ValueError: it stands for none; the text says what is valid.
    """
    if isinstance(value, str):
        parts: list[object] = [*value.split(",")]
    elif isinstance(value, Iterable) and not isinstance(value, range):
        parts = [*value]
    else:
        parts = [value]
    found = tuple(_codes(part) for part in parts)
    if not all(found):
        raise ValueError(EXIT_CODES_ADVICE)
    return found


def _codes(part: object) -> range:
    if isinstance(part, range):
        return part
    if isinstance(part, int) and not isinstance(part, bool):
        return range(part, part + 1)
    written = _RANGE.fullmatch(part) if isinstance(part, str) else None
    if written is None:
        raise ValueError(EXIT_CODES_ADVICE)
    first = int(written[1])
    return range(first, int(written[2] or first) + 1)
