"""Immediate retries: one table for all servers, with the number of retries and the errors, and Tries.

``api.retries.Retry``, which calls these, retries for longer, until an outage is over.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from requests.exceptions import ChunkedEncodingError
from urllib3.util.retry import Retry

from luigi_pai.api.wire.faults import NoResponse
from luigi_pai.errors import PaiError, ServerFault

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")

READS = Retry(
    total=2,
    connect=1,
    read=1,
    redirect=0,
    status=1,
    other=0,
    backoff_factor=0.1,
    status_forcelist=(502, 503, 504),
    allowed_methods=frozenset({"GET"}),
    raise_on_status=False,
    raise_on_redirect=False,
    respect_retry_after_header=False,
)
"""A GET to the rest-server is repeated at most twice, and only once for each kind of error (connection,
read, status). The waits before both repetitions take 0.2 s in total. Callers retry for longer.
"""


@dataclass(frozen=True)
class Repeat:
    """A row of the table.

    Attributes:
        pauses: How many seconds to wait before each repetition.
        after: A function that returns whether to repeat after an error, given also the earlier errors.
    """

    pauses: tuple[float, ...]
    after: Callable[[Any, Sequence[Any]], bool]


BROKEN_OFF = Repeat(
    (0.0,), lambda error, _: isinstance(error, NoResponse) and error.has(ChunkedEncodingError)
)
"""A GET to the rest-server whose connection breaks during the response, which urllib3 does not notice."""

LOGIN = Repeat(
    (0.2, 0.6),
    lambda error, _: isinstance(error, ServerFault) or error.answer_lost,
)
"""A login, which changes nothing on the server."""

UNSENT = Repeat((0.05,), lambda error, _: error.transient and error.unsent)
"""A request to HDFS that must not be executed twice: it is repeated if it has certainly not arrived."""

SAFE = Repeat(
    (0.05, 0.2),
    lambda error, earlier: (
        error.transient
        and (not any(each.unsent for each in earlier) if error.unsent else error.exception is None)
    ),
)
"""A request to HDFS that may be executed twice. It is not repeated after a rejection, because transient
rejections last longer. If no connection to the server is possible, it is repeated once.
"""

OTHER_DATANODE = Repeat((0.0,) * 5, lambda error, _: error.unsent and error.at_datanode)
"""A new file: the NameNode may redirect to a DataNode that has just died, and then to another."""

REST_OF_FILE = Repeat(
    (0.0, 0.0, 0.0, 0.1, 0.1, 0.2, 0.3, 0.5, 0.8, 1.5),
    lambda error, _: (
        error.transient or error.exception in (None, "BlockMissingException", "IOException")
    ),  # the loss of a DataNode
)
"""The rest of a file on HDFS, after a broken connection. The NameNode may name a live DataNode at once."""

SMALL_FILE = Repeat((0.0, 0.0), lambda error, _: error.answer_lost)
"""A small file with a unique name, which may have been written although no response arrived."""


@dataclass(eq=False)
class Tries:
    """Makes one request as often as its row of the table allows.

    Args:
        row: The row.
        sleep: Waits for a number of seconds.
        log: Called with the error and the pause before each repetition.
    """

    row: Repeat
    sleep: Callable[[float], None] | None = None
    log: Callable[[Any, float], None] = lambda _error, _pause: None
    _errors: list[Exception] = field(default_factory=list, init=False, repr=False)

    def wait_after(self, error: Exception) -> None:
        """Wait before the next attempt; raise the error if none is left."""
        row, count = self.row, len(self._errors)
        if count == len(row.pauses) or not row.after(error, self._errors):
            raise error
        self._errors.append(error)
        self.log(error, row.pauses[count])
        if row.pauses[count]:
            (self.sleep or time.sleep)(row.pauses[count])

    def succeeded(self) -> None:
        """Count the repetitions from 0 again."""
        self._errors.clear()

    def call(self, request: Callable[[], T]) -> T:
        """Make a request until it succeeds; return its result. Raise its error if the error is final."""
        while True:
            try:
                return request()
            except (NoResponse, PaiError) as error:
                failure = error
            self.wait_after(failure)
