"""The v2 dialect with an application token, and the replies recorded from a real rest-server 1.8.0."""

from __future__ import annotations

import json

import pytest
from mocked_rest import URL
from places import DATA

from luigi_pai.api.dialects.v2 import V2Dialect

JOBS = f"{URL}/api/v2/jobs"
OBSERVED = DATA / "observed_v1.8.0.json"
TEXT = "protocolVersion: 2\nname: p\n"


@pytest.fixture(scope="session")
def observed_v2():
    """Return what the real rest-server 1.8.0 answered, by probe step."""
    return {step["step"]: step for step in json.loads(OBSERVED.read_text(encoding="utf-8"))}


@pytest.fixture
def say(rest, observed_v2):
    """Let the mock answer as the real server did in a step of the probe."""

    def reply(step: str, path: str | None = None, **headers: str) -> None:
        record = observed_v2[step]
        method, target = record["req"].split(" ", 1)
        rest.add(
            method,
            URL + (path or target).partition("?")[0],
            body=record["text"] if record["json"] is None else json.dumps(record["json"]),
            status=record["status"],
            content_type=record["ctype"],
            headers=headers,
        )

    return reply


@pytest.fixture
def v2(new_session):
    """The dialect of a user with an application token."""
    return V2Dialect(new_session(URL, token="application-token"))


@pytest.fixture
def asked(rest):
    return lambda: [f"{call.request.method} {call.request.url.removeprefix(URL)}" for call in rest.calls]
