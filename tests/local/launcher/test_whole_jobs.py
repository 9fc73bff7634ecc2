"""Jobs run for real on 0.7.1 and 1.8: exit codes, plugins, retries, completion, diagnostics and logs."""

from __future__ import annotations

import json

import pytest
import yaml
from local_client import role
from places import DATA
from protocol_client import protocol, task_role
from replay import value_at

pytestmark = pytest.mark.slow

TABLE = yaml.safe_load((DATA / "local" / "jobs.yaml").read_text("utf-8"))
ROWS = [
    pytest.param(api, row, id=f"{api} {rule} {number}")
    for api, rules in TABLE.items()
    for rule, rows in rules.items()
    for number, row in enumerate(rows)
]
COUNT = "cd ../../..; n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) > n;"


def v1_role(name, run, **more):
    return role(run.replace("COUNT", COUNT), name, **more)


def v2_role(run, **more):
    return task_role(*([run] if isinstance(run, str) else run), **more)


def submit(api, row, client):
    """Submit the job of a row; return its name."""
    roles = row.get("roles") or [{"name": "main", "run": row["run"], **row.get("role", {})}]
    job = dict(row.get("job", {}))
    if api == "v1":
        return client.submit(*(v1_role(**fields) for fields in roles), **job)
    if "cmd" in row:
        script = {"name": "cmd", "type": "script", "plugin": "com.microsoft.pai.runtimeplugin.cmd"}
        job["prerequisites"] = [{**script, **row["cmd"]}]
        roles[0]["prerequisites"] = ["cmd"]
    made = {fields.pop("name"): v2_role(**fields) for fields in map(dict, roles)}
    return client.submit(protocol(roles=made, **job))


@pytest.mark.parametrize(("api", "row"), ROWS)
def test_a_job_ends_as_its_row_says(api, row, client, v2):
    """State, exit code, type, retries and times; and in the job's detail and logs, the row's own."""
    user = client if api == "v1" else v2
    job = user.wait(submit(api, row, user))
    status, code = job["jobStatus"], row.get("code", 0)
    success, failure = ("SUCCEEDED", "UNKNOWN") if api == "v1" else ("Succeeded", "Failed")
    expected = {
        "jobStatus.state": "FAILED" if code else "SUCCEEDED",
        "jobStatus.appExitCode": code,
        "jobStatus.appExitType": failure if code else success,
        "jobStatus.retries": row.get("retries", 0),
        **({} if api == "v1" else {"jobStatus.appExitSpec.code": code}),
        **row.get("has", {}),
    }
    assert {path: value_at(job, path) for path in expected} == expected
    assert status["createdTime"] <= status["appLaunchedTime"] <= status["appCompletedTime"]
    assert status["appCompletedTime"] <= status["completedTime"]
    for path, parts in row.get("says", {}).items():
        found = value_at(job, path)
        assert [part for part in ([parts] if isinstance(parts, str) else parts) if part not in found] == []
    for place, log in {**row.get("logs", {}), **row.get("log_says", {})}.items():
        task, stream = place.split()
        name, _, index = task.rpartition("-")
        found = user.log(job, name, int(index), stream)
        assert found == log if place in row.get("logs", {}) else log in found
    assert row.get("hides", "\0") not in json.dumps(job)
