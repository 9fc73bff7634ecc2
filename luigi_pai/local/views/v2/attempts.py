"""The attempts of a v2 job as OpenPAI 1.8 counts them, and how they and their tasks ended.

The store has an attempt from its begin on. What this adds is the one that a job
waits for, or that it waited for when it was stopped.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from luigi_pai.local.launcher.completion import ALL_ENDED
from luigi_pai.local.releases.launchers import EXIT_JOB_ENDED, EXIT_LOST, FRAMEWORK_CONTROLLER, exit_spec
from luigi_pai.local.store.records import Attempt, Task
from luigi_pai.spec.dialects.yaml_text import write_yaml

if TYPE_CHECKING:
    from collections.abc import Sequence

    from luigi_pai.local.store.jobs import Store
    from luigi_pai.local.store.records import Job

__all__ = ["ShownAttempt", "diagnostics", "ending", "latest_attempt", "numbered_attempt"]


@dataclass(frozen=True)
class ShownAttempt:
    """An attempt.

    Attributes:
        index: its number as the API has it: 0 for the first.
        started: when it was decided on, in milliseconds since 1970 UTC.
        launched: when its tasks began; None while the job waits for it.
        tasks: its tasks, each at its latest try.
    """

    index: int
    started: int
    launched: int | None
    record: Attempt
    tasks: Sequence[Task]


def latest_attempt(job: Job, store: Store) -> ShownAttempt:
    """Return the running attempt, the one that the job waits for, or the last one."""
    last = store.last_attempt(job)
    if last is not None and last.number > job.retries:
        return _shown(job, last, store.attempt(job, last.number - 1), store)
    record = Attempt(0, job.id, job.retries + 1, 0, completed=job.completed, exit_code=job.exit_code)
    tasks = [
        Task(
            container_id="",
            attempt_id=0,
            role=role["name"],
            index=index,
            folder="",
            exit_code=None if job.completed is None else EXIT_JOB_ENDED,
            completed=job.completed,
        )
        for role in job.roles
        for index in range(role["taskNumber"])
    ]
    return ShownAttempt(job.retries, _started(job, last), job.completed, record, tasks)


def numbered_attempt(job: Job, index: int, store: Store) -> ShownAttempt | None:
    """Return the attempt of a number, counted from 0; None if it does not exist."""
    if index == job.retries:
        return latest_attempt(job, store)
    record = store.attempt(job, index + 1)
    return None if record is None else _shown(job, record, store.attempt(job, index), store)


def _shown(job: Job, record: Attempt, before: Attempt | None, store: Store) -> ShownAttempt:
    return ShownAttempt(
        record.number - 1,
        _started(job, before),
        record.launched,
        record,
        store.tasks(record),
    )


def _started(job: Job, before: Attempt | None) -> int:
    """Return when an attempt was decided on: with the job, or when the one before had ended."""
    return job.created if before is None else before.completed or before.launched


_TEXTS = {
    0: "Pod succeeded",
    EXIT_LOST: "Pod was deleted by others",
    FRAMEWORK_CONTROLLER.exit_stopped: FRAMEWORK_CONTROLLER.stopped_text,
    EXIT_JOB_ENDED: "Stop to complete current FrameworkAttempt",
}
"""The launcher's texts for exit codes that no container returned."""


def ending(shown: ShownAttempt) -> dict[str, Any]:
    """Return the fields of a job's detail that say how an attempt went."""
    record = shown.record
    decided = (record.trigger_role, record.trigger_index)
    trigger = next((task for task in shown.tasks if (task.role, task.index) == decided), None)
    code, completed = record.exit_code, record.completed
    info = _info(trigger) if code else {}
    message = record.trigger_message or ""
    text = message if message.startswith(ALL_ENDED) else _text(code, info)
    runtime = None if "init" in info else info or None
    return {
        "appProgress": 0 if completed is None else 1,
        "appTrackingUrl": "",
        "appCreatedTime": shown.started,
        "appLaunchedTime": shown.launched,
        "appCompletedTime": completed,
        "appExitCode": code,
        "appExitSpec": exit_spec(code),
        "appExitDiagnostics": text,
        "appExitMessages": None
        if text is None
        else {"container": None, "runtime": runtime, "launcher": None if runtime else text},
        "appExitTriggerMessage": record.trigger_message,
        "appExitTriggerTaskRoleName": record.trigger_role,
        "appExitTriggerTaskIndex": record.trigger_index,
        "appExitType": None if code is None else FRAMEWORK_CONTROLLER.exit_type(code),
    }


def diagnostics(task: Task) -> str | None:
    """Return why a task ended, None while it runs."""
    return _text(task.exit_code, _info(task))


def _info(task: Task | None) -> dict[str, Any]:
    return {**json.loads(task.exit_info), "name": "app"} if task is not None and task.exit_info else {}


def _text(code: int | None, info: dict[str, Any]) -> str | None:
    if code is None:
        return None
    if code in _TEXTS:
        return _TEXTS[code]
    if "init" in info:  # no pattern knows the code of an init container that failed
        init = {"name": "init", "reason": "Error", "message": info["init"], "code": code}
        shown = write_yaml({"containers": [init, {"name": "app", "code": 0}]})
        return f"Pod failed: PodPattern unmatched:\n{shown}"
    container: dict[str, Any] = {"name": "app"}
    if info:
        shown = write_yaml({key: value for key, value in info.items() if key != "name"})
        container["message"] = f"[PAI_RUNTIME_ERROR_START]\n{shown}[PAI_RUNTIME_ERROR_END]"
    container["code"] = code
    return f"Pod failed: PodPattern matched:\n{write_yaml({'containers': [container]})}"
