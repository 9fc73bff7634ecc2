"""How attempts and tasks ended, as the v2 API of OpenPAI 1.8 says it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from luigi_pai.local.exit_specs import EXIT_JOB_ENDED, EXIT_STOPPED, exit_spec
from luigi_pai.spec.yaml_text import write_yaml

if TYPE_CHECKING:
    from collections.abc import Sequence

    from luigi_pai.local.records import Attempt, Job, Task

__all__ = ["diagnostics", "ending"]

_STOPPED_TEXT = "User has requested to stop the Framework"
_ENDED_TEXT = "Stop to complete current FrameworkAttempt"


def _ending(job: Job, attempt: Attempt | None) -> tuple[int | None, int | None]:
    """Return how and when an attempt ended; a job stopped before its first attempt ended with the job."""
    if attempt is None:
        return job.exit_code, job.completed
    return attempt.exit_code, attempt.completed


def ending(job: Job, attempt: Attempt | None, tasks: Sequence[Task]) -> dict[str, Any]:
    """Return the fields of a job's detail that say how the attempt that is shown went.

    Args:
        job: the job.
        attempt: the attempt; None before the first.
        tasks: its tasks.
    """
    code, completed = _ending(job, attempt)
    decided = attempt and (attempt.trigger_role, attempt.trigger_index)
    trigger = next((task for task in tasks if (task.role, task.index) == decided), None)
    info = _info(trigger)
    text = _text(code, info)
    runtime = None if "init" in info else info or None
    return {
        "appProgress": 0 if completed is None else 1,
        "appTrackingUrl": "",
        "appCreatedTime": attempt and attempt.launched,
        "appLaunchedTime": attempt and attempt.launched,
        "appCompletedTime": completed,
        "appExitCode": code,
        "appExitSpec": exit_spec(code),
        "appExitDiagnostics": text,
        "appExitMessages": None
        if text is None
        else {"container": None, "runtime": runtime, "launcher": None if runtime else text},
        "appExitTriggerMessage": attempt and attempt.trigger_message,
        "appExitTriggerTaskRoleName": attempt and attempt.trigger_role,
        "appExitTriggerTaskIndex": attempt and attempt.trigger_index,
        "appExitType": None if code is None else "Failed" if code else "Succeeded",
    }


def diagnostics(task: Task) -> str | None:
    """Return why a task ended, None while it runs."""
    return _text(task.exit_code, _info(task))


def _info(task: Task | None) -> dict[str, Any]:
    """Return what the runtime wrote down about a task's failure."""
    return {**json.loads(task.exit_info), "name": "app"} if task is not None and task.exit_info else {}


def _text(code: int | None, info: dict[str, Any]) -> str | None:
    """Return why something ended, in the launcher's form."""
    if code is None:
        return None
    if code == EXIT_STOPPED:
        return _STOPPED_TEXT
    if code == EXIT_JOB_ENDED:
        return _ENDED_TEXT
    if "init" in info:  # no pattern knows the code of an init container that failed
        init = {"name": "init", "reason": "Error", "message": info["init"], "code": code}
        said = write_yaml({"containers": [init, {"name": "app", "code": 0}]})
        return f"PodPattern unmatched:\n{said}"
    container: dict[str, Any] = {"name": "app", "reason": "Error" if code else "Completed", "code": code}
    if info:
        said = write_yaml({key: value for key, value in info.items() if key != "name"})
        container["message"] = f"[PAI_RUNTIME_ERROR_START]\n{said}[PAI_RUNTIME_ERROR_END]"
    return f"PodPattern matched:\n{write_yaml({'containers': [container]})}"
