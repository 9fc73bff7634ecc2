"""What OpenPAI's runtime makes of a command's exit code: its own code, found by the code and the output.

The patterns are those of the exit specification of 1.8, in its order; the
first one that fits wins. They search the last 10 MiB of each log.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from luigi_pai.local.exit_specs import EXIT_UNRECOGNISED

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["EXIT_BARRIER", "RuntimeExit", "runtime_exit"]

EXIT_BARRIER = 10
"""What the ssh barrier ends with when it has waited in vain."""

_SEARCHED = 10 * 1024 * 1024
_SHOWN = 4096 // 2
_USER_LINES, _RUNTIME_LINES = 15, 10


@dataclass(frozen=True)
class _Pattern:
    """One way to recognise a failure: by the exit code, the command's output, the runtime's log."""

    code: int
    exit_code: int | None = None
    user: str = ""
    runtime: str = ""


_PATTERNS = (
    *(_Pattern(code, code) for code in (130, 131, 132, 134, 135, 136, 137, 139, 141, 143)),
    _Pattern(220, 127, r"(?i)command not found"),
    _Pattern(221, user=r"(?mi)tensorflow.*ResourceExhaustedError.*OOM"),
    _Pattern(221, user=r"(?i)ran out of memory trying to allocate"),
    _Pattern(222, user=r"(?i)Signal code: Address not mapped"),
    _Pattern(223, user=r"(?i)CUDA_ERROR_ECC_UNCORRECTABLE"),
    _Pattern(224, user=r"(?i)cuda driver version is insufficient for cuda runtime version"),
    _Pattern(225, user=r"(?i)dropout supported only in cudnn v"),
    _Pattern(226, user=r"(?i)cuda runtime error (2) : out of memory"),
    _Pattern(
        228,
        user=r"(?i)unknown option|typeerror: dynamic_rnn() got multiple values for keyword argument"
        r"|bad argument #2 to |invalid argument:|option -start_symbol has no default value",
    ),
    _Pattern(
        229,
        user=r"(?i)perhaps your file is in a different file format|bash: bd5/bd5_bar-train\.ids"
        r"|exception occurred: error opening file|filenotfounderror: [errno 2] no such file or directory"
        r"|unicodeencodeerror:|unicodedecodeerror|exception: unknown text header name"
        r"|exception: unknown label header name|eoferror: ran out of input"
        r"|(?:utils\.lua:|errors\.unknownerror:|cp: failed to close|exception occurred:).*input/output error",
    ),
    _Pattern(230, user=r"(?i)ValueError: Restore called with invalid save path"),
    _Pattern(
        231,
        user=r"(?i)syntaxerror: invalid syntax|unpicklingerror|nameerror: name.* is not defined"
        r"|assign requires shapes of both tensors to match|torch/install/share/lua.*c.* exception"
        r"|attributeerror:.*has no attribute",
    ),
    _Pattern(232, user=r"(?i)importerror:"),
    _Pattern(233, user=r"(?i)indexerror:.*index out of range"),
    _Pattern(234, user=r"(?i)segmentation fault"),
    _Pattern(235, user=r"(?i)core dumped"),
    _Pattern(249, EXIT_BARRIER, runtime=r"SSH barrier reaches max retry count"),
)


@dataclass(frozen=True)
class RuntimeExit:
    """How a task ended.

    Attributes:
        code: the exit code that the job sees.
        info: what the runtime writes down about a failure, in the words of its termination message.
    """

    code: int
    info: dict[str, Any]


def runtime_exit(code: int, user_logs: Sequence[Path], runtime_log: Path) -> RuntimeExit:
    """Translate the exit code of a command that failed.

    Args:
        code: what the command, or a plugin before or after it, ended with.
        user_logs: the files of the command's output.
        runtime_log: the file of what plugins wrote.
    """
    user = "".join(_end_of(path) for path in user_logs)
    runtime = _end_of(runtime_log)
    info: dict[str, Any] = {"exitCode": EXIT_UNRECOGNISED, "originUserExitCode": code}
    for pattern in _PATTERNS:
        if pattern.exit_code not in (None, code):
            continue
        found = re.search(pattern.user, user)
        platform = re.search(pattern.runtime, runtime)
        if found is None or platform is None:
            continue
        info["exitCode"] = pattern.code
        if found[0]:
            info["matchedUserLogString"] = found[0][:_SHOWN]
        if platform[0]:
            info["matchedPlatformLogString"] = platform[0]
        break
    info["errorLogs"] = {
        "user": _last_lines(user, _USER_LINES),
        "platform": _last_lines(runtime, _RUNTIME_LINES),
    }
    return RuntimeExit(info["exitCode"], info)


def _end_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _SEARCHED))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def _last_lines(text: str, count: int) -> str:
    return "\n".join(text[-_SHOWN:].splitlines()[-count:])
