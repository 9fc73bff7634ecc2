"""Checks of LTP 1.5 beyond the protocol's schema, with the messages of its sources."""

from __future__ import annotations

import math
import re
import time
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from luigi_pai.local.node.http import ApiError
from luigi_pai.spec.dialects.javascript_text import javascript_text

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["check_extras", "check_parameters", "check_quota", "javascript_date"]

_NODE = "localhost"
_OF_INFERENCE = ("INTERNAL_SERVER_IP", "INTERNAL_SERVER_PORT", "API_KEY")
_NO_PARAMETERS = (
    "The following parameters must be specified for inference job:\n"
    "INTERNAL_SERVER_IP=$PAI_HOST_IP_taskrole_0\n"
    "INTERNAL_SERVER_PORT=$PAI_PORT_LIST_taskrole_0_http\n"
    "API_KEY=[any string]"
)
_PATH = re.compile(r"(/[a-zA-Z0-9._-]+)+/?")
_DATE = re.compile(r"(\d{4})(?:-(\d\d))?(?:-(\d\d))?")
_SECOND = 1000
_PRIORITY_FOR_PROD = 1


def check_parameters(document: Mapping[str, Any]) -> None:
    """Refuse with 400 a job of type inference without the parameters that its address is made of."""
    if document.get("jobType") != "inference":
        return
    if "parameters" not in document:
        raise ApiError(400, "InvalidProtocolError", _NO_PARAMETERS)
    for name in _OF_INFERENCE:
        if name not in document["parameters"]:
            sentence = f"Parameter {name} must be specified for inference job."
            raise ApiError(400, "InvalidProtocolError", sentence)


def check_quota(document: Mapping[str, Any], extension: Mapping[str, Any]) -> None:
    """Refuse with 403 a job of the class ``prod``, or of more GPUs, than its owner's quota allows."""
    scheduler = (document.get("extras") or {}).get("hivedScheduler")
    if isinstance(scheduler, dict) and scheduler.get("jobPriorityClass") == "prod":
        _check_prod(extension)
    quota = extension.get("quota")
    if not isinstance(quota, dict):
        return
    most, ends = quota.get("maxGpusPerJob"), javascript_date(quota.get("expiration"))
    if isinstance(most, bool) or not isinstance(most, int | float) or most < 0 or ends < _now():
        return
    roles = document["taskRoles"].values()
    if sum(role["resourcePerInstance"]["gpu"] * role.get("instances", 1) for role in roles) > most:
        sentence = "You have exceeded the maximum number of GPUs allowed per job. Max GPUs per job: "
        raise ApiError(403, "NoEnoughQuotaError", sentence + javascript_text(most))


def _check_prod(extension: Mapping[str, Any]) -> None:
    given = extension.get("jobPriority")
    if isinstance(given, bool) or given != _PRIORITY_FOR_PROD:
        sentence = 'You do not have the required job priority set to 1 to submit a job with "prod" priority.'
        raise ApiError(403, "NoJobPriorityError", sentence)
    ends = javascript_date(extension.get("jobExpiration"))
    if math.isnan(ends):
        sentence = "Your job priority expiration date is invalid."
        raise ApiError(403, "InvalidJobPriorityExpirationError", sentence)
    if ends < _now():
        sentence = "Your job priority expiration date has expired."
        raise ApiError(403, "ExpiredJobPriorityExpirationError", sentence)


def check_extras(extras: Mapping[str, Any]) -> None:
    """Refuse with 400, or 500 where the server fails, folders and nodes that a job may not ask for."""
    storage = extras.get("enableLocalStorage")
    if isinstance(storage, dict) and storage.get("enabled") is True:
        _check_folders(_split(storage, "hostpath", ":"), _split(storage, "mntpath", ":"))
    nodes = [node.strip() for node in _split(extras, "forceNodes", ",")]
    if _NODE in nodes:
        raise ApiError(400, "SchedulableNodeError", f"The following nodes are schedulable: {_NODE}")
    if nodes:
        raise ApiError(500, None, "Cannot read properties of undefined (reading 'machine-type')")


def _split(value: Mapping[str, Any], key: str, by: str) -> list[str]:
    """Return the parts of a text of a mapping; none where JavaScript takes it for nothing."""
    text = value.get(key)
    if isinstance(text, str):
        return text.split(by) if text else []
    if text or isinstance(text, dict | list):
        raise ApiError(500, None, f"config.extras.{key}.split is not a function")
    return []


def _check_folders(there: list[str], here: list[str]) -> None:
    if not there or not here:
        raise ApiError(400, "MissingMountPathError", "Either hostpath or mntpath array is empty.")
    if len(there) != len(here):
        sentence = "The lengths of hostpath and mntpath arrays must be equal."
        raise ApiError(400, "MountPathMismatchError", sentence)
    if not all(_PATH.fullmatch(path) for path in (*there, *here)):
        asked = f"hostpath ({','.join(there)}) or mntpath ({','.join(here)})"
        raise ApiError(400, "InvalidPathError", f"Invalid Linux path provided for {asked}.")


def _now() -> float:
    return time.time() * _SECOND


def javascript_date(value: Any) -> float:
    """Return the milliseconds since 1970 that JavaScript's Date makes of a value of JSON; NaN if none."""
    if value is None or isinstance(value, int | float):
        return float(value or 0)
    if not isinstance(value, str):
        return math.nan
    day = _DATE.fullmatch(value.strip())
    try:
        if day is not None:  # a date alone is in UTC; with a time, in that of the machine
            year, month, of_month = (int(part or 1) for part in day.groups())
            moment = datetime(year, month, of_month, tzinfo=timezone.utc)
        else:
            moment = _read_moment(value.strip())
        return moment.timestamp() * _SECOND
    except (ValueError, TypeError, OverflowError):
        return math.nan


def _read_moment(text: str) -> datetime:
    """Return a moment of ISO 8601, or of a mail's header; raises ValueError: it is neither."""
    iso = re.sub("[zZ]$", "+00:00", text)
    iso = re.sub(r"\.(\d+)", lambda found: f".{found[1][:6]:0<6}", iso)
    try:
        return datetime.fromisoformat(iso)
    except ValueError:
        return parsedate_to_datetime(text)
