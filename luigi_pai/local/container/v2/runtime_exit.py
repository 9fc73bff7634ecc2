"""What OpenPAI's runtime makes of a command's exit code: its own code, found by the code and the output.

The patterns are those of the exit specification of 1.8, in its order; the
first one that fits wins. They search the last 10 MiB of each log, without
regard to case.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from luigi_pai.local.releases import EXIT_UNRECOGNISED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

__all__ = ["runtime_exit"]

_SEARCHED = 10 * 1024 * 1024
_SHOWN = 4096 // 2
_REDACTED = 128 * 1024  # is redacted before it is cut: no protocol, so no secret, is longer
_USER_LINES, _RUNTIME_LINES = 15, 10


@dataclass(frozen=True)
class _Pattern:
    """One way to recognise a failure: by the exit code, and by the command's output.

    Attributes:
        user: regular expressions in small letters, one of which the output must
            fit; without one, any output does. ``.*`` is read by `_search`.
    """

    code: int
    exit_code: int | None = None
    user: tuple[str, ...] = ()


_PATTERNS = (
    *(_Pattern(code, code) for code in (130, 131, 132, 134, 135, 136, 137, 139, 141, 143)),
    _Pattern(220, 127, (r"command not found",)),
    _Pattern(221, user=(r"tensorflow.*resourceexhaustederror.*oom",)),
    _Pattern(221, user=(r"ran out of memory trying to allocate",)),
    _Pattern(222, user=(r"signal code: address not mapped",)),
    _Pattern(223, user=(r"cuda_error_ecc_uncorrectable",)),
    _Pattern(224, user=(r"cuda driver version is insufficient for cuda runtime version",)),
    _Pattern(225, user=(r"dropout supported only in cudnn v",)),
    _Pattern(226, user=(r"cuda runtime error (2) : out of memory",)),
    _Pattern(
        228,
        user=(
            r"unknown option",
            r"typeerror: dynamic_rnn() got multiple values for keyword argument",
            r"bad argument #2 to ",
            r"invalid argument:",
            r"option -start_symbol has no default value",
        ),
    ),
    _Pattern(
        229,
        user=(
            r"perhaps your file is in a different file format",
            r"bash: bd5/bd5_bar-train\.ids",
            r"exception occurred: error opening file",
            r"filenotfounderror: [errno 2] no such file or directory",
            r"unicodeencodeerror:",
            r"unicodedecodeerror",
            r"exception: unknown text header name",
            r"exception: unknown label header name",
            r"eoferror: ran out of input",
            r"utils\.lua:.*input/output error",
            r"errors\.unknownerror:.*input/output error",
            r"cp: failed to close.*input/output error",
            r"exception occurred:.*input/output error",
        ),
    ),
    _Pattern(230, user=(r"valueerror: restore called with invalid save path",)),
    _Pattern(
        231,
        user=(
            r"syntaxerror: invalid syntax",
            r"unpicklingerror",
            r"nameerror: name.* is not defined",
            r"assign requires shapes of both tensors to match",
            r"torch/install/share/lua.*c.* exception",
            r"attributeerror:.*has no attribute",
        ),
    ),
    _Pattern(232, user=(r"importerror:",)),
    _Pattern(233, user=(r"indexerror:.*index out of range",)),
    _Pattern(234, user=(r"segmentation fault",)),
    _Pattern(235, user=(r"core dumped",)),
)


def runtime_exit(
    code: int, user_logs: Sequence[Path], runtime_log: Path, redact: Callable[[str], str]
) -> tuple[int, dict[str, Any]]:
    """Translate the exit code of a command that failed; return it with the runtime's termination message.

    Args:
        code: what the command, or a plugin before or after it, ended with.
        user_logs: the files of the command's output.
        runtime_log: the file of what plugins wrote.
        redact: redacts the secrets in a text; called before anything is cut off.
    """
    user = b"".join(map(_end_of, user_logs))
    runtime = _end_of(runtime_log)
    small = user.lower()  # of bytes: every letter stays where it is
    info: dict[str, Any] = {"exitCode": EXIT_UNRECOGNISED, "originUserExitCode": code}
    for pattern in _PATTERNS:
        if pattern.exit_code not in (None, code):
            continue
        places = [place for place in (_search(text, small) for text in pattern.user) if place]
        if pattern.user and not places:
            continue
        info["exitCode"] = pattern.code
        if places:
            begin, end = min(places)
            info["matchedUserLogString"] = redact(_text(user[begin : min(end, begin + _REDACTED)]))[:_SHOWN]
        break
    info["errorLogs"] = {
        "user": _last_lines(redact(_text(user[-_REDACTED:])), _USER_LINES),
        "platform": _last_lines(redact(_text(runtime[-_REDACTED:])), _RUNTIME_LINES),
    }
    return info["exitCode"], info


def _search(pattern: str, text: bytes) -> tuple[int, int] | None:
    """Return where a text fits a pattern; ``.*`` stands for anything up to the next part in the same line.

    A regular expression with ``.*`` would read the rest of a line again from
    each place where it could begin: for hours, in a log that is one long line.
    """
    first, *others = (re.compile(part.encode()) for part in pattern.split(".*"))
    found = first.search(text)
    while found is not None:
        line_end = text.find(b"\n", found.end())
        line_end = len(text) if line_end < 0 else line_end
        begin, end = found.span()
        for part in others:
            following = part.search(text, end, line_end)
            if following is None:
                break
            end = following.end()
        else:
            return begin, end
        found = first.search(text, line_end)
    return None


def _end_of(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _SEARCHED))
            return file.read(_SEARCHED)
    except OSError:
        return b""


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _last_lines(text: str, count: int) -> str:
    return "\n".join(text[-_SHOWN:].splitlines()[-count:])
