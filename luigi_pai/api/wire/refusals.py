"""Rejected jobs: recognizes responses that prove that a job was not accepted, and explains them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from luigi_pai.errors import AuthenticationError, PaiApiError
from luigi_pai.jobspec.paths import mapping_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from luigi_pai.errors import PaiHttpError

_EXCERPT = re.compile(r"\n\n *\d+ \|.*", re.DOTALL)  # of js-yaml 4
# OpenPAI 1.x's message to a user without permission in a virtual cluster
_NO_RIGHT_IN = re.compile(r"is not allowed to do operation in \S+$")
_INFERENCE = "add it to parameters, or change jobType"
_SINCE_1_6 = ("prerequisites", "plugin", "callbacks")  # properties that earlier servers reject

_FEWER_GPUS = "gpu of resourcePerInstance, or instances (gpuNumber and taskNumber of a PaiTask)"
_PRIORITY = "extras.hivedScheduler.jobPriorityClass"
_LOWER_PRIORITY = f"set {_PRIORITY} to default or oppo, or ask an administrator"
_LOCAL_STORAGE = "hostpath and mntpath of extras.enableLocalStorage"
_OLD_V2 = (
    "this server has no API for the YAML job protocol: OpenPAI 0.8 to 0.14 serve an older API at the same "
    "URL; such a cluster runs PaiTask only"
)

REFUSALS: Mapping[tuple[int, str | None], str] = {
    (400, "InvalidParametersError"): _OLD_V2,  # 0.7 to 0.14: the schema of job configs
    (400, "InvalidProtocolError"): "",  # 0.15 and later: the schema of job protocols, and their references
    (403, "ForbiddenUserError"): "",  # all releases: the virtual cluster
    (404, "NoVirtualClusterError"): "",  # 0.7 to 0.14
    (404, "NoStorageError"): "",  # 1.0 and later: extras.storages
    (404, "NoApiError"): "",  # all releases: the other API version
    (409, "ConflictJobError"): "",  # all releases: the name is in use
    (413, None): "",  # all releases: the body has more than 100 kB; sent before a route is chosen
    # LTP 1.0 and later, see models/v2/job and middlewares/v2 of its rest-server
    (400, "InvalidImageError"): (
        "change uri of the first prerequisite of type dockerimage (image of a PaiTask) to one that this "
        "cluster allows"
    ),
    (400, "NoDockerImageError"): "add a prerequisite of type dockerimage with a uri",
    (400, "MissingMountPathError"): f"set both {_LOCAL_STORAGE}",
    (400, "MountPathMismatchError"): f"name as many paths in {_LOCAL_STORAGE}, separated by colons",
    (400, "InvalidPathError"): f"use absolute paths of letters, digits, '.', '_' and '-' in {_LOCAL_STORAGE}",
    (
        400,
        "SchedulableNodeError",
    ): "take these nodes out of extras.forceNodes, which is for cordoned nodes only",
    (403, "NoEnoughQuotaError"): f"lower {_FEWER_GPUS}",
    (403, "NoJobPriorityError"): f"{_LOWER_PRIORITY} for prod",
    (403, "InvalidJobPriorityExpirationError"): _LOWER_PRIORITY,
    (403, "ExpiredJobPriorityExpirationError"): _LOWER_PRIORITY,
    (403, "ExpectedJobPriorityClassError"): (
        f"set {_PRIORITY} to prod, lower {_FEWER_GPUS}, or choose another virtual cluster"
    ),
    (403, "InvalidCommandError"): (
        f"change commands of each task role to these, lower {_FEWER_GPUS}, or choose another virtual cluster"
    ),
}
"""Status and code of the responses with which a rest-server rejects a submission before it stores the job ->
the advice to the user.

UnknownError is not one of them: servers send it for any error in the services behind them.
"""

HINTS: Mapping[str | None, str] = {
    **{code: hint for (_status, code), hint in REFUSALS.items() if hint},
    "InvalidImageRegexError": "tell an administrator: no job can be submitted",  # a 500 of LTP
}
"""Error code of the response -> the advice to the user."""


def is_refusal(error: PaiHttpError) -> bool:
    """Return whether the response to a submission proves that the server did not accept the job."""
    # whatever its code, an AuthenticationError is from the login or from the first check of each request
    return isinstance(error, AuthenticationError) or (error.status, error.code) in REFUSALS


def with_explanation(error: PaiHttpError, request: str) -> PaiHttpError:
    """Return the error for a rejected job, with readable schema errors and advice.

    LTP repeats lines of the document in a YAML error. These lines are left out, because they may contain a
    secret. The message before them, which gives the line number, stays in the error.

    Args:
        error: The response to the submission.
        request: The submission's method and URL.
    """
    if error.code == "InvalidProtocolError":
        findings = _schema_errors(error.server_message)
        if findings:
            return error.reworded(f"{request}: {error.status} {error.code}: {findings}")
        return error.extended(_INFERENCE) if "for inference job" in error.server_message else error
    if error.code is None:
        new = error.reworded(_EXCERPT.sub("", str(error)))
        new.server_message = _EXCERPT.sub("", error.server_message)
        return new
    hint = HINTS.get(error.code)
    return error.extended(hint) if hint else error


def with_virtual_clusters(
    error: PaiHttpError, setting: str, virtual_clusters: Callable[[], Iterable[str]]
) -> PaiHttpError:
    """Return a rejected job's error; if a virtual cluster is the cause, add the names of all of them.

    Args:
        error: The response to the submission.
        setting: Name of the setting that chooses the job's virtual cluster.
        virtual_clusters: A function that requests the names of all virtual clusters.
    """
    is_about_it = error.code not in HINTS and (
        error.code in ("NoVirtualClusterError", "NoRightAccessVCError")
        or "virtual cluster" in error.server_message.lower()
        or _NO_RIGHT_IN.search(error.server_message)
    )
    if not is_about_it:
        return error
    try:
        names = ", ".join(sorted(virtual_clusters()))
    except PaiApiError:
        names = ""
    return error.extended(f"check {setting}" + (f"; this cluster has: {names}" if names else ""))


def _schema_errors(message: str) -> str:
    """Return a response's schema errors as ``path: message``; "" if the message is not a JSON array."""
    try:
        errors = json.loads(message)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(errors, list):
        return ""
    return "; ".join(_finding(error) for error in errors if isinstance(error, dict))


def _finding(error: Mapping[str, Any]) -> str:
    """Format one schema error of Ajv 6 (OpenPAI) or Ajv 8 (LTP 1.1 and later)."""
    is_ajv_8 = "instancePath" in error
    place = str(error.get("instancePath" if is_ajv_8 else "dataPath") or "").lstrip("./")
    finding = f"{place}: {error.get('message')}".lstrip(": ")
    params = mapping_of(error, "params")
    extra = params.get("additionalProperty")
    if isinstance(extra, str):
        since = ", which needs OpenPAI 1.6" if extra in _SINCE_1_6 and not is_ajv_8 else ""
        return f"{finding}: {extra!r}{since}"
    allowed = params.get("allowedValues")
    if isinstance(allowed, list):
        return f"{finding}: {', '.join(map(str, allowed))}"
    return finding
