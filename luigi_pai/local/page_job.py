"""One job for people: its state, why it ended, its tasks and their output, its attempts and events."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from luigi_pai.local.environment import CONTAINER_IP
from luigi_pai.local.exit_specs import EXIT_JOB_ENDED, EXIT_STOPPED, exit_spec
from luigi_pai.local.job_view import log_url
from luigi_pai.local.job_view_v2 import sub_state_v2
from luigi_pai.local.page_html import Html, duration, join, page, table, tag, time_of_day
from luigi_pai.local.page_jobs import job_link, state_mark, state_of
from luigi_pai.local.records import COMPLETED, WAITING
from luigi_pai.local.store import now_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from luigi_pai.local.records import Attempt, Job, Task
    from luigi_pai.local.rest import Api

__all__ = ["job_page"]

_MOST_ATTEMPTS = 100
_MOST_EVENTS = 100


def job_page(api: Api, job: Job, attempt_number: str, stop_form: Html | None) -> str:
    """Return the page of a job.

    Args:
        api: what there is.
        job: the job.
        attempt_number: which attempt's tasks to show, from 1; the last one's if there is no such.
        stop_form: what stops the job.
    """
    attempts = api.store.attempts(job)
    last = attempts[-1] if attempts and job.sub_state != WAITING else None
    chosen = next((attempt for attempt in attempts if str(attempt.number) == attempt_number), last)
    tasks = [] if chosen is None else api.store.tasks(chosen)
    ended = job.sub_state == COMPLETED
    waits_for = api.launcher.why_waiting(job)
    content = (
        tag("div", _facts(job, last, waits_for), _reason(job), id="facts", data_part=True),
        tag("div", _stopping(job, stop_form), id="stop", data_part=True),
        tag("h2", "Tasks" if chosen is last or chosen is None else f"Tasks of attempt {chosen.number}"),
        tag("div", _tasks(api, job, chosen, tasks), id="tasks", data_part=True),
        _output(job, tasks),
        tag("h2", "Resources"),
        _resources(job),
        tag("div", *_attempts(job, attempts), *_events(api, job), id="history", data_part=True),
    )
    return page(job.name, *content, live=not ended)


def _facts(job: Job, attempt: Attempt | None, waits_for: str | None) -> Html:
    sub_state = job.sub_state if job.generation == 1 else sub_state_v2(job)
    facts: dict[str, object] = {
        "State": join((state_mark(state_of(job)), f" ({sub_state})")),
        "User": job.username,
        "API": f"v{job.generation}",
        "Virtual cluster": job.virtual_cluster,
        "Submitted": time_of_day(job.created),
        "Last attempt began": None if attempt is None else time_of_day(attempt.launched),
        "Ended": time_of_day(job.completed),
        "Duration": duration(job.created, job.completed or now_ms()),
        "Retries": job.retries,
    }
    if waits_for is not None:
        facts["Waits because"] = waits_for
    if job.exit_code is not None:
        facts["Exit code"] = f"{job.exit_code} ({_exit_words(job)})"
    return tag("dl", *(join((tag("dt", key), tag("dd", value))) for key, value in facts.items()))


def _stopping(job: Job, stop_form: Html | None) -> Html | None:
    """Return what is shown of stopping a job: the form, or that it is being stopped."""
    if job.sub_state == COMPLETED:
        return None
    return tag("p", "It is being stopped.") if job.execution_type == "STOP" else stop_form


def _exit_words(job: Job) -> str:
    """Return what an ended job's exit code means."""
    spec = exit_spec(job.exit_code) if job.generation > 1 else None
    return str(job.exit_type) if spec is None else str(spec["phrase"])


def _reason(job: Job) -> Html | None:
    if not job.diagnostics:
        return None
    return join(
        (tag("h2", "Reason"), tag("pre", job.diagnostics, tabindex="0", role="region", aria_label="Reason"))
    )


def _task_state(task: Task, attempt: Attempt | None) -> str:
    if task.exit_code is None:
        over = attempt is None or attempt.completed is not None
        return "STOPPED" if over else "WAITING" if task.launched is None and task.pid is None else "RUNNING"
    if task.exit_code in (EXIT_STOPPED, EXIT_JOB_ENDED):
        return "STOPPED"
    return "FAILED" if task.exit_code else "SUCCEEDED"


def _tasks(api: Api, job: Job, attempt: Attempt | None, tasks: Sequence[Task]) -> Html:
    if not tasks:
        return tag("p", "None yet.")
    heads = ("Task", "State", "Host", "Ports", "GPUs", "Began", "Duration", "Exit code", "Tries", "Output")
    rows = []
    for task in tasks:
        path = urlsplit(log_url(task, job, api.address)).path
        links = [
            join((tag("a", name, href=f"{path}{name}/", id=f"{task.container_id}-{name}"), " "))
            for name in _logs(job)
        ]
        ports = ", ".join(f"{label} {','.join(map(str, numbers))}" for label, numbers in task.ports.items())
        gpus = ",".join(str(bit) for bit in range(task.gpus.bit_length()) if task.gpus >> bit & 1)
        rows.append(
            (
                task.name,
                state_mark(_task_state(task, attempt)),
                CONTAINER_IP,
                ports,
                gpus,
                time_of_day(task.launched),
                duration(task.launched, task.completed),
                task.exit_code,
                task.number + 1,
                join(links),
            )
        )
    return table("Tasks", heads, rows)


def _logs(job: Job) -> tuple[str, ...]:
    return ("stdout", "stderr") if job.generation == 1 else ("stdout", "stderr", "runtime")


def _output(job: Job, tasks: Sequence[Task]) -> Html:
    """Return where the script shows a log that grows; without scripts there are the links."""
    options = [
        tag("option", f"{task.name} {name}", value=f"{task.container_id}/{name}")
        for task in tasks
        for name in _logs(job)
    ]
    return tag(
        "section",
        tag("h2", "Output", id="output-heading"),
        tag(
            "p",
            tag("label", "Log of", for_="which-log"),
            tag("span", tag("select", *options, id="which-log"), id="logs", data_part=True),
            tag("label", tag("input", type="checkbox", id="follow", checked=True), " follow its end"),
            class_="search",
        ),
        tag("pre", id="log", tabindex="0", role="log", aria_live="off", aria_labelledby="output-heading"),
        id="output",
        hidden=True,
    )


def _resources(job: Job) -> Html:
    heads = ("Task role", "Tasks", "CPUs", "Memory", "Shared memory", "GPUs")
    rows = (
        (
            role["name"],
            role["taskNumber"],
            role["cpuNumber"],
            f"{role['memoryMB']} MB",
            f"{role['shmMB']} MB",
            role["gpuNumber"],
        )
        for role in job.roles
    )
    return table("What each task has", heads, rows)


def _attempts(job: Job, attempts: Sequence[Attempt]) -> tuple[object, ...]:
    if not attempts:
        return ()
    heads = ("Attempt", "Began", "Duration", "Exit code", "Decided by")
    rows = (
        (
            tag(
                "a",
                attempt.number,
                href=job_link(job, attempt=attempt.number),
                id=f"attempt-{attempt.number}",
            ),
            time_of_day(attempt.launched),
            duration(attempt.launched, attempt.completed),
            attempt.exit_code,
            "" if attempt.trigger_role is None else f"{attempt.trigger_role}-{attempt.trigger_index}",
        )
        for attempt in reversed(attempts[-_MOST_ATTEMPTS:])
    )
    return tag("h2", "Attempts"), table("Attempts, the last one first", heads, rows)


def _events(api: Api, job: Job) -> tuple[object, ...]:
    events = api.notes.events(job, most=_MOST_EVENTS)
    if not events:
        return ()
    rows = ((event["firstTimestamp"], event["type"], event["reason"], event["message"]) for event in events)
    return tag("h2", "Events"), table("Events, the last one first", ("Time", "Type", "Reason", "What"), rows)
