"""What servers say of jobs that they refuse: their schema errors as text, and what to change in the job."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_SINCE_1_6 = ("prerequisites", "plugin", "callbacks")  # properties that earlier servers refuse

_FEWER_GPUS = "gpu of resourcePerInstance, or instances (gpuNumber and taskNumber of a PaiTask)"
_PRIORITY = "extras.hivedScheduler.jobPriorityClass"
_LOCAL_STORAGE = "hostpath and mntpath of extras.enableLocalStorage"
_OLD_V2 = (
    "this server has no API for the YAML job protocol: OpenPAI 0.8 to 0.14 serve an older API at the same "
    "URL; such a cluster runs PaiTask only"
)

HINTS: Final[Mapping[str, str]] = {
    "InvalidParametersError": _OLD_V2,  # from 0.15 on it is InvalidProtocolError
    # LTP 1.x, models/v2/job and middlewares/v2 of its rest-server
    "NoEnoughQuotaError": f"lower {_FEWER_GPUS}",
    "NoJobPriorityError": f"set {_PRIORITY} to default or oppo, or ask an administrator for prod",
    "InvalidJobPriorityExpirationError": f"set {_PRIORITY} to default or oppo, or ask an administrator",
    "ExpiredJobPriorityExpirationError": f"set {_PRIORITY} to default or oppo, or ask an administrator",
    "ExpectedJobPriorityClassError": (
        f"set {_PRIORITY} to prod, lower {_FEWER_GPUS}, or choose another virtual cluster"
    ),
    "InvalidCommandError": (
        f"change commands of each task role to these, lower {_FEWER_GPUS}, or choose another virtual cluster"
    ),
    "InvalidImageError": (
        "change uri of the first prerequisite of type dockerimage (image of a PaiTask) to one that this "
        "cluster allows"
    ),
    "NoDockerImageError": "add a prerequisite of type dockerimage with a uri",
    "InvalidImageRegexError": "tell an administrator: no job can be submitted",
    "MissingMountPathError": f"set both {_LOCAL_STORAGE}",
    "MountPathMismatchError": f"name as many paths in {_LOCAL_STORAGE}, separated by colons",
    "InvalidPathError": f"use absolute paths of letters, digits, '.', '_' and '-' in {_LOCAL_STORAGE}",
    "SchedulableNodeError": "take these nodes out of extras.forceNodes, which is for cordoned nodes only",
}
"""What to change in a job, by the code with which it was refused."""


def schema_errors(message: str) -> str:
    """Return the schema errors of a refusal, a JSON array, as ``path: message`` each; "" if it is not one."""
    try:
        errors = json.loads(message)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(errors, list):
        return ""
    return "; ".join(_finding(error) for error in errors if isinstance(error, dict))


def _finding(error: Mapping[str, Any]) -> str:
    """Return one schema error, of Ajv 6 (OpenPAI) or Ajv 8 (LTP 1.1 and later), as text."""
    is_ajv_8 = "instancePath" in error
    place = str(error.get("instancePath" if is_ajv_8 else "dataPath") or "").lstrip("./")
    text = f"{place}: {error.get('message')}".lstrip(": ")
    params = error.get("params")
    params = params if isinstance(params, dict) else {}
    extra = params.get("additionalProperty")
    if isinstance(extra, str):
        since = ", which needs OpenPAI 1.6" if extra in _SINCE_1_6 and not is_ajv_8 else ""
        return f"{text}: {extra!r}{since}"
    allowed = params.get("allowedValues")
    if isinstance(allowed, list):
        return f"{text}: {', '.join(map(str, allowed))}"
    return text
