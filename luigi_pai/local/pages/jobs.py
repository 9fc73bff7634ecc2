"""The pages of the jobs: the list, and a page for each job with state, reason, log and tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from luigi_pai.local.pages.html import Html, duration, join, page, table, tag, time_of_day
from luigi_pai.local.releases import EXIT_JOB_ENDED, EXIT_STOPPED
from luigi_pai.local.store.database import now_ms
from luigi_pai.local.store.records import COMPLETED, gpu_numbers
from luigi_pai.local.views.v1 import job_link, log_url

if TYPE_CHECKING:
    from collections.abc import Sequence

    from luigi_pai.local.rest.base import Api
    from luigi_pai.local.store.jobs import Store
    from luigi_pai.local.store.records import Attempt, Job, Task

_AT_MOST = 100
"""Jobs and tasks in a table."""
_HEADS = ("Job", "State", "Submitted", "Duration", "User", "Virtual cluster", "Exit code", "Retries")


def _state_mark(state: str) -> Html:
    """Return the HTML of a state, the same on all pages."""
    return tag("span", state, class_=f"state {state}")


def jobs_page(store: Store) -> str:
    """Return the list of the newest jobs."""
    count = int(store.rows("SELECT COUNT(*) FROM jobs WHERE NOT deleted")[0][0])
    jobs = store.select_jobs("WHERE NOT deleted ORDER BY id DESC LIMIT ?", [_AT_MOST])
    caption = f"{count:,} jobs, newest first" + (f"; the newest {_AT_MOST}" if count > _AT_MOST else "")
    listed = table(caption, _HEADS, map(_row, jobs)) if jobs else tag("p", "No job yet.")
    return page("Jobs", tag("div", listed, id="jobs", data_part=True), live=True)


def _row(job: Job) -> tuple[object, ...]:
    return (
        tag("a", job.name, href=job_link(job), id=f"job-{job.id}"),
        _state_mark(job.state),
        time_of_day(job.created),
        duration(job.created, job.completed or now_ms()),
        job.username,
        job.virtual_cluster,
        job.exit_code,
        job.retries,
    )


_TASK_STATES = ("FAILED", "RUNNING", "WAITING", "STOPPED", "SUCCEEDED")
"""In the order in which a reader looks for them."""


def job_page(api: Api, job: Job, stop_form: Html | None) -> str:
    """Return the page of a job with the tasks of its last attempt."""
    last = api.store.last_attempt(job)
    tasks = [] if last is None else api.store.tasks(last)
    content = (
        tag("div", _facts(job, last, api.launcher.queue.why(job)), id="facts", data_part=True),
        tag("div", _stopping(job, stop_form), id="stop", data_part=True),
        tag("div", _reason(job), id="reason", data_part=True),
        _output(job, last, tasks),
        tag("div", _tasks(api, job, last, tasks), id="tasks", data_part=True),
    )
    return page(job.name, *content, live=job.sub_state != COMPLETED)


def _facts(job: Job, attempt: Attempt | None, waits_for: str | None) -> Html:
    facts: dict[str, object] = {
        "State": _state_mark(job.state),
        "User": job.username,
        "Virtual cluster": job.virtual_cluster,
        "Submitted": time_of_day(job.created),
        "Last attempt began": None if attempt is None else time_of_day(attempt.launched),
        "Ended": time_of_day(job.completed),
        "Duration": duration(job.created, job.completed or now_ms()),
        "Retries": job.retries,
        "Waits because": waits_for,
        "Exit code": job.exit_code,
    }
    known = ((key, value) for key, value in facts.items() if value is not None and value != "")
    return tag("dl", *(join((tag("dt", key), tag("dd", value))) for key, value in known))


def _stopping(job: Job, stop_form: Html | None) -> Html | None:
    if job.sub_state == COMPLETED:
        return None
    return tag("p", "It is being stopped.") if job.execution_type == "STOP" else stop_form


def _reason(job: Job) -> Html | None:
    if not job.diagnostics:
        return None
    shown = tag("pre", job.diagnostics, tabindex="0", role="region", aria_label="Reason")
    return join((tag("h2", "Reason"), shown))


def _task_state(task: Task, attempt: Attempt | None) -> str:
    if task.exit_code is None:
        over = attempt is None or attempt.completed is not None
        return "STOPPED" if over else "WAITING" if task.launched is None and task.pid is None else "RUNNING"
    if task.exit_code in (EXIT_STOPPED, EXIT_JOB_ENDED):
        return "STOPPED"
    return "FAILED" if task.exit_code else "SUCCEEDED"


def _tasks(api: Api, job: Job, attempt: Attempt | None, tasks: Sequence[Task]) -> Html:
    """Return the table of tasks, failed and running ones first."""
    if attempt is None or not tasks:
        return join((tag("h2", "Tasks"), tag("p", _nothing(job))))
    heads = ("Task", "State", "Exit code", "Output", "Began", "Duration", "Ports", "GPUs", "Tries")
    states = [(task, _task_state(task, attempt)) for task in tasks]
    states.sort(key=lambda pair: _TASK_STATES.index(pair[1]))
    rows = (
        (
            task.name,
            _state_mark(state),
            task.exit_code,
            tag("span", *_log_links(api, job, task), class_="links"),
            time_of_day(task.launched),
            duration(task.launched, task.completed or attempt.completed or now_ms()),
            ", ".join(_ports(label, numbers) for label, numbers in task.ports.items()),
            _gpus(task.gpus),
            task.number + 1,
        )
        for task, state in states[:_AT_MOST]
    )
    caption = f"Tasks of attempt {attempt.number}"
    caption += f": {_AT_MOST} of {len(states)}" if len(states) > _AT_MOST else ""
    return join((tag("h2", "Tasks"), table(caption, heads, rows)))


def _ports(label: str, numbers: Sequence[int]) -> str:
    """Return the ports of a label; they stay on one line."""
    return f"{label}\N{NO-BREAK SPACE}{','.join(map(str, numbers))}"


def _gpus(bits: int) -> str:
    """Return the GPUs of a task as they are numbered: ``no. 0, 1``."""
    numbers = gpu_numbers(bits).replace(",", ", ")
    return f"no. {numbers}" if numbers else "none"


def _nothing(job: Job) -> str:
    return "No task has run." if job.sub_state == COMPLETED else "Nothing runs yet."


def _log_links(api: Api, job: Job, task: Task) -> list[Html]:
    path = urlsplit(log_url(task, job, api.address)).path
    return [
        join((tag("a", name, href=f"{path}{name}/", id=f"{task.container_id}-{name}"), " "))
        for name in job.release.log_streams
    ]


def _output(job: Job, attempt: Attempt | None, tasks: Sequence[Task]) -> Html:
    """Return the section in which the page's script shows a log; without scripts, the links open it.

    It shows the error log of the task that made the job fail, otherwise the first log. The order of the
    logs does not change, so that a log is not replaced while somebody reads it.
    """
    decided = _decided(job, attempt)
    options = [
        tag(
            "option",
            f"{task.name} {name}{' (FAILED)' if _task_state(task, attempt) == 'FAILED' else ''}",
            value=f"{task.container_id}/{job.username}/{name}",
            selected=name == "stderr" and (task.role, task.index) == decided,
        )
        for task in tasks
        for name in job.release.log_streams
    ]
    choice = tag("select", *options, id="which-log", autocomplete="off")
    return tag(
        "section",
        tag("h2", "Output", id="output-heading"),
        tag("p", _nothing(job), id="no-output", data_part=True, hidden=bool(tasks)),
        tag(
            "p",
            tag("label", "Log of", for_="which-log"),
            tag("span", choice, id="logs", data_part=True),
            tag("label", tag("input", type="checkbox", id="follow", checked=True), " follow its end"),
            class_="choice",
        ),
        tag("pre", id="log", tabindex="0", role="log", aria_live="off", aria_labelledby="output-heading"),
        id="output",
        hidden=True,
    )


def _decided(job: Job, attempt: Attempt | None) -> tuple[str, int] | None:
    """Return role and index of the task that made an attempt of a failed job fail."""
    if attempt is None or attempt.trigger_role is None or attempt.trigger_index is None:
        return None
    has_failed = bool(attempt.exit_code) and job.state == "FAILED"
    return (attempt.trigger_role, attempt.trigger_index) if has_failed else None
