"""What an error says of a job that did not succeed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from api_cases import cases

from luigi_pai.api.job_failure import NEXT_SUBMISSION, deciding_task, job_failure
from luigi_pai.api.status import JobState, JobStatus, TaskStatus
from luigi_pai.api.watched import Deadline
from luigi_pai.errors import PaiJobFailed, PaiJobTimeout

URL = "http://pai.test/rest-server"
LOGS = f"{URL}/api/v2/jobs/admin~j/attempts/1/taskRoles/worker/taskIndex/1/attempts/2/logs"

FAILED = JobStatus(
    "j",
    JobState.FAILED,
    raw_state="FAILED",
    retries=1,
    exit_code=255,
    exit_type="UserCommandFailed",
    exit_reason="The command failed",
    exit_solution="Look at its log",
    exit_task=("worker", 1),
    attempt=1,
    tasks=(
        TaskStatus("ps", 0, state="STOPPED", exit_code=-220),
        TaskStatus("worker", 1, state="FAILED", exit_code=255, attempt=2),
    ),
)


@pytest.fixture
def cluster(new_cluster):
    return new_cluster(URL, api_version="v2", token="application-token")


def text_of(cluster, status, **about):
    """Return the text of the error for a job."""
    return str(job_failure(cluster.book.api, status, **about))


def say_log(rest, text, name="all"):
    rest.get(LOGS, json={"locations": [{"name": name, "uri": "/log-manager/10.0.0.1:9103/logs/x?token=abc"}]})
    rest.get("http://pai.test/log-manager/10.0.0.1:9103/logs/x", body=text)


def test_everything_that_is_known_is_said(cluster, rest):
    """What, its code and class; what that means; the last lines of the deciding task; where to look."""
    say_log(rest, "begin\nTraceback\nValueError: bad rate\n")
    assert text_of(cluster, FAILED, next_step=NEXT_SUBMISSION) == (
        "job 'j' ended as FAILED with exit code 255 (UserCommandFailed) after 1 retry\n"
        "  failed task: worker[1] with exit code 255\n"
        "  which means: The command failed\n"
        "  what may help: Look at its log\n"
        "  last lines of worker[1]:\n"
        "    begin\n"
        "    Traceback\n"
        "    ValueError: bad rate\n"
        "  job page: http://pai.test/job-detail.html?username=admin&jobName=j\n"
        "  run the task again to submit the job again"
    )


RUNTIME = """PodPattern matched:
containers:
  - code: 255
    message: |-
      [PAI_RUNTIME_ERROR_START]
      exitCode: 255
      originUserExitCode: 3
      errorLogs:
        user: the log again
"""


def test_diagnostics_that_repeat_the_log_are_not_said_twice(cluster, rest):
    """The runtime's report holds the log's end; of it, only the command's own exit code is news."""
    status = replace(FAILED, diagnostics=RUNTIME, exit_reason=None, exit_solution=None, retries=0)
    say_log(rest, "the log\n")
    first, *others = text_of(cluster, status).splitlines()
    assert first == "job 'j' ended as FAILED with exit code 255, its command with 3 (UserCommandFailed)"
    assert not [line for line in others if "the log again" in line]


def test_diagnostics_are_said_where_there_is_no_log(cluster, rest):
    """Then the report is all there is; what catches the error need not read it."""
    rest.get(LOGS, status=404, json={})
    status = replace(FAILED, diagnostics=RUNTIME)
    error = job_failure(cluster.book.api, status)
    assert "the log again" in str(error)
    assert (type(error), error.status, error.job_name) == (PaiJobFailed, status, "j")


def test_the_token_is_not_sent_to_a_log_server(cluster, rest):
    """The address of a log carries what is needed; it may be another host."""
    say_log(rest, "x")
    text_of(cluster, FAILED)
    assert [call.request.headers.get("Authorization") for call in rest.calls] == [
        "Bearer application-token",
        None,
    ]


NO_MODULE = "ModuleNotFoundError: No module named 'pai_runtime'"
LOGGED = [
    # 20 lines
    ("".join(f"{number}\n" for number in range(1000)), [str(number) for number in range(980, 1000)]),
    # escapes and control characters are left out; a progress bar shows its last state
    ("\x1b[31mred\x1b[0m\x07\n10%\r50%\r100%\r\nFAILED: x\x1b]0;title\x07\n", ["red", "100%", "FAILED: x"]),
    ("login hush-hush-2 and hush-hush\n", ["login ****** and ******"]),
    # what is too long is cut when no secret is in it any more
    (f"{'hush-hush' * 100}{'x' * 3995}\n", [f"... *****{'x' * 3995}"]),
    (f"{NO_MODULE}\n", [NO_MODULE]),
    (f"{NO_MODULE[:-1]}s'\n", [f"{NO_MODULE[:-1]}s'"]),
]


@pytest.mark.parametrize(("log", "shown"), LOGGED)
def test_the_end_of_a_log_is_said_without_secrets(cluster, rest, log, shown):
    """The secrets of a job mask what its log repeats of them; a container without pai_runtime is told of."""
    say_log(rest, log)
    lines = text_of(cluster, FAILED, secrets=["hush-hush", "hush-hush-2", ""]).splitlines()
    begin = lines.index("  last lines of worker[1]:") + 1
    *lines, page = lines[begin:]
    hint = "  the container has no pai_runtime.py; set runtime = True on the task"
    assert lines == [f"    {line}" for line in shown] + [hint] * (shown == [NO_MODULE])
    assert page.startswith("  job page: ")


@pytest.mark.parametrize("status", [403, 404, 500, 503])
def test_a_log_that_is_not_to_be_had(cluster, rest, status):
    """The failure is said all the same."""
    rest.get(LOGS, json={"code": "NoTaskLogError", "message": "Log of task is not found."}, status=status)
    assert "last lines" not in text_of(cluster, FAILED)


@cases("logs said")
def test_the_log_that_says_most_is_taken(cluster, rest, logs, said):
    """Both streams if there is such a log, else the errors, else the runtime's; no address is shown."""
    places = [{"name": name, "uri": f"http://10.0.0.1:9103/{name}?token=abc"} for name in logs]
    rest.get(LOGS, json={"locations": places})
    for name, text in logs.items():
        rest.get(f"http://10.0.0.1:9103/{name}", body=text or "", status=200 if text else 500)
    text = text_of(cluster, FAILED)
    assert "token=abc" not in text
    assert ("last lines" in text) == (said is not None)
    assert said is None or f"\n    {said}\n" in text


def test_the_token_of_a_log_is_not_logged(cluster, rest, serve, caplog):
    """urllib3 logs addresses, and warns with them when a connection breaks."""
    server = serve(lambda _: (200, {}, "text"))
    rest.get(
        LOGS, json={"locations": [{"name": "all", "uri": f"{server.url}/x?sig=abc-hush&token=def-hush"}]}
    )
    rest.add_passthru(server.url)
    caplog.set_level("DEBUG")
    assert "    text" in text_of(cluster, FAILED)
    assert "sig=******&token=******" in caplog.text
    assert "hush" not in caplog.text


@pytest.mark.parametrize(("missed", "verb"), [(Deadline.QUEUE, "waited"), (Deadline.RUN, "ran")])
def test_a_job_that_was_stopped_for_a_deadline_is_a_timeout(new_cluster, missed, verb):
    """It says which setting the job took longer than."""
    status = JobStatus("j", JobState.STOPPED, raw_state="STOPPED")
    error = job_failure(new_cluster("http://pai.test:9186").book.api, status, missed=missed)
    assert type(error) is PaiJobTimeout
    assert str(error) == (
        "job 'j' ended as STOPPED\n"
        f"  it was stopped because it {verb} for longer than {missed.value}\n"
        "  job page: http://pai.test:9286/view.html?jobName=j"
    )


@pytest.mark.parametrize(("count", "found"), [(1, True), (2, False)])
def test_a_task_that_nothing_names_decides_the_end_if_it_is_the_only_one(count, found):
    tasks = tuple(TaskStatus("w", index) for index in range(count))
    assert (deciding_task(JobStatus("j", JobState.FAILED, tasks=tasks)) is not None) == found


def test_diagnostics_of_several_lines_are_indented(new_cluster):
    """No line of theirs looks like one of ours, nor like a new entry of the log."""
    status = JobStatus("j", JobState.FAILED, raw_state="FAILED", diagnostics="one\n\x1b[1mtwo")
    assert text_of(new_cluster("http://pai.test:9186"), status).splitlines()[:4] == [
        "job 'j' ended as FAILED",
        "  the cluster's report:",
        "    one",
        "    two",
    ]


def test_of_many_failed_tasks_the_first_are_named(new_cluster):
    """Five of them, the deciding one first, and ten addresses of output."""
    tasks = tuple(TaskStatus("w", index, log_url=f"http://nm/{index}", exit_code=1) for index in range(12))
    status = JobStatus("j", JobState.FAILED, raw_state="FAILED", exit_task=("w", 7), tasks=tasks)
    lines = text_of(new_cluster("http://pai.test:9186"), status).splitlines()
    assert lines[1] == (
        "  failed tasks: "
        + ", ".join(f"w[{index}] with exit code 1" for index in (7, 0, 1, 2, 3))
        + " and 7 more"
    )
    assert [line for line in lines if "output of" in line][:2] == [
        "  output of w[7]: http://nm/7",
        "  output of w[0]: http://nm/0",
    ]
    assert lines[-1] == "  and 2 tasks more, on the job page"
