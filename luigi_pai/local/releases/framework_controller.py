"""The launcher of OpenPAI 1.x and LTP, FrameworkController on Kubernetes: exit codes, retries, pod UIDs.

Whether a failure is retried is what `exit_specs` says of its exit code.
"""

from __future__ import annotations

import uuid

from luigi_pai.local.releases import exit_specs
from luigi_pai.local.releases.launcher_rules import RETRY_ALWAYS, RETRY_FAILURES, LauncherRules, RetryDecision

__all__ = ["FRAMEWORK_CONTROLLER"]


def _exit_type(exit_code: int) -> str:
    return "Failed" if exit_code else "Succeeded"


def _decide_retry(retry_count: int, exit_code: int, counted_retries: int) -> RetryDecision:
    """Decide by the exit specification.

    A negative limit, which only taskRetryCount can be, sets none: -1 retries failures, -2 successes, too.
    A permanent failure is not retried, whatever the limit.
    """
    if not exit_code:
        always = retry_count == RETRY_ALWAYS
        return RetryDecision(retry=always, counted=always)
    reaction = exit_specs.reaction(exit_code)
    if reaction != "RETRY_TO_MAX":
        return RetryDecision(retry=reaction != "NEVER_RETRY")
    unlimited = retry_count in (RETRY_ALWAYS, RETRY_FAILURES)
    return RetryDecision(retry=unlimited or counted_retries < retry_count, counted=True)


def _container_id(_application_id: str, _number: int) -> str:
    """Return a new UID, as Kubernetes gives one to each pod."""
    return str(uuid.uuid4())


FRAMEWORK_CONTROLLER = LauncherRules(
    exit_stopped=exit_specs.EXIT_STOPPED,
    stopped_text="User has requested to stop the Framework",
    stopped_codes=(exit_specs.EXIT_STOPPED, exit_specs.EXIT_JOB_ENDED),
    shows_stopping=True,
    exit_lost=exit_specs.EXIT_LOST,
    exit_attempt_over=exit_specs.EXIT_JOB_ENDED,
    exit_no_ports=exit_specs.EXIT_NO_PORTS,
    exit_type=_exit_type,
    decide_retry=_decide_retry,
    container_id=_container_id,
    has_events=True,
)
