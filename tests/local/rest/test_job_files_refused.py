"""Job files that a real server refuses are refused by the local one with the same status and code."""

from __future__ import annotations

import json

import pytest
from job_files import parameters


@pytest.mark.parametrize("file", parameters("v1", lambda file: not file.accepted("v0.7.1")))
def test_v1_jobs_are_refused_as_by_0_7_1(client, file):
    """A server that found several things wrong replied with the first."""
    reply = client.send("POST", "/jobs", json.loads(file.text))
    error = file.verdicts["v0.7.1"]["errors"][0]
    found = reply.json()
    assert (reply.status_code, found["code"]) == (error["status"], error["code"])
