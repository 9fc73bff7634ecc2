"""Which requests to a WebHDFS are sent again after a transient error, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from luigi_pai.hdfs.errors import HdfsError

__all__ = ["Retries"]

_PAUSES = (0.05, 0.2)  # seconds before each retry

# What may be done twice. CREATE and APPEND: what a NameNode answers to them is where to send the
# data; it has done nothing yet. DELETE: a retry that finds nothing counts as done.
_IDEMPOTENT = frozenset({"APPEND", "CREATE", "DELETE", "MKDIRS", "SETOWNER", "SETPERMISSION", "SETTIMES"})


class Retries:
    """The retries of one request to one server.

    A request that may be done twice is retried after transient errors, at most twice: after
    0.05 s and after another 0.2 s. Where the server says when, in a Retry-After, it is retried
    then, as often as these waits fit into the patience. One that has surely not reached the server
    is retried once, whatever it does.

    Args:
        method: of the request.
        operation: of WebHDFS.
        patience: seconds to wait altogether.
        alone: no other server can be asked instead. Where one can, changes are not retried,
            and nothing that did not reach this one.

    Attributes:
        maybe_done: whether the server may have done what an earlier try asked for.
    """

    def __init__(self, method: str, operation: str, patience: float, *, alone: bool) -> None:
        self._patience = patience
        self._alone = alone
        self._is_safe = method == "GET" or (alone and operation in _IDEMPOTENT)
        self._errors = 0
        self._unsent = 0
        self.maybe_done = False

    def pause_after(self, error: HdfsError) -> float | None:
        """Return how many seconds to wait until the retry; None if there is to be none."""
        self._unsent += error.unsent
        if not error.transient:
            return None
        if error.unsent:
            if not self._alone or self._unsent > 1:
                return None
        elif not self._is_safe:
            return None
        self.maybe_done |= not error.unsent
        if not error.retry_after and self._errors == len(_PAUSES):
            return None
        pause = error.retry_after or _PAUSES[self._errors]
        self._errors += not error.retry_after
        self._patience -= pause
        return pause if self._patience >= 0 else None
