"""Answers of the rest-server of LTP 1.5 that are not those of OpenPAI 1.8."""

from __future__ import annotations

import json

from fault_server import Reply

PRIVATE_KEY = (
    "-----BEGIN RSA PRIVATE KEY-----\nMIIBOgIBAAJBAKj34GkxFhD90vcNLYLInFEX6Ppy1tPf9Cnzj4p4WGeKLs1Pt8Qu\n"
    "-----END RSA PRIVATE KEY-----\n"
)
"""As the record of each user holds one; no text may show it."""

_REQUIRED = ("protocolVersion", "name", "type", "taskRoles")


def not_retrieved(full_name: str) -> Reply:
    """Return the answer for a job that is not there, and for one that is while the database is down."""
    return _error(500, "UnknownError", f"Failed to retrieve job {full_name}.")


def no_logs() -> Reply:
    """Return the answer for logs that are not to be had."""
    return _error(500, "UnknownError", "Failed to get log list")


def database_trouble() -> Reply:
    """Return what is answered where the database is asked first."""
    message = (
        "There is a problem with your database connection. Please contact your admin. Detailed message: "
        "connect ECONNREFUSED 127.0.0.1:5432"
    )
    return Reply(500, {"message": message})


def task_not_found(full_name: str, route: list[str]) -> Reply:
    """Return the answer for a task that a job which is there has not."""
    _attempts, attempt, _roles, role, _index, index, _ = route
    where = f"jobAttemptIndex {attempt}, taskRoleName {role} and taskIndex {index}"
    return _error(404, "NoJobError", f"Task not found in Job {full_name} with {where}.")


def not_allowed(user: str, full_name: str) -> Reply:
    """Return the answer for another user's job."""
    return _error(403, "ForbiddenUserError", f"User {user} is not allowed to access job {full_name}.")


def no_admin() -> Reply:
    """Return the answer to what only administrators may."""
    return _error(403, "ForbiddenUserError", "Non-admin is not allow to do this operation.")


def no_password_given(form: dict) -> Reply:
    """Return the answer to a login without a password that is a text."""
    received = "null" if "password" in form else "undefined"
    message = (
        'The "password" argument must be of type string or an instance of ArrayBuffer, Buffer, TypedArray, '
        f"or DataView. Received {received}"
    )
    return _error(500, "ERR_INVALID_ARG_TYPE", message)


def user_record(user: str) -> dict:
    """Return the record of a user."""
    return {
        "username": user,
        "grouplist": ["adminGroup"],
        "email": "",
        "extension": {"jobSSH": {"key": PRIVATE_KEY, "pubKey": "ssh-rsa AAAA"}},
        "history_vclist": [],
        "admin": True,
        "virtualCluster": ["default"],
    }


def not_an_object() -> Reply:
    """Return the refusal of a job whose content type is not text."""
    return _refusal([_complaint("", "type", {"type": "object"}, "must be object")])


def schema_refusal(protocol: dict) -> Reply | None:
    """Return the refusal of a job protocol in the words of Ajv 8; None if these few rules hold."""
    missing = [key for key in _REQUIRED if key not in protocol]
    found = [
        _complaint("", "required", {"missingProperty": key}, f"must have required property '{key}'")
        for key in missing
    ]
    roles = protocol.get("taskRoles")
    for name, role in roles.items() if isinstance(roles, dict) else ():
        if not isinstance(role.get("instances"), int):
            place = f"/taskRoles/{name}/instances"
            found.append(_complaint(place, "type", {"type": "integer"}, "must be integer"))
    return _refusal(found) if found else None


def _refusal(complaints: list[dict]) -> Reply:
    return _error(400, "InvalidProtocolError", json.dumps(complaints))


def _complaint(place: str, keyword: str, params: dict, message: str) -> dict:
    where = {"instancePath": place, "schemaPath": f"#/{keyword}", "keyword": keyword}
    return {**where, "params": params, "message": message}


def _error(status: int, code: str, message: str) -> Reply:
    return Reply(status, {"code": code, "message": message})
