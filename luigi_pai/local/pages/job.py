"""The page of a job: state, reason, log, tasks, attempts, events, and its task's other submissions."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from luigi_pai.local.pages.html import Html, duration, join, page, table, tag, time_of_day
from luigi_pai.local.pages.job_list import state_mark
from luigi_pai.local.releases.exit_specs import EXIT_JOB_ENDED, EXIT_STOPPED
from luigi_pai.local.store.database import now_ms
from luigi_pai.local.store.records import COMPLETED, WAITING, gpu_numbers
from luigi_pai.local.views.job_states import job_state
from luigi_pai.local.views.v1 import job_link, log_url
from luigi_pai.local.views.v2.jobs import exit_phrase, sub_state
from luigi_pai.spec.names import attempt_name, latest_attempts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from luigi_pai.local.rest.base.api import Api
    from luigi_pai.local.store.jobs import Store
    from luigi_pai.local.store.records import Attempt, Job, Task

__all__ = ["job_page"]

_MOST_ATTEMPTS = 100
_MOST_EVENTS = 100
_MOST_SUBMISSIONS = 20
_TASKS_AT_ONCE = 20
_TASK_STATES = ("FAILED", "RUNNING", "WAITING", "STOPPED", "SUCCEEDED")
"""In the order in which a reader looks for them."""
_WORDS: dict[str, tuple[Callable[[Job], str], Callable[[Job], str]]] = {
    "v1": (lambda job: job.sub_state, lambda job: str(job.exit_type)),
    "v2": (sub_state, exit_phrase),
}
"""By API: the launcher's own word for a job's state, and the meaning of an ended job's exit code."""


def job_page(api: Api, job: Job, attempt_number: str, stop_form: Html | None) -> str:
    """Return the page of a job with the tasks of an attempt, from 1; the last one's if there is no such."""
    attempts = api.store.attempts(job)
    last = attempts[-1] if attempts else None
    chosen = next((attempt for attempt in attempts if str(attempt.number) == attempt_number), last)
    tasks = [] if chosen is None else api.store.tasks(chosen)
    goes_on = None if job.sub_state == WAITING else last
    some, others = _tasks(api, job, chosen, tasks)
    facts = _facts(job, last, api.launcher.queue.why(job), _submissions(api.store, job))
    content = (
        tag("div", facts, id="facts", data_part=True),
        tag("div", _stopping(job, stop_form), id="stop", data_part=True),
        tag("div", _reason(api, job, last, tasks if chosen is last else ()), id="reason", data_part=True),
        _output(job, chosen, tasks),
        tag("div", _tasks_heading(chosen, goes_on), some, id="tasks", data_part=True),
        _other_tasks(job, others),
        tag("h2", "Resources"),
        _resources(job),
        tag("div", *_attempts(job, attempts), *_events(api, job), id="history", data_part=True),
    )
    return page(job.name, *content, live=job.sub_state != COMPLETED)


def _facts(job: Job, attempt: Attempt | None, waits_for: str | None, submissions: Html | None) -> Html:
    launcher_state, phrase = _WORDS[job.release.api]
    facts: dict[str, object] = {
        "State": join((state_mark(job_state(job)), f" ({launcher_state(job)})")),
        "User": job.username,
        "API": job.release.api,
        "Virtual cluster": job.virtual_cluster,
        "Submitted": time_of_day(job.created),
        "Last attempt began": None if attempt is None else time_of_day(attempt.launched),
        "Ended": time_of_day(job.completed),
        "Duration": duration(job.created, job.completed or now_ms()),
        "Retries": job.retries,
        "Submissions": submissions,
    }
    if waits_for is not None:
        facts["Waits because"] = waits_for
    if job.exit_code is not None:
        facts["Exit code"] = f"{job.exit_code} ({phrase(job)})"
    known = ((key, value) for key, value in facts.items() if value is not None and value != "")
    return tag("dl", *(join((tag("dt", key), tag("dd", value))) for key, value in known))


def _stopping(job: Job, stop_form: Html | None) -> Html | None:
    if job.sub_state == COMPLETED:
        return None
    return tag("p", "It is being stopped.") if job.execution_type == "STOP" else stop_form


def _reason(api: Api, job: Job, attempt: Attempt | None, tasks: Sequence[Task]) -> Html | None:
    if not job.diagnostics:
        return None
    shown = tag("pre", job.diagnostics, tabindex="0", role="region", aria_label="Reason")
    decided = None if attempt is None else (attempt.trigger_role, attempt.trigger_index)
    links = [
        tag("p", f"All output of {task.name}: ", *_log_links(api, job, task, "reason"))
        for task in tasks
        if (task.role, task.index) == decided
    ]
    return join((tag("h2", "Reason"), shown, *links))


def _task_state(task: Task, attempt: Attempt | None) -> str:
    if task.exit_code is None:
        over = attempt is None or attempt.completed is not None
        return "STOPPED" if over else "WAITING" if task.launched is None and task.pid is None else "RUNNING"
    if task.exit_code in (EXIT_STOPPED, EXIT_JOB_ENDED):
        return "STOPPED"
    return "FAILED" if task.exit_code else "SUCCEEDED"


def _tasks_heading(attempt: Attempt | None, goes_on: Attempt | None) -> Html:
    return tag(
        "h2", "Tasks" if attempt is None or attempt is goes_on else f"Tasks of attempt {attempt.number}"
    )


def _tasks(api: Api, job: Job, attempt: Attempt | None, tasks: Sequence[Task]) -> tuple[Html, Html]:
    """Return the table of the first tasks, and the table of the others.

    The first table of a job with many tasks has the failed ones, then the running ones.
    """
    states = [(task, _task_state(task, attempt)) for task in tasks]
    if not states:
        nothing = tag("p", _nothing(job))
        return nothing, nothing
    if len(states) <= _TASKS_AT_ONCE:
        return _task_table(api, job, attempt, states, "Tasks"), Html("")
    counts = Counter(state for _, state in states)
    parts = [join((f"{counts[state]} ", state_mark(state))) for state in _TASK_STATES if counts[state]]
    words = [join((", " if number else "", one)) for number, one in enumerate(parts)]
    states.sort(key=lambda pair: _TASK_STATES.index(pair[1]))
    some, others = states[:_TASKS_AT_ONCE], states[_TASKS_AT_ONCE:]
    summary = tag("p", f"{len(states)} tasks: ", *words, ".")
    first = _task_table(api, job, attempt, some, "Tasks, failed and running ones first")
    return join((summary, first)), _task_table(api, job, attempt, others, "The other tasks")


def _task_table(
    api: Api, job: Job, attempt: Attempt | None, tasks: Sequence[tuple[Task, str]], caption: str
) -> Html:
    heads = ("Task", "State", "Exit code", "Output", "Began", "Duration", "Ports", "GPUs", "Tries")
    ended = None if attempt is None else attempt.completed
    rows = []
    for task, state in tasks:
        ports = ", ".join(_ports(label, numbers) for label, numbers in task.ports.items())
        rows.append(
            (
                task.name,
                state_mark(state),
                task.exit_code,
                tag("span", *_log_links(api, job, task), class_="links"),
                time_of_day(task.launched),
                duration(task.launched, task.completed or ended or now_ms()),
                ports,
                _gpus(task.gpus),
                task.number + 1,
            )
        )
    return table(caption, heads, rows)


def _ports(label: str, numbers: Sequence[int]) -> str:
    """Return the ports of a label; they stay on one line."""
    return f"{label}\N{NO-BREAK SPACE}{','.join(map(str, numbers))}"


def _gpus(bits: int) -> str:
    """Return the GPUs of a task as they are numbered: ``no. 0, 1``."""
    numbers = gpu_numbers(bits).replace(",", ", ")
    return f"no. {numbers}" if numbers else "none"


def _other_tasks(job: Job, others: Html) -> Html | None:
    """Return the folded part with the other tasks; once opened it stays open while they change."""
    count = sum(role["taskNumber"] for role in job.roles) - _TASKS_AT_ONCE
    if count <= 0:
        return None
    summary = tag("summary", f"The other {count} tasks")
    return tag("details", summary, tag("div", others, id="other-tasks", data_part=True))


def _nothing(job: Job) -> str:
    return "No task has run." if job.sub_state == COMPLETED else "Nothing runs yet."


def _log_links(api: Api, job: Job, task: Task, place: str = "") -> list[Html]:
    path = urlsplit(log_url(task, job, api.address)).path
    return [
        join((tag("a", name, href=f"{path}{name}/", id=f"{place}{task.container_id}-{name}"), " "))
        for name in job.release.log_streams
    ]


def _output(job: Job, attempt: Attempt | None, tasks: Sequence[Task]) -> Html:
    """Return the part in which the script shows a log; without scripts the links lead to it.

    It shows the error log of the task that a failed job failed over, otherwise the first
    log. The order of the logs stays, so that the one being read is not replaced by another.
    """
    decided = _decided(job, attempt)
    options = [
        tag(
            "option",
            f"{task.name} {name}{failed}",
            value=f"{task.container_id}/{name}",
            selected=name == "stderr" and (task.role, task.index) == decided,
        )
        for task in tasks
        for failed in [" (FAILED)" if _task_state(task, attempt) == "FAILED" else ""]
        for name in job.release.log_streams
    ]
    return tag(
        "section",
        tag("h2", "Output", id="output-heading"),
        tag("p", _nothing(job), id="no-output", data_part=True, hidden=bool(tasks)),
        tag(
            "p",
            tag("label", "Log of", for_="which-log"),
            tag(
                "span", tag("select", *options, id="which-log", autocomplete="off"), id="logs", data_part=True
            ),
            tag("label", tag("input", type="checkbox", id="follow", checked=True), " follow its end"),
            class_="search",
        ),
        tag("pre", id="log", tabindex="0", role="log", aria_live="off", aria_labelledby="output-heading"),
        id="output",
        hidden=True,
    )


def _decided(job: Job, attempt: Attempt | None) -> tuple[str, int] | None:
    """Return role and index of the task that an attempt of a failed job failed over."""
    if attempt is None or attempt.trigger_role is None or attempt.trigger_index is None:
        return None
    has_failed = bool(attempt.exit_code) and job_state(job) == "FAILED"
    return (attempt.trigger_role, attempt.trigger_index) if has_failed else None


def _resources(job: Job) -> Html:
    heads = ("Task role", "Tasks", "CPUs", "Memory", "Shared memory", "GPUs")
    rows = (
        (
            role["name"],
            role["taskNumber"],
            role["cpuNumber"],
            f"{role['memoryMB']} MB",
            f"{role.get('sharedMemoryMB', role['shmMB'])} MB",
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
            duration(attempt.launched, attempt.completed or now_ms()),
            attempt.exit_code,
            "" if attempt.trigger_role is None else f"{attempt.trigger_role}-{attempt.trigger_index}",
        )
        for attempt in reversed(attempts[-_MOST_ATTEMPTS:])
    )
    shown = "" if len(attempts) <= _MOST_ATTEMPTS else f": {_MOST_ATTEMPTS} of {len(attempts)}"
    return tag("h2", "Attempts"), table(f"Attempts, the last one first{shown}", heads, rows)


def _events(api: Api, job: Job) -> tuple[object, ...]:
    events = api.events.of(job, most=_MOST_EVENTS)
    if not events:
        return ()
    rows = (
        (_time_of_event(event["firstTimestamp"]), event["type"], event["reason"], event["message"])
        for event in events
    )
    return tag("h2", "Events"), table("Events, the last one first", ("Time", "Type", "Reason", "What"), rows)


def _time_of_event(written: str) -> str:
    """Return a moment that the API writes in UTC as all others on the page."""
    moment = datetime.fromisoformat(written.replace("Z", "+00:00"))
    return time_of_day(int(moment.timestamp() * 1000))


def _submissions(store: Store, job: Job) -> Html | None:
    """Return links to all submissions of a job's task, each with its state; None if there is one only."""
    first = next(iter(latest_attempts([job.name])), job.name)
    where = "WHERE NOT deleted AND username = ? AND api = ? AND substr(name, 1, ?) = ?"
    found = store.select_jobs(where, [job.username, job.release.api, len(first), first])
    by_name = {other.name: other for other in found}
    last = latest_attempts(by_name).get(first, 1)
    names = [attempt_name(first, number) for number in range(1, last + 1)]
    shown = [by_name[name] for name in names if name in by_name][-_MOST_SUBMISSIONS:]
    if len(shown) <= 1:
        return None
    return join(
        tag("span", _submission(other, job), " ", state_mark(job_state(other)), class_="submission")
        for other in shown
    )


def _submission(other: Job, job: Job) -> Html:
    if other.id == job.id:
        return tag("span", other.name, aria_current="page")
    return tag("a", other.name, href=job_link(other))
