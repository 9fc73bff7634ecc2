"""Requests beyond the recordings: who may do what, and how the rest is refused; a table has the answers."""

from __future__ import annotations

import json

import pytest
import yaml
from local_client import role, unique
from places import DATA
from protocol_client import protocol, task_role

TABLE = yaml.safe_load((DATA / "local" / "requests.yaml").read_text())
CASES = [(api, case) for api, cases in TABLE.items() for case in cases]
PREFIX = {"v1": "/api/v1", "v2": "/api/v2", "ltp": "/api/v2"}


def sent(api, case, users):
    """Return the body of a request, if it has one, and the address of the job that it would make."""
    if "login" in case:
        server = users.admin.server
        return {"username": server.username, "password": server.password, **case["login"]}, None
    if case.get("POST") != "/jobs":
        return case.get("json"), None
    name = unique()
    if api == "v1":
        roles = [role("true", **case.get("role", {}))]
        return {"jobName": name, "image": "i", "taskRoles": roles, **case.get("config", {})}, f"/jobs/{name}"
    main = {
        key: value for key, value in task_role("true", **case.get("role", {})).items() if value != "LEFT OUT"
    }
    document = json.loads(protocol(name=name, roles={"main": main}))
    return {**document, **case.get("protocol", {})}, f"/jobs/admin~{name}"


@pytest.mark.parametrize(("api", "case"), CASES)
def test_a_request_has_its_answer(api, case, request):
    """Status, code and message are those of the table; a job that is refused is not there."""
    users = request.getfixturevalue(f"{api}_users")
    case = json.loads(json.dumps(case).replace("JOB", users.job).replace("BOB", users.bob.username))
    method = next(key for key in case if key.isupper())
    body, job = sent(api, case, users)
    who = users.bob if case.get("as") == "bob" else users.admin
    if job is not None and api != "v1":
        reply = who.post(json.dumps(body))
    else:
        ask = who.call if case.get("as") == "nobody" else who.send
        reply = ask(method, case[method], body)
    status, code, message = [*case["is"], None, None][:3]
    assert reply.status_code == status, reply.text
    if status >= 400:
        found = reply.json()
        assert found.get("code") == code
        assert is_as_told(found["message"], message), found["message"]
        if job is not None:
            assert users.admin.send("GET", job).status_code in (404, 500)


def is_as_told(found, message):
    """Say whether a message is the one of the table, or has its part."""
    if message is None:
        return bool(found)
    begins, ends = not message.startswith("..."), not message.endswith("...")
    part = message.removeprefix("...").removesuffix("...")
    return part in found and (not begins or found.startswith(part)) and (not ends or found.endswith(part))
