"""Diagnostics of the launcher of OpenPAI 0.x, as real clusters send them."""

from __future__ import annotations

import json

import pytest
import yaml
from places import DATA

from luigi_pai.api.dialects.job_replies import job_status
from luigi_pai.api.dialects.launcher_text import reason_and_report
from luigi_pai.api.job_failure import job_failure

NODE = "http://10.0.0.7:8042/node/containerlogs"
RULE = "_" * 200
TEXTS = yaml.safe_load((DATA / "api" / "launcher.yaml").read_text("utf-8"))
STACK, REPORT = TEXTS["stack"], TEXTS["report"]
HEAD = TEXTS["head"].replace("STACK\n", STACK).replace("RULE", RULE)
TASK = {
    "taskIndex": 14,
    "taskRoleName": "worker",
    "taskState": "TASK_COMPLETED",
    "containerLogHttpAddress": f"{NODE}/c14/core/",
    "containerExitCode": 134,
    "containerExitDiagnostics": STACK,
    "containerExitType": "UNKNOWN",
}
RULED = "[worker]: FailedTaskCount 1 has reached MinFailedTaskCount 1."
LAST = "[worker]: [LastCompletedTask]: [TaskStatus]:"


def diagnostics(task: str) -> str:
    """Return the launcher's text about a job whose end a task decided."""
    return f"{HEAD}{LAST}\n{task}\n{RULE}\n[ApplicationCompletionReason]: {RULED}\n"


def reply(text: str | None, state: str = "FAILED", **codes: int) -> dict[str, object]:
    """Return the reply for a job of 20 workers; codes: those of tasks, by w and their index."""
    workers = [
        {"taskIndex": index, "containerLog": f"{NODE}/c{index}/core/"}
        | ({"containerExitCode": codes[f"w{index}"]} if f"w{index}" in codes else {})
        for index in range(20)
    ]
    job = {"name": "j", "username": "core", "state": state, "createdTime": 1, "appExitCode": 134}
    return {
        "jobStatus": {**job, "appExitType": "UNKNOWN", "appExitDiagnostics": text},
        "taskRoles": {"worker": {"taskRoleStatus": {"name": "worker"}, "taskStatuses": workers}},
    }


@pytest.mark.parametrize("indent", [None, 2])
def test_the_deciding_task_is_named(indent):
    """0.7 says it in its diagnostics only, in one line or in several."""
    status = job_status("j", reply(diagnostics(json.dumps(TASK, indent=indent))))
    assert status.exit_task == ("worker", 14)
    assert [(str(task), task.exit_code) for task in status.failed_tasks()] == [("worker[14]", 134)]


CUT = ['{"taskIndex": 14', "[]", "{" * 100_000, ""]


@pytest.mark.parametrize(
    ("text", "state"),
    [*[(f"{HEAD}{LAST}\n{task}", "FAILED") for task in CUT], (diagnostics(json.dumps(TASK)), "RUNNING")],
)
def test_a_record_that_is_cut_or_of_an_earlier_start_names_no_task(text, state):
    assert job_status("j", reply(text, state)).exit_task is None


UNDEFINED = "ExitStatus undefined in Launcher, maybe UserApplication itself failed."


@pytest.mark.parametrize(
    ("text", "reason", "report"),
    [
        (diagnostics(json.dumps(TASK)), RULED, REPORT),
        (HEAD, "", f"{UNDEFINED}\n{REPORT}"),
        ("User has requested to stop", "User has requested to stop", ""),
        ("", "", ""),
        ("PodPattern matched:\n  code: 1\n", "", "PodPattern matched:\n  code: 1"),
    ],
)
def test_the_reason_and_the_report_have_no_rules_and_no_java(text, reason, report):
    """Other fields have the rest; without a record all that is no noise is shown; other texts stay whole."""
    assert reason_and_report(text) == (reason, report)


@pytest.fixture
def cluster(new_cluster):
    return new_cluster("http://pai.test:9186", api_version="v1", username="core")


def test_the_error_of_a_job_shows_the_log_of_its_task(cluster, rest):
    """One page, that of the task; its stderr, or where that is empty its stdout; no rule, no stack."""
    rest.get(f"{NODE}/c14/core/stderr?start=-16384", body="")
    rest.get(f"{NODE}/c14/core/stdout?start=-16384", body="epoch 1\nno more memory\n")
    error = job_failure(cluster.book.api, job_status("j", reply(diagnostics(json.dumps(TASK)))))
    assert str(error) == (
        f"job 'j' ended as FAILED with exit code 134 (UNKNOWN): {RULED}\n"
        "  failed task: worker[14] with exit code 134\n"
        "  last lines of worker[14]:\n"
        "    epoch 1\n"
        "    no more memory\n"
        "  job page: http://pai.test:9286/view.html?jobName=j\n"
        f"  output of worker[14]: {NODE}/c14/core/"
    )
    assert error.last_line == "no more memory"


def test_without_the_log_the_report_of_the_container_is_shown(cluster, rest):
    """Nodes are often out of reach: one request, no more."""
    error = job_failure(cluster.book.api, job_status("j", reply(diagnostics(json.dumps(TASK)))))
    assert str(error).splitlines()[2:5] == [
        "  the cluster's report:",
        f"    {REPORT.splitlines()[0]}",
        f"    {REPORT.splitlines()[1]}",
    ]
    assert len(rest.calls) == 1


def test_failed_tasks_begin_with_the_one_whose_code_is_the_jobs(cluster, rest):
    """0.9 to 0.13 say the codes of the tasks, and not which of them decided the end."""
    rest.get(f"{NODE}/c7/core/stderr?start=-16384", body="why\n")
    text = str(job_failure(cluster.book.api, job_status("j", reply(None, w2=1, w7=134, w9=134))))
    codes = ["worker[7] with exit code 134", "worker[2] with exit code 1", "worker[9] with exit code 134"]
    assert f"failed tasks: {', '.join(codes)}\n" in text
    assert "last lines of worker[7]:\n    why" in text


def test_secrets_are_not_repeated_from_the_record(cluster, rest):
    """They are redacted after the JSON is read, in which they may be written otherwise."""
    del rest
    task = {**TASK, "containerExitDiagnostics": 'login with "hush"\nfailed'}
    status = job_status("j", reply(diagnostics(json.dumps(task))))
    text = str(job_failure(cluster.book.api, status, secrets=['"hush"']))
    assert "login with ******" in text


def test_the_log_of_a_node_is_read_from_its_beginning(cluster, rest):
    """Without ``start``, YARN shows the last 4 KB of a log, and does not say so."""
    rest.get("http://pai.test:9186/api/v1/jobs/j", json=reply(None, w0=1))
    rest.get(f"{NODE}/c3/core/stdout?start=0", body="all of it")
    page = "<html><pre>an old page</pre><pre class='log'>1 &lt; 2</pre></html>"
    rest.get(f"{NODE}/c3/core/stderr?start=0", body=page, content_type="text/html")
    assert cluster.job("j").logs("worker", 3) == {"stdout": "all of it", "stderr": "1 < 2"}
