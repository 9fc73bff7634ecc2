"""When an attempt is over, and with what result."""

from __future__ import annotations

import pytest
from local_cases import cases

from luigi_pai.local.launcher.completion import attempt_outcome
from luigi_pai.local.store.records import Task


def roles(**policies):
    return {
        name: {"minFailedTaskCount": failed, "minSucceededTaskCount": succeeded}
        for name, (failed, succeeded) in policies.items()
    }


def ended(*tasks):
    return [Task("c", 1, name, index, "f", exit_code=code) for index, (name, code) in enumerate(tasks)]


@pytest.mark.parametrize(("policies", "tasks", "total", "exit_code"), cases("the_outcome_of_an_attempt"))
def test_the_outcome_of_an_attempt(policies, tasks, total, exit_code):
    """Both counts, per role, in the order of time."""
    outcome = attempt_outcome(roles(**policies), ended(*tasks), total)
    assert (outcome and outcome.exit_code) == exit_code
    assert (outcome is None) == (exit_code is None)


def test_the_outcome_names_the_task_that_decided():
    """For the diagnostics."""
    tasks = ended(("w", 0), ("w", 9))
    outcome = attempt_outcome(roles(w=(1, None)), tasks, 3)
    assert outcome.trigger is tasks[1]
