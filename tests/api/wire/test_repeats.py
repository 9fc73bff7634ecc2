"""What is sent again at once: each row of the table, with the errors after which it is and is not."""

import pytest
from requests.exceptions import ChunkedEncodingError, ReadTimeout

from luigi_pai.api.wire import repeats
from luigi_pai.api.wire.environment import Environment
from luigi_pai.api.wire.faults import NoResponse
from luigi_pai.errors import ClusterUnreachable, ConfigError, RateLimited, ServerFault
from luigi_pai.files import HdfsError, HdfsUnreachable


def no_response(error):
    return NoResponse("GET", "http://h", (1.0, 1.0), Environment(verify=True), error, sent=True)


def on_hdfs(kind=HdfsUnreachable, exception=None, **about):
    error = kind("x", exception=exception)
    vars(error).update(about)
    return error


LOST, REFUSED = on_hdfs(transient=True), on_hdfs(HdfsError, "SafeModeException", transient=True)
UNSENT = on_hdfs(transient=True, unsent=True, answer_lost=False)


@pytest.mark.parametrize(
    ("row", "errors", "pauses"),
    [
        ("BROKEN_OFF", [no_response(ChunkedEncodingError())], [0]),
        ("BROKEN_OFF", [no_response(ReadTimeout())], None),
        ("LOGIN", [ServerFault("x"), ClusterUnreachable("x", answer_lost=True)], [0.2, 0.6]),
        ("LOGIN", [ClusterUnreachable("x")], None),
        ("LOGIN", [RateLimited("x")], None),
        ("SAFE", [LOST, LOST], [0.05, 0.2]),
        ("SAFE", [UNSENT, LOST], [0.05, 0.2]),
        ("SAFE", [UNSENT, UNSENT], None),
        ("SAFE", [REFUSED], None),
        ("SAFE", [on_hdfs()], None),
        ("UNSENT", [UNSENT], [0.05]),
        ("UNSENT", [LOST], None),
        ("OTHER_DATANODE", [on_hdfs(unsent=True, at_datanode=True)] * 5, [0] * 5),
        ("OTHER_DATANODE", [UNSENT], None),
        ("REST_OF_FILE", [LOST, on_hdfs(HdfsError, "BlockMissingException")], [0, 0]),
        ("REST_OF_FILE", [on_hdfs(HdfsError, "FileNotFoundException")], None),
        ("SMALL_FILE", [LOST, LOST], [0, 0]),
        ("SMALL_FILE", [UNSENT], None),
        *((row, [ConfigError("x")], None) for row in ("BROKEN_OFF", "LOGIN", "SAFE", "UNSENT", "SMALL_FILE")),
    ],
)
def test_a_row(row, errors, pauses):
    """Each error but the last one is followed by a try; the last one, too, or it is raised."""
    left, waited = list(errors), []

    def request():
        if left:
            raise left.pop(0)
        return "done"

    tries = repeats.Tries(getattr(repeats, row), log=lambda _error, pause: waited.append(pause))
    if pauses is None:
        with pytest.raises(type(errors[-1])) as caught:
            tries.call(request)
        assert caught.value is errors[-1]
    else:
        assert tries.call(request) == "done"
        assert waited == pauses


def test_after_a_success_the_tries_are_counted_anew():
    tries = repeats.Tries(repeats.SMALL_FILE)
    for _ in range(2):
        tries.wait_after(LOST)
        tries.wait_after(LOST)
        with pytest.raises(HdfsUnreachable):
            tries.wait_after(LOST)
        tries.succeeded()
