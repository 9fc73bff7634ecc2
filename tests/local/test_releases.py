"""The launchers of 1.8 and of 0.7.1: exit codes, what they are called, which are retried."""

from __future__ import annotations

import pytest
from local_cases import cases

from luigi_pai.local.releases import LTP_1_5, OPENPAI_0_7_1, OPENPAI_1_8, RetryDecision, exit_spec, reaction

decide_retry = OPENPAI_1_8.decide_retry

CLASSES = {  # reaction -> exit codes; the first has two words for it
    "ALWAYS": (-100, -101, 130, 131, 137, 143, 223, 253),
    "NEVER_RETRY": (-210, -220, 132, 135, 136, 141, 220, 221, 222, 224, 225, 226, *range(228, 236), 249),
    "RETRY_TO_MAX": (-300, -310, -1201, -1204, -8000, 128, 134, 139, 255, 256, 1, 2, 126, 227, -5),
}
DECISIONS = {  # reaction -> for each bound and number of counted retries, whether to retry and to count it
    "ALWAYS": {(0, 99): (True, False)},
    "NEVER_RETRY": {(99, 0): (False, False)},
    "RETRY_TO_MAX": {(1, 0): (True, True), (1, 1): (False, True)},
}


@pytest.mark.parametrize(
    ("name", "code"), [(name, code) for name, codes in CLASSES.items() for code in codes]
)
def test_the_class_of_an_exit_code_decides_on_a_retry(name, code):
    """One is always retried and never counts, one never is, and any other is up to the count of the job.

    Each code has a description with its number, even where it is one for all the others.
    """
    assert reaction(code).startswith(name)
    for (bound, counted), (retry, counts) in DECISIONS[name].items():
        assert decide_retry(bound, code, counted) == RetryDecision(retry=retry, counted=counts)
    spec = exit_spec(code)
    assert (spec["code"], spec["reaction"]) == (code, reaction(code))
    assert spec["phrase"]
    assert list(spec) == sorted(spec)
    assert "reason" in spec


def test_a_success_is_not_retried():
    """Unless -2 asks for it: a service that is to run whatever it says."""
    for bound in (0, 9, -1):
        assert decide_retry(bound, 0, 0) == RetryDecision(retry=False)
    assert decide_retry(-2, 0, 99) == RetryDecision(retry=True, counted=True)


def test_a_stopped_job_has_failed_with_an_exit_code_of_its_own():
    """The same on LTP."""
    for release in (OPENPAI_1_8, LTP_1_5):
        assert (release.exit_stopped, release.exit_type(-210)) == (-210, "Failed")
        assert [release.exit_type(code) for code in (0, 1)] == ["Succeeded", "Failed"]


@pytest.mark.parametrize("bound", [-1, -2])
def test_a_negative_count_sets_no_bound(bound):
    """To what counts; the classes of the others stay, for a task's retry policy is always the fancy one."""
    assert decide_retry(bound, 255, 99) == RetryDecision(retry=True, counted=True)
    assert decide_retry(bound, 137, 99) == RetryDecision(retry=True)
    assert decide_retry(bound, 132, 0) == RetryDecision(retry=False)
    assert decide_retry(-3, 255, 0) == RetryDecision(retry=False, counted=True)


def test_success_and_no_end_have_other_descriptions():
    """null, while something runs."""
    spec = exit_spec(0)
    assert (spec["code"], spec["reaction"], list(spec)) == (0, reaction(0), sorted(spec))
    assert spec["phrase"]
    assert "reason" not in spec
    assert exit_spec(None) is None


# 0.7.1


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
