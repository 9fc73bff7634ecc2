"""The launcher of 1.8: the classes of its exit codes, what they are called, which are retried."""

from __future__ import annotations

import pytest

from luigi_pai.local.releases import LTP_1_5, OPENPAI_1_8, RetryDecision, exit_spec, reaction

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
