"""The launcher of OpenPAI 0.7, FrameworkLauncher on YARN: exit codes, retries, container ids.

The rules are those of its RetryPolicyDescriptor and user manual.
"""

from __future__ import annotations

from luigi_pai.local.releases.launcher_rules import RETRY_ALWAYS, RETRY_FAILURES, LauncherRules, RetryDecision

__all__ = ["FRAMEWORK_LAUNCHER"]

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


def _exit_type(exit_code: int) -> str:
    return _EXIT_TYPES.get(exit_code, "UNKNOWN")


def _decide_retry(retry_count: int, exit_code: int, counted_retries: int) -> RetryDecision:
    """Decide by the exit type; a retryCount of -1 sets no limit, -2 retries whatever the exit code."""
    if retry_count == RETRY_ALWAYS:
        return RetryDecision(retry=True, counted=True)
    kind = _exit_type(exit_code)
    if kind == "TRANSIENT_NORMAL":
        return RetryDecision(retry=True)
    if kind != "UNKNOWN":
        return RetryDecision(retry=False)
    retry = retry_count == RETRY_FAILURES or counted_retries < retry_count
    return RetryDecision(retry=retry, counted=True)


def _container_id(application_id: str, number: int) -> str:
    """Return the id as YARN writes it."""
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
    exit_type=_exit_type,
    decide_retry=_decide_retry,
    container_id=_container_id,
    has_events=False,
)
