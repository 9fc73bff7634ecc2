"""Job files that a real server refuses are refused by the local one with the same status and code."""

from __future__ import annotations

import json

import pytest
from job_files import parameters
from local_client import LocalClient
from protocol_client import ProtocolClient

from luigi_pai.local import LocalPai

INDENTED_BY_TABS = "indented_by_tabs.yaml"
"""1.8 takes a tab for no indent and complains of the schema; here it is an error of YAML."""


@pytest.fixture(scope="module")
def user_of_0_7():
    with LocalPai(api="v1") as server:
        yield LocalClient(server)


@pytest.fixture(scope="module")
def user_of_1_8():
    with LocalPai(api="v2") as server:
        yield ProtocolClient(server)


@pytest.fixture(scope="module")
def user_of_ltp():
    with LocalPai(api="ltp") as server:
        yield ProtocolClient(server)


@pytest.mark.parametrize("file", parameters("v1", lambda file: not file.accepted("v0.7.1")))
def test_v1_jobs_are_refused_as_by_0_7_1(user_of_0_7, file):
    """A server that found several things wrong replied with the first."""
    reply = user_of_0_7.send("POST", "/jobs", json.loads(file.text))
    error = file.verdicts["v0.7.1"]["errors"][0]
    found = reply.json()
    assert (reply.status_code, found["code"]) == (error["status"], error["code"])


def assert_refused_alike(user, text, error):
    """Assert status and code; an error of YAML names its line."""
    reply = user.post(text)
    found = reply.json()
    assert (reply.status_code, found.get("code")) == (error["status"], error.get("code"))
    if "code" not in error:
        assert "line" in found["message"]


def refused_by(release):
    """Return parameters: the protocols that a release was seen to refuse."""
    return parameters("v2", lambda file: release in file.verdicts and not file.accepted(release))


@pytest.mark.parametrize("file", refused_by("v1.8.0"))
def test_protocols_are_refused_as_by_1_8_0(user_of_1_8, file):
    error = file.verdicts["v1.8.0"]["error"]
    if file.name == INDENTED_BY_TABS:
        error = {"status": 500}
    assert_refused_alike(user_of_1_8, file.text, error)


@pytest.mark.parametrize("file", refused_by("ltp-v1.5"))
def test_protocols_are_refused_as_by_ltp(user_of_ltp, file):
    assert_refused_alike(user_of_ltp, file.text, file.verdicts["ltp-v1.5"]["error"])
