"""FailedPosts: submissions that failed on the server, and whether the server or the job is the cause."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from luigi_pai.api.clock import Clock
    from luigi_pai.api.shared import SharedDocument
    from luigi_pai.errors import ServerFault

_KEY = "failed posts"
_OF_ONE_JOB = 500  # the HTTP status that a job itself may cause; 502 to 504 are the server's fault
_BROKEN_INSIDE = re.compile(r"\b(ECONNREFUSED|ECONNRESET|ETIMEDOUT)\b")  # errors between cluster services
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 15.0  # seconds


class FailedPosts:
    """All forked processes' failed posts since the server last accepted a post.

    A status other than 500 is always the server's fault. A 500 may be the job's fault, but it is the server's
    if the error names a broken connection, or if a second job gets the same error. For example, while 1.8's
    write merger is down, lookups work, but posts fail with ECONNREFUSED, then with ECONNRESET. While the
    server is at fault, only one post is sent every 0.5 to 15 s, to test on behalf of all jobs whether the
    server accepts submissions again. The other posts wait, because failed submissions also count towards the
    server's rate limit.

    Args:
        shared: A document that forked processes share.
        clock: The clock that measures the waits.
    """

    def __init__(self, shared: SharedDocument, clock: Clock) -> None:
        self._shared = shared
        self._clock = clock

    def record(self, name: str, error: ServerFault) -> bool:
        """Record a failed post of a job; return whether the server is at fault."""
        message = f"{error.code} {error.server_message}"
        cause = f"{error.status} {message.replace(name, 'NAME')}"
        with self._shared.update() as state:
            last = state.get(_KEY)
            if last is not None and last["is_servers"]:
                return True
            is_repeated = last is not None and last["cause"] == cause and last["name"] != name
            is_servers = error.status != _OF_ONE_JOB or bool(_BROKEN_INSIDE.search(message)) or is_repeated
            state[_KEY] = {
                "cause": cause,
                "name": name,
                "is_servers": is_servers,
                "next": self._clock.monotonic() + _FIRST_WAIT,
                "wait": _FIRST_WAIT,
            }
            return is_servers

    def wait(self) -> float:
        """Return the seconds until the caller may post. In an outage, only one caller per wait gets 0.0."""
        if not self._shared.read().get(_KEY, {}).get("is_servers"):
            return 0.0
        with self._shared.update() as state:
            last, now = state.get(_KEY), self._clock.monotonic()
            if last is None:
                return 0.0
            if now < last["next"]:
                return float(last["next"] - now)
            wait = min(2 * last["wait"], _LONGEST_WAIT)
            state[_KEY] = {**last, "next": now + wait, "wait": wait}
        return 0.0

    def end(self) -> None:
        """Record that the server accepted a job."""
        self._shared.discard(_KEY)
