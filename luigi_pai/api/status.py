"""The status of a job (JobState, JobStatus, TaskStatus) or of one instance in an array."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from luigi_pai.durations import duration, moment
from luigi_pai.notebook import Link, html_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = [
    "JobList",
    "JobState",
    "JobStatus",
    "TaskStatus",
    "instance_statuses",
    "listed_status",
]

_COMMAND_EXIT_CODE = re.compile(r"^\s*originUserExitCode: (\d+)$", re.MULTILINE)  # in diagnostics (v2)
_LISTED = ("state", "raw_state", "retries", "exit_code", "launched_ms", "completed_ms")
_LISTED_ONCE = ("username", "created_ms", "virtual_cluster")
_MOST_SHOWN = 50  # jobs in a notebook
_STOPPED = (-210, -220)  # exit codes (v2) of tasks: stopped by the user; stopped because their job ended


class JobState(str, Enum):
    """A job's states, as named in all releases from 0.7 to 1.8.

    A job is COMPLETING when its containers have finished but the launcher has not yet decided whether to
    restart them. It is RETRY_PENDING while the launcher waits before the restart. Only 0.15 sends these two
    states; for the other releases they are read from ``subState``, see ``_SUB_STATES``.

    Any other state, which an unknown release may send, is read as UNKNOWN.
    """

    WAITING = "WAITING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"
    STOPPING = "STOPPING"
    COMPLETING = "COMPLETING"
    RETRY_PENDING = "RETRY_PENDING"
    UNKNOWN = "UNKNOWN"

    @classmethod
    def of(cls, word: object, sub_state: str | None = None) -> JobState:
        """Return the state for a server's word and its launcher's state, if known.

        ``SUCCEED`` is read as SUCCEEDED. No server sends it, but tests for ``luigi.contrib.pai`` use it.
        """
        if word == "SUCCEED":
            return cls.SUCCEEDED
        try:
            state = cls(word)
        except ValueError:
            return cls.UNKNOWN
        return _SUB_STATES.get(sub_state, {}).get(state, state)

    @property
    def finished(self) -> bool:
        """Whether a job in this state has ended and will not be restarted."""
        return self in _FINISHED


_FINISHED = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.STOPPED})

# The meaning of `state` with a `subState`, where it differs from the literal meaning. The servers report:
#
# FrameworkLauncher: 0.7 to 0.13 rest-server/src/models/job.js, from 0.14 on models/v1/job/yarn.js
#   FRAMEWORK_WAITING, APPLICATION_CREATED, _LAUNCHED, _WAITING   WAITING
#   APPLICATION_RUNNING                                           RUNNING
#   APPLICATION_RETRIEVING_DIAGNOSTICS, APPLICATION_COMPLETED     RUNNING; 0.10 to 0.14: WAITING
#   FRAMEWORK_COMPLETED                                           SUCCEEDED, FAILED, STOPPED
# FrameworkController: 0.15 to 1.2 models/v2/job/k8s.js, from 1.3 on models/v2/utils/frameworkConverter.js,
# and the same file of LTP 1.0 to 1.5
#   AttemptCreationPending, AttemptCreationRequested, AttemptPreparing   WAITING
#   AttemptRunning                                                       RUNNING
#   AttemptDeletionPending, AttemptDeletionRequested, AttemptDeleting    RUNNING, STOPPING; 0.15: COMPLETING
#   AttemptCompleted, before the next attempt   RUNNING, STOPPING; 0.15: COMPLETING
#   AttemptCompleted, in the pause before it    0.15: RETRY_PENDING; 0.16 to 1.2: WAITING; later: RUNNING
#   Completed                                                            SUCCEEDED, FAILED, STOPPED
#
# A stop would make the success of a job in the first two of these states exit code 214 (launcher 0.14,
# StatusManager.stopFramework).
_RUNS_NO_MORE = {JobState.RUNNING: JobState.COMPLETING}
_SUB_STATES: dict[str | None, dict[JobState, JobState]] = {
    "APPLICATION_RETRIEVING_DIAGNOSTICS": {**_RUNS_NO_MORE, JobState.WAITING: JobState.COMPLETING},
    "APPLICATION_COMPLETED": {**_RUNS_NO_MORE, JobState.WAITING: JobState.COMPLETING},
    "AttemptDeletionPending": _RUNS_NO_MORE,
    "AttemptDeletionRequested": _RUNS_NO_MORE,
    "AttemptDeleting": _RUNS_NO_MORE,
    "AttemptCompleted": {**_RUNS_NO_MORE, JobState.WAITING: JobState.RETRY_PENDING},
}


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """One task of a job.

    Attributes:
        role: The name of its task role.
        index: Its index within the role, from 0.
        log_url: The URL of the page with its output; None if there is no such page.
        state: The server's word for its state; None before 0.15.
        exit_code: The exit code of its last container; None until that container has ended. Before 0.9.1, it
            is None for all tasks except the ``exit_task``.
        attempt: The number of its last attempt, from 0; None before 0.15.
        diagnostics: The server's message about how its last container ended (v2 only).
        exit_type, exit_reason, exit_solution: The same as in ``JobStatus``, for its last container (v2 only).
        launched_ms, completed_ms: When it started and ended, in milliseconds since 1970 UTC (1.1 and later).
    """

    role: str
    index: int
    log_url: str | None = None
    state: str | None = None
    exit_code: int | None = None
    attempt: int | None = None
    diagnostics: str | None = None
    exit_type: str | None = None
    exit_reason: str | None = None
    exit_solution: str | None = None
    launched_ms: int | None = None
    completed_ms: int | None = None

    def __str__(self) -> str:
        return f"{self.role}[{self.index}]"


@dataclass(frozen=True, slots=True)
class JobStatus:
    """A job's status at one point in time, from a v1 or v2 server.

    Attributes:
        name: The job's name on the server.
        state: Its state.
        raw_state: The server's word for the state; the name of ``state`` if that is read from ``subState``.
        username: Its owner; None if the response does not name the owner.
        retries: How many times the cluster retried it.
        exit_code: The application's exit code; None until the application has ended.
        diagnostics: The server's message about how it ended.
        exit_type: The server's word for how it ended (``NON_TRANSIENT``, ``UserAppFailed``).
        exit_reason, exit_solution: The server's explanation of ``exit_type``, and its advice (v2 only).
        exit_task: Role and index of the task that ended the job.
        created_ms, completed_ms: When it was submitted and ended, in ms since 1970 UTC; None if not known.
        launched_ms: When it started, or when the cluster last restarted it, in the same unit; in lists (1.3
            and later), the first start. None if not known, as on 0.7 to 0.17.
        progress: 0 to 1; None if not known.
        virtual_cluster: Name of the job's virtual cluster.
        attempt: Number of the current attempt, from 0 (v2 only).
        tasks: Its tasks, by role and index.
        retry_causes: How often the cluster restarted it, by cause: ``user``, ``platform``, ``resource`` (0.12
            and later).
        tags: Its tags (1.3 and later).
        takes_tags: Whether the server supports tags, that is, whether its response has a list of tags.
        gpus: The total number of GPUs in all its instances; only in lists (1.2 and later).
        legacy: Whether a list (0.8 to 0.14 only) marks the job as one to look up without its user's name.
    """

    name: str
    state: JobState
    raw_state: str = ""
    username: str | None = None
    retries: int = 0
    exit_code: int | None = None
    diagnostics: str | None = None
    exit_type: str | None = None
    exit_reason: str | None = None
    exit_solution: str | None = None
    exit_task: tuple[str, int] | None = None
    created_ms: int | None = None
    launched_ms: int | None = None
    completed_ms: int | None = None
    progress: float | None = None
    virtual_cluster: str | None = None
    attempt: int | None = None
    tasks: tuple[TaskStatus, ...] = ()
    retry_causes: tuple[tuple[str, int], ...] = ()
    tags: tuple[str, ...] = ()
    takes_tags: bool = False
    gpus: int | None = None
    legacy: bool = False

    @property
    def finished(self) -> bool:
        """Whether the job has ended and will not be restarted."""
        return self.state in _FINISHED

    @property
    def succeeded(self) -> bool:
        """Whether the job has succeeded."""
        return self.state is JobState.SUCCEEDED

    @property
    def identified(self) -> bool:
        """Whether the response has an owner and a submission time, like real servers' responses."""
        return self.username is not None and self.created_ms is not None

    def failed_tasks(self) -> list[TaskStatus]:
        """Return the tasks with a non-zero exit code. Before 0.9.1, only the ``exit_task`` can have one.

        Tasks stopped by the user or by the end of the job are included only if no other task has failed.
        """
        failed = [task for task in self.tasks if task.exit_code]
        return [task for task in failed if task.exit_code not in _STOPPED] or failed

    @property
    def command_exit_code(self) -> int | None:
        """The command's own exit code, if in the diagnostics (v2). It may differ from ``exit_code``."""
        found = _COMMAND_EXIT_CODE.search(self.diagnostics or "")
        return None if found is None else int(found[1])

    def summary(self, reason: str | None = None) -> str:
        """Return the status in one line: state, number of tasks, retries, and why a queued job is waiting.

        Args:
            reason: Why the job is waiting; if None, its virtual cluster is shown instead.
        """
        parts = [self.raw_state or self.state.value]
        if self.tasks:
            parts.append(f"{len(self.tasks)} task{'' if len(self.tasks) == 1 else 's'}")
        if self.retries:
            parts.append(f"retry {self.retries}")
        is_waiting = self.state is JobState.WAITING
        if is_waiting and reason is None and self.virtual_cluster:
            parts.append(f"waiting in virtual cluster {self.virtual_cluster}")
        return ", ".join(parts) + (f": {reason}" if is_waiting and reason is not None else "")

    def _repr_html_(self) -> str:
        return JobList([self])._repr_html_()

    @property
    def took(self) -> str:
        """How long the job ran or has run so far, such as ``12 min``; empty if its start is not known."""
        if not self.launched_ms:
            return ""
        return duration((self.completed_ms or time.time() * 1000) / 1000 - self.launched_ms / 1000)

    def _cells(self, page: str) -> list[str]:
        exit_code = "" if self.exit_code is None else str(self.exit_code)
        place = self.virtual_cluster or ""
        return [Link(self.name, page), self.state.value, exit_code, moment(self.created_ms), self.took, place]


class JobList(list[JobStatus]):
    """Jobs from a server. Notebooks display the list as a table with a link to each job's page.

    Args:
        jobs: The jobs' statuses.
        page: A function that takes a job's name and user and returns the URL of its page in the portal.
    """

    def __init__(
        self, jobs: Iterable[JobStatus] = (), page: Callable[[str, str | None], str] | None = None
    ) -> None:
        super().__init__(jobs)
        self._page = page or (lambda _name, _user: "")

    def __reduce__(self) -> tuple[type[list[JobStatus]], tuple[list[JobStatus]]]:
        """Return the values to pickle. ``page`` is left out, because it belongs to a cluster."""
        return type(self), ([*self],)

    def _repr_html_(self) -> str:
        shown = self[:_MOST_SHOWN]
        rows = [job._cells(self._page(job.name, job.username)) for job in shown]  # noqa: SLF001  of this module
        titles = ("job", "state", "exit code", "submitted", "took", "virtual cluster")
        note = f"{len(shown)} of {len(self):,} jobs" if len(shown) < len(self) else ""
        return html_table(titles, rows, note)


def instance_statuses(array: JobStatus) -> Callable[[int], JobStatus]:
    """Return a function that takes an instance's index and returns its status as a job status.

    This status has the array's ``name``, because instances have no names on the server. Its state, exit code
    and task are the instance's. If the array has ended but the instance's state is not final, the array's
    state is used.
    """
    tasks = {task.index: task for task in array.tasks}
    return lambda index: _instance_status(array, tasks.get(index))


def _instance_status(array: JobStatus, task: TaskStatus | None) -> JobStatus:
    state = _state(array, task)
    if task is None:
        return replace(array, state=state, raw_state=state.value, tasks=())
    code = task.exit_code if state.finished else None
    return replace(
        array,
        state=state,
        raw_state=state.value,
        retries=task.attempt or 0,
        exit_code=code,
        diagnostics=task.diagnostics if code else None,
        exit_type=task.exit_type if code else None,
        exit_reason=task.exit_reason if code else None,
        exit_solution=task.exit_solution if code else None,
        launched_ms=task.launched_ms,
        completed_ms=task.completed_ms,
        exit_task=(task.role, task.index) if code else None,
        tasks=(task,),
    )


def _state(array: JobStatus, task: TaskStatus | None) -> JobState:
    state = JobState.UNKNOWN if task is None else JobState.of(task.state)
    if task is not None and state.finished and task.exit_code in _STOPPED:
        return JobState.STOPPED
    if state.finished or not array.finished:
        return state
    return array.state  # the array has ended, but has no final state for this instance


def listed_status(status: JobStatus, row: JobStatus) -> JobStatus:
    """Return a status updated with the newer fields from its job's row in a list."""
    newer = {name: getattr(row, name) for name in _LISTED if getattr(row, name) is not None}
    newer |= {name: getattr(row, name) for name in _LISTED_ONCE if getattr(status, name) is None}
    if (row.state, row.retries) != (status.state, status.retries):
        newer |= {"tasks": (), "attempt": None, "progress": None}
    if all(getattr(status, name) == value for name, value in newer.items()):
        return status
    return replace(status, **newer)
