"""A job as a rest-server of the tests keeps it: it runs no command, and ends when and as it is told."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Job:
    """A job.

    Attributes:
        config: what was posted.
        ends_as: the state that it comes to.
        waits_for: seconds in the queue before it runs.
        runs_for: seconds that it runs.
        completes_for: seconds from then on in which its launcher completes it.
        completing: its state and sub-state meanwhile: as 0.10 to 0.14 report it.
        tasks_run_for: seconds that its instances run; ``runs_for`` where None.
        task_codes: v2: exit codes of instances, by index, which it shows then; 0 of those left out.
        clock: of the server.
        tags: its tags.
        retries: how often the cluster has started it again.
    """

    name: str
    username: str
    config: dict
    ends_as: str = "SUCCEEDED"
    exit_code: int = 0
    diagnostics: str | None = None
    runs_for: float = 0.0
    completes_for: float = 0.0
    completing: tuple[str, str] = ("WAITING", "APPLICATION_COMPLETED")
    waits_for: float = 0.0
    tasks_run_for: float | None = None
    task_codes: dict[int, int] | None = None
    clock: Any = time
    created: float = field(default=0.0)
    tags: list[str] = field(default_factory=list)
    retries: int = 0

    def __post_init__(self) -> None:
        self.created = self.created or self.clock.time()

    @property
    def state(self) -> str:
        age = self.clock.time() - self.created
        if age < self.waits_for:
            return "WAITING"
        if age < self.waits_for + self.runs_for:
            return "RUNNING"
        return self.completing[0] if self.is_completing else self.ends_as

    @property
    def is_completing(self) -> bool:
        ran = self.clock.time() - self.created - self.waits_for - self.runs_for
        return 0 <= ran < self.completes_for

    def stop(self, exit_code: int) -> None:
        """End it now, if it has not ended."""
        if self.state in ("WAITING", "RUNNING"):
            self.ends_as, self.exit_code, self.waits_for, self.runs_for = "STOPPED", exit_code, 0.0, 0.0
            self.completes_for = 0.0

    @property
    def sub_state(self) -> str:
        if self.is_completing:
            return self.completing[1]
        running = {"WAITING": "APPLICATION_WAITING", "RUNNING": "APPLICATION_RUNNING"}
        return running.get(self.state, "FRAMEWORK_COMPLETED")

    def row(self) -> dict:
        ended = self.state not in ("WAITING", "RUNNING")
        return {
            "name": self.name,
            "username": self.username,
            "state": self.state,
            "subState": self.sub_state,
            "executionType": "START",
            "retries": self.retries,
            "createdTime": int(self.created * 1000),
            "completedTime": int((self.created + self.waits_for + self.runs_for) * 1000) if ended else None,
            "appExitCode": self.exit_code if ended else None,
            "virtualCluster": self.config.get("virtualCluster", "default"),
        }

    def detail_v2(self, start: str = "") -> dict:
        """Return the job's detail; ``start`` is what the release has as ``appLaunchedTime``, if any."""
        ended = self.state not in ("WAITING", "RUNNING")
        running = {"WAITING": "AttemptPreparing", "RUNNING": "AttemptRunning"}
        status = {key: value for key, value in self.row().items() if key != "name"} | {
            "subState": running.get(self.state, "Completed"),
            "attemptId": 0,
            "appProgress": 1 if ended else 0,
            "appTrackingUrl": "",
            "appExitDiagnostics": self.diagnostics if ended else None,
            "appExitType": "Failed" if ended and self.exit_code else None,
        }
        if start:
            launched = self.created if start == "created" else self.created + self.waits_for
            waits = start == "attempt" and self.state == "WAITING"
            status["appLaunchedTime"] = None if waits else int(launched * 1000)
        return {"name": self.name, "jobStatus": status, "taskRoles": self._roles_v2()}

    def _roles_v2(self) -> dict:
        if self.task_codes is None:
            return {}
        ended = self.state not in ("WAITING", "RUNNING")
        if self.tasks_run_for is not None:
            ended = ended or self.clock.time() - self.created >= self.waits_for + self.tasks_run_for
        return {
            name: {"taskStatuses": [self._task_v2(index, ended=ended) for index in range(role["instances"])]}
            for name, role in self.config["taskRoles"].items()
        }

    def _task_v2(self, index: int, *, ended: bool) -> dict:
        code = (self.task_codes or {}).get(index, 0)
        state = "FAILED" if code else "SUCCEEDED"
        return {
            "taskIndex": index,
            "taskState": state if ended else self.state,
            "containerExitCode": code if ended else None,
            "attemptId": 0,
        }

    def detail(self) -> dict:
        ended = self.state not in ("WAITING", "RUNNING")
        status = self.row() | {
            "appId": "application_1_1",
            "appProgress": 1 if ended else 0,
            "appTrackingUrl": "http://rm/application_1_1",
            "appLaunchedTime": int(self.created * 1000),
            "appCompletedTime": int((self.created + self.waits_for + self.runs_for) * 1000)
            if ended
            else None,
            "appExitDiagnostics": self.diagnostics if ended else None,
            "appExitType": "NON_TRANSIENT" if ended and self.exit_code else None,
        }
        roles = {
            role["name"]: {
                "taskRoleStatus": {"name": role["name"]},
                "taskStatuses": [
                    {
                        "taskIndex": index,
                        "containerId": f"container_{index}",
                        "containerIp": "127.0.0.1",
                        "containerPorts": {"http": "30000", "ssh": "30001"},
                        "containerGpus": 0,
                        "containerLog": f"http://nm:8042/logs/{self.name}/{role['name']}/{index}",
                    }
                    for index in range(role.get("taskNumber", 1))
                ],
            }
            for role in self.config["taskRoles"]
        }
        return {"name": self.name, "jobStatus": status, "taskRoles": roles}
