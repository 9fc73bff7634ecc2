"""The launcher of 0.7.1: exit types, retries, stopped jobs."""

from __future__ import annotations

import pytest
from local_cases import cases

from luigi_pai.local.releases import OPENPAI_0_7_1, RetryDecision


@pytest.mark.parametrize(
    ("retry_count", "exit_code", "counted", "retry", "counts"), cases("the_next_attempt")
)
def test_the_next_attempt(retry_count, exit_code, counted, retry, counts):
    """-2 leaves the rules of exit types and goes on after anything."""
    assert OPENPAI_0_7_1.decide_retry(retry_count, exit_code, counted) == RetryDecision(retry, counts)


def test_exit_types_are_the_launchers_words():
    """SUCCEEDED, TRANSIENT_NORMAL, NON_TRANSIENT, UNKNOWN."""
    transient = dict.fromkeys((137, 143, 154, 205), "TRANSIENT_NORMAL")
    types = {0: "SUCCEEDED", **transient, 206: "NON_TRANSIENT", 214: "NON_TRANSIENT", 1: "UNKNOWN"}
    assert {code: OPENPAI_0_7_1.exit_type(code) for code in types} == types


def test_a_stopped_job_is_not_retried():
    """It has an exit code of its own."""
    assert (OPENPAI_0_7_1.exit_stopped, OPENPAI_0_7_1.exit_type(OPENPAI_0_7_1.exit_stopped)) == (
        214,
        "NON_TRANSIENT",
    )
    assert OPENPAI_0_7_1.stopped_message == "UserApplication killed due to StopFrameworkRequest"


def test_containers_are_numbered_after_their_application():
    """The first container of an application is its master's."""
    assert OPENPAI_0_7_1.container_id("application_17_0003", 0) == "container_17_0003_01_000002"
