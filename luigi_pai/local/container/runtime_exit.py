"""The exit code that OpenPAI's runtime derives from a command's exit code and output.

The patterns and their order are from 1.8's exit specification. The first exit code with a pattern that
matches is the result. The last 10 MiB of each of the command's logs are searched, ignoring case.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from luigi_pai.local.container.task_files import end_of
from luigi_pai.local.releases import EXIT_PATTERNS, EXIT_UNRECOGNISED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

_SEARCHED = 10 * 1024 * 1024
_SHOWN = 4096 // 2
# bytes of a log that are redacted before they are cut to _SHOWN; no protocol, and so no secret, has as many
_REDACTED = 128 * 1024
_USER_LINES, _RUNTIME_LINES = 15, 10


_SIGNALS = (130, 131, 132, 134, 135, 136, 137, 139, 141, 143)
"""Exit codes after signals, which are reported unchanged."""

_NOT_FOUND = 127
"""Bash's exit code for a command that was not found. Only after it is the first pattern searched (220)."""


def runtime_exit(
    code: int, user_logs: Sequence[Path], runtime_log: Path, redact: Callable[[str], str]
) -> tuple[int, dict[str, Any]]:
    """Translate a failed command's exit code; return the new code and the runtime's termination message.

    Args:
        code: exit code of the command, or of a plugin that ran before or after it.
        user_logs: the files of the command's output.
        runtime_log: the file of the plugins' output.
        redact: redacts the secrets in a string; called before the string is cut, because a cut secret is not
            found.
    """
    user = b"".join(end_of(path, _SEARCHED) for path in user_logs)
    runtime = end_of(runtime_log, _SEARCHED)
    small = user.lower()  # bytes.lower() changes no length, so a position is the same in both
    info: dict[str, Any] = {"exitCode": EXIT_UNRECOGNISED, "originUserExitCode": code}
    if code in _SIGNALS:
        info["exitCode"] = code
        patterns: Sequence[tuple[int, Sequence[str]]] = ()
    else:
        patterns = sorted(EXIT_PATTERNS.items())[code != _NOT_FOUND :]
    for known, texts in patterns:
        places = [place for place in (_search(text, small) for text in texts) if place]
        if places:
            begin, end = min(places)
            info["exitCode"] = known
            info["matchedUserLogString"] = redact(_text(user[begin : min(end, begin + _REDACTED)]))[:_SHOWN]
            break
    info["errorLogs"] = {
        "user": _last_lines(redact(_text(user[-_REDACTED:])), _USER_LINES),
        "platform": _last_lines(redact(_text(runtime[-_REDACTED:])), _RUNTIME_LINES),
    }
    return info["exitCode"], info


def _search(pattern: str, text: bytes) -> tuple[int, int] | None:
    """Return start and end of a pattern's first match in a string; ``.*`` matches anything within a line.

    The parts of the pattern are searched one by one, because `re` reads the rest of a line again from
    each possible start of a match with ``.*``, which takes hours in a log that is one long line.
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


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _last_lines(text: str, count: int) -> str:
    return "\n".join(text[-_SHOWN:].splitlines()[-count:])
