"""Records for users, jobs, attempts and tasks, and the names and UIDs that 1.x gives them."""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from luigi_pai.jobspec.names import v2_name

if TYPE_CHECKING:
    from luigi_pai.local.releases import Release

WAITING, RUNNING, COMPLETED = "FRAMEWORK_WAITING", "APPLICATION_RUNNING", "FRAMEWORK_COMPLETED"
"""A job's sub-states: no attempt is running, an attempt is running, the job has ended."""

COMPLETING = "APPLICATION_COMPLETED"
"""Sub-state of a job whose tasks have ended; on 0.10 to 0.14, it lasts minutes, with the state WAITING."""


@dataclass
class User:
    """A user.

    Attributes:
        password: a salted hash.
        admin: whether the user is an administrator; others may only use the ``default`` virtual cluster.
    """

    name: str
    password: str
    admin: bool


@dataclass
class Job:
    """A job. Times are milliseconds since 1970 UTC.

    Attributes:
        config_json: the job config as the user sent it; for a v2 job, the protocol as JSON, without secrets.
        spec_json: the job config with all defaults; for a v2 job, the result of `protocol_spec.job_spec`.
        release: the release that runs the job.
        launched: when its first attempt started.
        sub_state: one of this module's constants.
        retries: number of attempts after the first, for any reason.
        counted_retries: number of retries that count towards retryCount.
    """

    id: int
    name: str
    username: str
    virtual_cluster: str
    config_json: str
    spec_json: str
    sub_state: str
    execution_type: str
    retries: int
    counted_retries: int
    created: int
    completed: int | None
    exit_code: int | None
    exit_type: str | None
    diagnostics: str | None
    deleted: bool
    release: Release
    total_gpus: int = 0
    total_tasks: int = 0
    total_roles: int = 0
    launched: int | None = None

    @property
    def state(self) -> str:
        """WAITING, RUNNING, STOPPING (not on 0.7.1), SUCCEEDED, STOPPED or FAILED."""
        if self.sub_state == COMPLETED:
            return self.release.ended_state(self.exit_code)
        if self.sub_state in (WAITING, COMPLETING):
            return "WAITING"
        stopping = self.execution_type == "STOP" and self.release.shows_stopping
        return "STOPPING" if stopping else "RUNNING"

    @property
    def full_name(self) -> str:
        """``USER~NAME``, as the v2 API writes it."""
        return f"{self.username}~{self.name}"

    @cached_property
    def task_name(self) -> str:
        """The name that the job's task gives it; a job converted for v2 keeps it as its description."""
        given = self.config.get("description")
        return given if isinstance(given, str) and v2_name(given) == self.name else self.name

    @cached_property
    def config(self) -> Any:
        """The content of ``config_json``."""
        return json.loads(self.config_json)

    @cached_property
    def spec(self) -> dict[str, Any]:
        """The content of ``spec_json``."""
        spec: dict[str, Any] = json.loads(self.spec_json)
        return spec

    @property
    def gang(self) -> bool:
        """Whether the job's tasks all start together, so no task is retried without the others."""
        return bool(self.spec["gang"])

    @cached_property
    def roles(self) -> list[dict[str, Any]]:
        """The task roles that run. If roles share a name, OpenPAI 0.7 silently drops all but the last."""
        return list({role["name"]: role for role in self.spec["taskRoles"]}.values())


@dataclass
class Attempt:
    """One run of a job.

    Attributes:
        number: the attempt's number within the job, from 1.
        interrupted: whether the server ends it to shut down; if so, its tasks' exit codes do not count.
        trigger_role, trigger_index: the task that decided the outcome.
        trigger_message: the rule by which that task decided it.
    """

    id: int
    job_id: int
    number: int
    launched: int
    completed: int | None = None
    interrupted: bool = False
    exit_code: int | None = None
    trigger_role: str | None = None
    trigger_index: int | None = None
    trigger_message: str | None = None

    def application_id(self, cluster_timestamp: int) -> str:
        """Return the attempt's id in the format of YARN's application ids."""
        return f"application_{cluster_timestamp}_{self.id:04d}"


@dataclass
class Task:
    """One attempt of one instance of a task role, within an attempt of the job.

    Attributes:
        folder: where its files are, relative to the jobs folder.
        ports: the reserved ports by label.
        gpus: its GPUs' numbers in the format of CUDA_VISIBLE_DEVICES, such as ``0,2``.
        pid: id of the process that runs it; its process group and session have the same id.
        pid_started: when that process started, as returned by `processes.started`.
        exit_code: the task's exit code; for a v2 job, as translated by the runtime.
        exit_info: the runtime's failure report, as JSON (v2).
        number: number of this attempt of the instance, from 0. Only jobs without gang allocation retry one
            task without the others.
        counted_retries: number of retries so far that count towards taskRetryCount.
    """

    container_id: str
    attempt_id: int
    role: str
    index: int
    folder: str
    ports: dict[str, list[int]] = field(default_factory=dict)
    gpus: str = ""
    pid: int | None = None
    pid_started: str | None = None
    exit_code: int | None = None
    launched: int | None = None
    completed: int | None = None
    exit_info: str | None = None
    number: int = 0
    counted_retries: int = 0

    @property
    def name(self) -> str:
        """``ROLE-INDEX``, as launchers write it."""
        return f"{self.role}-{self.index}"


def framework_name(job: Job) -> str:
    """Return the launcher's name for a job, which is a hash of ``USER~NAME``."""
    return hashlib.md5(job.full_name.encode(), usedforsecurity=False).hexdigest()


def object_uid(*words: object) -> str:
    """Return the UID of one of the launcher's objects, derived from words that identify the object."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, "/".join(map(str, words))))
