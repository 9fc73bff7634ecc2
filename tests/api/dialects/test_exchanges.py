"""The dialects against recorded and mocked responses: the cases of ``tests/data/api/exchanges.yaml``."""

from __future__ import annotations

import json
import re
from enum import Enum

import pytest
import yaml
from mocked_rest import URL
from places import DATA

from luigi_pai.api.dialects.v1 import V1Dialect
from luigi_pai.api.dialects.v2 import V2Dialect
from luigi_pai.api.status import JobState, JobStatus
from luigi_pai.errors import PaiError
from luigi_pai.jobspec.job import PaiJob, TaskRole
from luigi_pai.jobspec.protocol import JobProtocol

JOB = PaiJob("q6afffc61flat", "ubuntu", [TaskRole("main", "sleep 1", memoryMB=1024)])
PROTOCOL = "protocolVersion: 2\nname: p\n"
EXCHANGES = yaml.safe_load((DATA / "api" / "exchanges.yaml").read_text("utf-8"))


def steps_of(case):
    """Return the recorded steps of a case."""
    recorded = case.get("recorded", [])
    return [recorded] if isinstance(recorded, str) else recorded


def result_of(dialect, call, name):
    """Call a method of the dialect; ``ANY`` is the name in the recorded request."""
    method, *given = [name if each == "ANY" else each for each in call]
    if method == "submit":
        given = [JOB if dialect.version == "v1" else JobProtocol.from_yaml(PROTOCOL)]
    if method == "task_logs":
        given[0] = JobStatus(given[0], JobState.RUNNING)
    return getattr(dialect, method)(*given)


def matches(text, pattern):
    """Return whether a text is a pattern, in which ``...`` stands for anything."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("..."))), text, re.DOTALL) is not None


def shows(value, expected):
    """Return whether a value is as expected; of an object, the attributes that are named."""
    if isinstance(expected, dict) and expected:
        if isinstance(value, dict):
            named = {key: part for key, part in expected.items() if key != "..."}
            is_whole = "..." in expected or value.keys() == named.keys()
            return is_whole and all(shows(value[key], part) for key, part in named.items())
        return all(shows(getattr(value, name), part) for name, part in expected.items())
    if isinstance(expected, list):
        return len(value) == len(expected) and all(map(shows, value, expected))
    if isinstance(expected, str) and "..." in expected:
        return expected == "..." or matches(value, expected)
    return (value.value if isinstance(value, Enum) else value) == expected


def requests_of(rest):
    """Return the requests, with the body of a PUT and the header ``Authorization``, as a case has them."""
    lines = []
    for request in (call.request for call in rest.calls):
        body = [request.body.decode()] if request.method == "PUT" else []
        token = [request.headers["Authorization"]] if "Authorization" in request.headers else []
        lines.append(" ".join([request.method, request.url.removeprefix(URL), *body, *token]))
    return lines


@pytest.mark.parametrize(
    ("server", "case"),
    [
        pytest.param(server, case, id=f"{server}-{case['says']}-{index}")
        for server, cases in EXCHANGES.items()
        for index, case in enumerate(cases)
    ],
)
def test_an_exchange(new_session, clock, rest, play, recorded_by, server, case):
    """The result of a request, or its error with class, status, code and message."""
    observed = recorded_by(server)
    for step in steps_of(case):
        play(observed[step])
    for request, status, reply in case.get("mocked", ()):
        method, path = request.split(" ", 1)
        rest.add(method, URL + path, status=status, body=json.dumps(reply))
    about = {"token": "application-token"} | {
        key: case[key] for key in ("token", "password", "username") if key in case
    }
    dialect = (V1Dialect if server == "v0.7.1" else V2Dialect)(new_session(URL, clock, **about))
    last = observed[steps_of(case)[-1]] if steps_of(case) else {"req": "", "message": ""}
    name = last["req"].partition("~")[2].partition("/")[0]
    if "fails" in case:
        kind, message = case["fails"]
        with pytest.raises(PaiError) as caught:
            result_of(dialect, case["call"], name)
        error = caught.value
        facts = [type(error).__name__, getattr(error, "status", None), getattr(error, "code", None)]
        assert " ".join(str(fact) for fact in facts if fact) == kind
        if "RECORDED" in message:
            assert error.server_message == last["message"]
            message = message.replace(
                "RECORDED", last["message"].rstrip(".") if "login" in message else last["message"]
            )
        assert matches(str(error), message.replace("@", URL)), str(error)
    else:
        result = result_of(dialect, case["call"], name)
        assert shows(result, case["gives"]), result
    if "sent" in case:
        assert requests_of(rest) == case["sent"]
