"""What the exit code of a container usually means."""

from __future__ import annotations

import signal

__all__ = ["usual_cause"]

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
