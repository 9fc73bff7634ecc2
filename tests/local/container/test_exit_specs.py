"""The exit codes of 1.8: their classes, what they are called, what another attempt follows from."""

from __future__ import annotations

import pytest

from luigi_pai.local.container.exit_specs import exit_spec, reaction
from luigi_pai.local.launcher.completion import Again, exit_type, retry, stopped_code

TRANSIENT = (-100, -101, -110, -111, -120, -1000, -1001, -1002, -1003, -1006, -1205, -1300)
TRANSIENT += (130, 131, 137, 143, 223, 250, 251, 253)
PERMANENT = (-200, -210, -220, -230, -1004, -1005, -1100, -1200, -1202, -1203, 132, 135, 136, 141)
PERMANENT += (220, 221, 222, 224, 225, 226, *range(228, 236), 249, 252, 254)
UNKNOWN = (-300, -310, -1201, -1204, -8000, 128, 134, 139, 255, 256, 1, 2, 126, 227, -5)


@pytest.mark.parametrize("code", TRANSIENT)
def test_a_transient_failure_is_always_retried_and_never_counts(code):
    """Whatever jobRetryCount says."""
    assert reaction(code).startswith("ALWAYS")
    assert retry(0, code, 99, generation=2) == Again(again=True)


@pytest.mark.parametrize("code", PERMANENT)
def test_a_permanent_failure_is_never_retried(code):
    """However many retries there are left."""
    assert reaction(code) == "NEVER_RETRY"
    assert retry(99, code, 0, generation=2) == Again(again=False)


@pytest.mark.parametrize("code", UNKNOWN)
def test_any_other_failure_is_retried_up_to_the_count(code):
    """Which such retries use up."""
    assert reaction(code) == "RETRY_TO_MAX"
    assert retry(1, code, 0, generation=2) == Again(again=True, counted=True)
    assert retry(1, code, 1, generation=2) == Again(again=False, counted=True)


def test_a_success_is_not_retried():
    """Unless -2 asks for it: a service that is to run whatever it says."""
    for bound in (0, 9, -1):
        assert retry(bound, 0, 0, generation=2) == Again(again=False)
    assert retry(-2, 0, 99, generation=2) == Again(again=True, counted=True)
    assert [exit_type(code, 2) for code in (0, 1, -210)] == ["Succeeded", "Failed", "Failed"]
    assert [stopped_code(generation) for generation in (1, 2)] == [214, -210]


@pytest.mark.parametrize("bound", [-1, -2])
def test_a_negative_count_sets_no_bound(bound):
    """To what counts; the classes of the others stay, for a task's retry policy is always the fancy one."""
    assert retry(bound, 255, 99, generation=2) == Again(again=True, counted=True)
    assert retry(bound, 137, 99, generation=2) == Again(again=True)
    assert retry(bound, 132, 0, generation=2) == Again(again=False)
    assert retry(-3, 255, 0, generation=2) == Again(again=False, counted=True)


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
