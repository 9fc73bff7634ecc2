"""How attempts and tasks ended, as the v2 API of OpenPAI 1.8 shows it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from luigi_pai.local.launcher.completion import ALL_ENDED
from luigi_pai.local.releases.exit_specs import EXIT_JOB_ENDED, EXIT_LOST, exit_spec
from luigi_pai.local.releases.launchers import FRAMEWORK_CONTROLLER
from luigi_pai.spec.dialects.yaml_text import write_yaml

if TYPE_CHECKING:
    from luigi_pai.local.store.records import Task
    from luigi_pai.local.views.v2.attempts import ShownAttempt

__all__ = ["diagnostics", "ending"]

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
