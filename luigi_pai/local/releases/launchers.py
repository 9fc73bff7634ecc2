"""The launchers, which run jobs and decide about retries: exit codes, retries, container ids.

FrameworkLauncher on YARN is that of OpenPAI 0.7; its rules are those of its RetryPolicyDescriptor and user
manual. FrameworkController on Kubernetes is that of OpenPAI 1.x and LTP: whether a failure is retried is
what `exit_specs` says of its exit code.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from luigi_pai.local.releases import exit_specs

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FRAMEWORK_CONTROLLER", "FRAMEWORK_LAUNCHER", "LauncherRules", "RetryDecision"]

_RETRY_ALWAYS = -2
"""A retry limit: whatever the exit code, without end."""
_RETRY_FAILURES = -1
"""A retry limit: every failure that is not permanent, without end."""


@dataclass(frozen=True)
class RetryDecision:
    """Whether an attempt is followed by another one, and counts against the retry limit."""

    retry: bool
    counted: bool = False


@dataclass(frozen=True)
class LauncherRules:
    """The rules of one launcher.

    Attributes:
        exit_stopped: exit code of a job that a user stopped.
        stopped_text: diagnostics of such a job.
        stopped_codes: exit codes of jobs whose state is STOPPED.
        shows_stopping: whether a job that is being stopped is STOPPING; if not, it stays RUNNING.
        exit_lost: exit code of an attempt whose processes are gone without an exit code; None for none.
        exit_attempt_over: exit code of a task that ran when its attempt was decided; None for none.
        exit_no_ports: exit code of an attempt that got no ports; None if the job waits for them.
        exit_type: returns the launcher's word for an exit code.
        decide_retry: decides about another attempt, given the retry limit, the exit code, and how many
            retries have been counted.
        container_id: returns the id of a task's container, given the application id of the attempt and
            the task's number within it, from 0.
        has_events: whether events of jobs are recorded.
    """

    exit_stopped: int
    stopped_text: str
    stopped_codes: tuple[int, ...]
    shows_stopping: bool
    exit_lost: int | None
    exit_attempt_over: int | None
    exit_no_ports: int | None
    exit_type: Callable[[int], str]
    decide_retry: Callable[[int, int, int], RetryDecision]
    container_id: Callable[[str, int], str]
    has_events: bool


_EXIT_STOPPED = 214
_EXITS_TRANSIENT = (137, 143, 154, 205)
"""SIGKILL, SIGTERM and 154 count as a failed machine; 205 is what a command exits with to be retried."""
_EXIT_PERMANENT = 206

_FIRST_CONTAINER = 2  # the first one of an application is its master's

_EXIT_TYPES = {
    0: "SUCCEEDED",
    **dict.fromkeys(_EXITS_TRANSIENT, "TRANSIENT_NORMAL"),
    _EXIT_PERMANENT: "NON_TRANSIENT",
    _EXIT_STOPPED: "NON_TRANSIENT",
}


def _type_on_yarn(exit_code: int) -> str:
    return _EXIT_TYPES.get(exit_code, "UNKNOWN")


def _decide_by_type(retry_count: int, exit_code: int, counted_retries: int) -> RetryDecision:
    """Decide by the exit type; a retryCount of -1 sets no limit, -2 retries whatever the exit code."""
    if retry_count == _RETRY_ALWAYS:
        return RetryDecision(retry=True, counted=True)
    kind = _type_on_yarn(exit_code)
    if kind == "TRANSIENT_NORMAL":
        return RetryDecision(retry=True)
    if kind != "UNKNOWN":
        return RetryDecision(retry=False)
    retry = retry_count == _RETRY_FAILURES or counted_retries < retry_count
    return RetryDecision(retry=retry, counted=True)


def _yarn_id(application_id: str, number: int) -> str:
    container = application_id.replace("application", "container")
    return f"{container}_01_{number + _FIRST_CONTAINER:06d}"


FRAMEWORK_LAUNCHER = LauncherRules(
    exit_stopped=_EXIT_STOPPED,
    stopped_text="UserApplication killed due to StopFrameworkRequest",
    stopped_codes=(_EXIT_STOPPED,),
    shows_stopping=False,
    exit_lost=None,
    exit_attempt_over=None,
    exit_no_ports=None,
    exit_type=_type_on_yarn,
    decide_retry=_decide_by_type,
    container_id=_yarn_id,
    has_events=False,
)


def _type_on_kubernetes(exit_code: int) -> str:
    return "Failed" if exit_code else "Succeeded"


def _decide_by_spec(retry_count: int, exit_code: int, counted_retries: int) -> RetryDecision:
    """Decide by the exit specification.

    A negative limit, which only taskRetryCount can be, sets none: -1 retries failures, -2 successes, too.
    A permanent failure is not retried, whatever the limit.
    """
    if not exit_code:
        always = retry_count == _RETRY_ALWAYS
        return RetryDecision(retry=always, counted=always)
    reaction = exit_specs.reaction(exit_code)
    if reaction != "RETRY_TO_MAX":
        return RetryDecision(retry=reaction != "NEVER_RETRY")
    unlimited = retry_count in (_RETRY_ALWAYS, _RETRY_FAILURES)
    return RetryDecision(retry=unlimited or counted_retries < retry_count, counted=True)


def _pod_uid(_application_id: str, _number: int) -> str:
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
    exit_type=_type_on_kubernetes,
    decide_retry=_decide_by_spec,
    container_id=_pod_uid,
    has_events=True,
)
