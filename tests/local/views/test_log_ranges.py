"""Parts of logs, as nginx serves them in front of 1.8's logs."""

from __future__ import annotations

import pytest
import requests
from local_cases import cases
from protocol_client import protocol
from waiting import wait_until


@pytest.fixture(scope="module")
def log(v2):
    """The addresses of the logs of a job that has written 0 to 9, of its end, and of an empty one."""
    job = v2.run("printf 0123456789; printf errors >&2")
    whole, tail = v2.logs(job), v2.logs(job, **{"tail-mode": "true"})
    return {**whole, "tail": tail["stdout"], "tail of all": tail["all"]}


def ask(uri, asked=None, **headers):
    if asked is not None:
        headers["Range"] = asked
    return requests.get(uri, headers=headers, timeout=20)


@pytest.mark.parametrize(("asked", "status", "text", "place"), cases("a_range_is_answered_as_by_nginx"))
def test_a_range_is_answered_as_by_nginx(log, asked, status, text, place):
    """206 with its bytes and their place; 416 if it is not there; all for several ranges, or none."""
    reply = ask(log["stdout"], asked)
    assert (reply.status_code, reply.text, reply.headers.get("Content-Range")) == (status, text, place)
    assert (reply.headers["Content-Length"], reply.headers["Accept-Ranges"]) == (str(len(text)), "bytes")


def test_a_range_goes_from_one_file_into_the_next(log):
    """In the log of both streams; to If-Range the answer is all, as there is no tag that it could mean."""
    assert ask(log["stdout"], "bytes=2-4", **{"If-Range": '"tag"'}).status_code == 200
    assert ask(log["all"], "bytes=8-11").text == "89er"
    assert ask(log["all"], "bytes=12-").text == "rors"
    assert ask(log["tail of all"]).headers["Content-Range"] == "bytes 0-15/16"


@pytest.mark.slow
def test_the_end_of_a_log_says_where_it_is(log, v2):
    """A range of the last 16 KiB, whatever the request says; of an empty log it is all."""
    reply = ask(log["tail"], "bytes=2-4")
    assert (reply.status_code, reply.text) == (206, "0123456789")
    assert reply.headers["Content-Range"] == "bytes 0-9/10"
    job = v2.run("true")
    empty = ask(v2.logs(job, **{"tail-mode": "true"})["stdout"])
    assert (empty.status_code, empty.text) == (200, "")


@pytest.mark.slow
def test_a_log_that_grows_is_followed_range_by_range(v2, tmp_path):
    """Nothing new is 416; what has come since then is sent, and nothing twice."""
    go = tmp_path / "go"
    name = v2.submit(protocol(f"printf one; until [ -e {go} ]; do sleep 0.02; done; printf two"))
    v2.wait(name, "RUNNING")
    uri = v2.logs(v2.job(name))["stdout"]
    wait_until(lambda: ask(uri).text == "one")
    assert ask(uri, "bytes=3-").status_code == 416
    go.touch()
    v2.wait(name)
    reply = ask(uri, "bytes=3-")
    assert (reply.text, reply.headers["Content-Range"]) == ("two", "bytes 3-5/6")


@pytest.mark.slow
@pytest.mark.parametrize(("start", "text"), [(3, "two"), (-2, "wo"), (-99, "onetwo"), (10**30, "")])
def test_a_log_of_v1_begins_at_any_byte(client, start, text):
    """Also beyond its end."""
    job = client.run("printf onetwo")
    (status,) = job["taskRoles"]["main"]["taskStatuses"]
    reply = requests.get(f"{status['containerLog']}stdout", params={"start": start}, timeout=20)
    assert (reply.status_code, reply.text) == (200, text)
