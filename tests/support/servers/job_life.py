"""The life of one job, request by request, with a fault at one of them: what the fault matrix is made of."""

from __future__ import annotations

import logging
import queue
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import luigi
from fault_kinds import fault_of
from faulty_pai import PASSWORD
from process_state import forget

from luigi_pai import PaiTask, TaskRole

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from clocks import MovableClock
    from elsewhere import Elsewhere
    from fault_server import Fault, Request
    from faulty_hdfs import FaultyHdfs
    from faulty_pai import FaultyPai

V1, EARLY_V2, V2, LTP = "0.7.1", "1.0.1", "1.8.0", "ltp-1.5"
NOTHING = "nothing"  # the word for no fault

PATIENCE = 20.0  # seconds of the test's clock, as all that follows but the timeouts
LONGEST = 5 * PATIENCE
TIMEOUT, TIMEOUT_OF_HANGS = 10.0, 0.3  # real seconds: of the second, cells that hang take some each
SETTINGS = {
    "username": "admin",
    "password": PASSWORD,
    "fs_uri": "hdfs://127.0.0.1:9000",
    "poll_min": 0.5,
    "poll_max": 3,
    "poll_patience": PATIENCE,
    "connect_timeout": TIMEOUT,
    "read_timeout": TIMEOUT,
}


@dataclass(frozen=True)
class Step:
    """Requests of one purpose in a job's life.

    Attributes:
        name: of the step.
        method, path: of the requests; ``JOB_NAME`` stands for the job's name.
        known: only those made when the server has the job (True) or has it not (False).
        on_hdfs: they go to HDFS.
        releases: whose servers are asked so.
    """

    name: str
    method: str
    path: str
    known: bool | None = None
    on_hdfs: bool = False
    releases: tuple[str, ...] = (V1, V2)


_HDFS = {"on_hdfs": True, "releases": (V1,)}  # the same in both dialects
STEPS = (
    Step("first", "*", ""),  # everything, from the first request of the process on
    Step("token", "POST", r"/token$"),
    Step("lookup", "GET", r"/jobs/(admin~)?JOB_NAME$", known=False, releases=(V1, V2, LTP)),
    Step("question", "GET", r"/jobs/admin~JOB_NAME/attempts/", known=False, releases=(LTP,)),
    Step("dialect", "GET", r"/api/v1/?$", releases=(V1, EARLY_V2)),
    Step("submit", "POST", r"/jobs/?$", releases=(V1, V2, LTP)),
    Step("poll", "GET", r"/jobs/(admin~)?JOB_NAME$", known=True),
    Step("list", "GET", r"/jobs/?(\?.*)?$"),
    Step("stop", "PUT", r"/executionType$"),
    Step("config", "GET", r"/config$", releases=(V1, V2, LTP)),  # of a job whose task has changed since
    Step("logs", "GET", r"/logs(\?|$)", releases=(V2, LTP)),  # of a job that has failed
    Step("upload-namenode", "PUT", r"^[^?]*/up/(?!.*namenoderpcaddress).*op=CREATE", **_HDFS),
    Step("upload-datanode", "PUT", r"^[^?]*/up/(?=.*namenoderpcaddress).*op=CREATE", **_HDFS),
    Step("flag-write", "PUT", r"_SUCCESS.*op=(CREATE|RENAME)", **_HDFS),
    Step("folder-status", "GET", r"/output\?.*op=GETFILESTATUS", **_HDFS),
    Step("flag-open", "GET", r"/_SUCCESS.*op=OPEN", **_HDFS),  # of a job that the server has forgotten
    Step("claim-write", "PUT", r"_luigi_pai.*op=(CREATE|RENAME)", **_HDFS),
    Step("claim-list", "GET", r"_luigi_pai.*op=LISTSTATUS", **_HDFS),
    Step("claim-read", "GET", r"_luigi_pai/.*op=OPEN", **_HDFS),  # as with flag-open
)
STEP = {step.name: step for step in STEPS}


class Train(PaiTask):
    """A task.

    Attributes:
        changed: whether it has changed since it was run.
    """

    name = luigi.Parameter()
    changed = luigi.BoolParameter(significant=False)
    image = "x"

    @property
    def tasks(self) -> list[TaskRole]:
        return [TaskRole("main", "false" if self.changed else "true")]


class TrainWithUploads(Train):
    """A task that sends something to HDFS."""

    local: str = ""

    @property
    def uploads(self) -> dict[str, str]:
        return {self.local: f"/up/{self.name}/data"}


class TrainWithTargets(Train):
    """A task that was begun, as its outputs tell: its job may have been forgotten, and the list is asked."""

    folder: str = ""

    def output(self) -> list[luigi.LocalTarget]:
        return [luigi.LocalTarget(f"{self.folder}/{file}") for file in ("begun", "missing")]


class _Message(str):
    """A message as Luigi's scheduler hands it over."""

    __slots__ = ("answers",)

    def respond(self, text: str) -> None:
        self.answers.append(text)


class StopRequest:
    """The messages of a task that is to be stopped as soon as its job runs: the queue that Luigi gives it.

    Attributes:
        answers: what was answered.
    """

    def __init__(self, pai: FaultyPai, name: str) -> None:
        self._pai = pai
        self._name = name
        self.answers: list[str] = []

    def get(self, block: bool = True, timeout: float | None = None) -> str:  # noqa: FBT001, FBT002
        sent = any("not submitted yet" not in answer for answer in self.answers)
        if not sent and self._name in self._pai.jobs:
            message = _Message("stop")
            message.answers = self.answers
            return message
        if block:
            self._pai.clock.sleep(timeout or 0.0)
        raise queue.Empty

    def get_nowait(self) -> str:
        return self.get(block=False)

    def empty(self) -> bool:
        return False


@dataclass
class Outcome:
    """What became of one process that was to do a task.

    Attributes:
        error: what it raised; None where the task was done.
        asked: whether ``complete()`` has returned.
        took: seconds of the clock.
        answers: to messages of the scheduler.
    """

    error: Exception | None
    asked: bool
    took: float
    answers: Sequence[str] = ()


@dataclass
class World:
    """The servers around one job, the job's task, and the word for what befalls a step of its life."""

    pai: FaultyPai
    hdfs: FaultyHdfs
    elsewhere: Elsewhere
    clock: MovableClock
    folder: Path
    name: str
    step: Step
    word: str
    faults: list[Fault] = field(default_factory=list)

    def settings(self) -> dict[str, Any]:
        """Return the settings of [OpenPai] for this step and its faults."""
        found = {**SETTINGS, "pai_url": self.pai.url}
        if self.word.startswith(("hang", "drip")):
            found["read_timeout"] = TIMEOUT_OF_HANGS
        if self.step.name != "list":  # only where HDFS cannot tell is a list needed
            found["webhdfs_url"] = self.hdfs.url
        return found

    def warm_up(self) -> None:
        """Begin a process that has had an answer before, unless the step is about its first ones."""
        if self.step.name in ("flag-open", "claim-read"):
            assert self.live().error is None
            self.pai.jobs.clear()
            forget()
        if self.step.name == "config":
            assert self.live().error is None
            forget()
        if self.step.name not in ("first", "token", "dialect"):
            self.pai.add("warm")
            assert Train(name="warm").complete()

    def bring(self, times: float) -> Fault:
        """Let the fault befall the step's requests."""
        server = self.hdfs if self.step.on_hdfs else self.pai
        fault = server.fail(
            self.step.method,
            self.step.path.replace("JOB_NAME", re.escape(self.name)),
            **self._fault(),
            times=times,
            when=self._is_meant,
        )
        self.faults.append(fault)
        return fault

    def live(self) -> Outcome:
        """Do the task as a Luigi worker does: ask whether it is complete, and run it if not."""
        task = self._task()
        stop = StopRequest(self.pai, self.name)
        if self.step.name == "stop" and self.faults:
            task.scheduler_messages = stop
        self.clock.restart()
        error, asked = None, False
        try:
            complete = task.complete()
            asked = True
            if not complete:
                task.run()
        except Exception as raised:  # noqa: BLE001  judged by the test
            error = raised
        finally:
            if hasattr(task, "scheduler_messages"):
                del task.scheduler_messages
        return Outcome(error, asked, self.clock.elapsed, stop.answers)

    def start_anew(self) -> None:
        """End the faults and the process."""
        self.faults.clear()
        self.pai.plan = {}
        self.pai.heal()
        self.hdfs.heal()
        forget()

    def is_complete(self) -> bool:
        return bool(self._task().complete())

    def secrets(self) -> list[str]:
        """Return what no text may show."""
        return [PASSWORD, "Bearer ", *self.pai.issued]

    def _task(self) -> Train:
        luigi.task_register.Register.clear_instance_cache()
        if self.step.name.startswith("upload"):
            local = self.folder / "data.csv"
            local.write_text("1,2\n")
            TrainWithUploads.local = str(local)
            return TrainWithUploads(name=self.name)
        if self.step.name == "config" and self.name in self.pai.jobs:
            return Train(name=self.name, changed=True)
        if self.step.name == "list":
            (self.folder / "begun").touch()
            TrainWithTargets.folder = str(self.folder)
            return TrainWithTargets(name=self.name)
        return Train(name=self.name)

    def _fault(self) -> dict[str, Any]:
        if self.word == NOTHING:
            return {"kind": NOTHING}
        return fault_of(self.word, self.step.name, self.clock, self.elsewhere, on_hdfs=self.step.on_hdfs)

    def _is_meant(self, _request: Request) -> bool:
        return self.step.known in (None, self.name in self.pai.jobs)


LOGGERS = tuple(logging.getLogger(name) for name in ("luigi-interface", "luigi_pai", "urllib3", "requests"))
