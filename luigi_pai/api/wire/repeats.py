"""What is sent again at once, how often, and after which errors: one table for all servers, and Tries.

An outage of the rest-server or of files is waited out by ``api.retries.Retry``, around these.
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
"""Of the rest-server. A GET is repeated at most twice, and only once for each kind of error (connection,
read, status). The waits before both repetitions take 0.2 s in total. Callers retry for longer.
"""


@dataclass(frozen=True)
class Repeat:
    """A row of the table.

    Attributes:
        pauses: seconds before each repetition.
        after: whether an error may be followed by a repetition, given also the errors before it.
    """

    pauses: tuple[float, ...]
    after: Callable[[Any, Sequence[Any]], bool]


BROKEN_OFF = Repeat(
    (0.0,), lambda error, _: isinstance(error, NoResponse) and error.has(ChunkedEncodingError)
)
"""A GET of the rest-server whose connection breaks during the response, which urllib3 does not notice."""

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
"""A request to HDFS that may be executed twice. A refusal is not repeated: one that is transient lasts
longer. A server to which no connection is possible is tried once more.
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
"""A small file under a name of its own, which may be written although no reply arrived."""


@dataclass(eq=False)
class Tries:
    """The tries of one request, as often as its row of the table allows.

    Args:
        row: the row.
        sleep: waits for a number of seconds.
        log: is called before each repetition, with the error and the pause.
    """

    row: Repeat
    sleep: Callable[[float], None] | None = None
    log: Callable[[Any, float], None] = lambda _error, _pause: None
    _errors: list[Exception] = field(default_factory=list, init=False, repr=False)

    def wait_after(self, error: Exception) -> None:
        """Wait before the next try; raise the error if there is none."""
        row, count = self.row, len(self._errors)
        if count == len(row.pauses) or not row.after(error, self._errors):
            raise error
        self._errors.append(error)
        self.log(error, row.pauses[count])
        if row.pauses[count]:
            (self.sleep or time.sleep)(row.pauses[count])

    def succeeded(self) -> None:
        """Count from 0 again."""
        self._errors.clear()

    def call(self, request: Callable[[], T]) -> T:
        """Make a request until it succeeds, and return its result; raise its error if that is final."""
        while True:
            try:
                return request()
            except (NoResponse, PaiError) as error:
                failure = error
            self.wait_after(failure)
