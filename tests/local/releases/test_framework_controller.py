"""The launcher of 1.8: the classes of its exit codes, what they are called, which are retried."""

from __future__ import annotations

import pytest

from luigi_pai.local.releases import LTP_1_5, OPENPAI_1_8, RetryDecision, exit_spec, reaction

decide_retry = OPENPAI_1_8.launcher.decide_retry

TRANSIENT = (-100, -101, 130, 131, 137, 143, 223, 253)
PERMANENT = (-210, -220, 132, 135, 136, 141, 220, 221, 222, 224, 225, 226, *range(228, 236), 249)
UNKNOWN = (-300, -310, -1201, -1204, -8000, 128, 134, 139, 255, 256, 1, 2, 126, 227, -5)


@pytest.mark.parametrize("code", TRANSIENT)
def test_a_transient_failure_is_always_retried_and_never_counts(code):
    """Whatever jobRetryCount says."""
    assert reaction(code).startswith("ALWAYS")
    assert decide_retry(0, code, 99) == RetryDecision(retry=True)


@pytest.mark.parametrize("code", PERMANENT)
def test_a_permanent_failure_is_never_retried(code):
    """However many retries there are left."""
    assert reaction(code) == "NEVER_RETRY"
    assert decide_retry(99, code, 0) == RetryDecision(retry=False)


@pytest.mark.parametrize("code", UNKNOWN)
def test_any_other_failure_is_retried_up_to_the_count(code):
    """Which such retries use up."""
    assert reaction(code) == "RETRY_TO_MAX"
    assert decide_retry(1, code, 0) == RetryDecision(retry=True, counted=True)
    assert decide_retry(1, code, 1) == RetryDecision(retry=False, counted=True)


def test_a_success_is_not_retried():
    """Unless -2 asks for it: a service that is to run whatever it says."""
    for bound in (0, 9, -1):
        assert decide_retry(bound, 0, 0) == RetryDecision(retry=False)
    assert decide_retry(-2, 0, 99) == RetryDecision(retry=True, counted=True)


def test_a_stopped_job_has_failed_with_an_exit_code_of_its_own():
    """The same on LTP."""
    launcher = OPENPAI_1_8.launcher
    assert (launcher.exit_stopped, launcher.exit_type(-210)) == (-210, "Failed")
    assert [launcher.exit_type(code) for code in (0, 1)] == ["Succeeded", "Failed"]
    assert LTP_1_5.launcher is launcher


@pytest.mark.parametrize("bound", [-1, -2])
def test_a_negative_count_sets_no_bound(bound):
    """To what counts; the classes of the others stay, for a task's retry policy is always the fancy one."""
    assert decide_retry(bound, 255, 99) == RetryDecision(retry=True, counted=True)
    assert decide_retry(bound, 137, 99) == RetryDecision(retry=True)
    assert decide_retry(bound, 132, 0) == RetryDecision(retry=False)
    assert decide_retry(-3, 255, 0) == RetryDecision(retry=False, counted=True)


@pytest.mark.parametrize("code", [*TRANSIENT, *PERMANENT, *UNKNOWN, 0])
def test_every_code_has_a_description(code):
    """With its own number, even where the description is one for all the others."""
    spec = exit_spec(code)
    assert spec["code"] == code
    assert spec["reaction"] == reaction(code)
    assert spec["phrase"]
    assert list(spec) == sorted(spec)
    assert ("reason" in spec) == (code != 0)


def test_no_code_has_no_description():
    """null, while something runs."""
    assert exit_spec(None) is None
