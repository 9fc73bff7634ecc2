"""A sweep as users write it, whose jobs end as the server of a test lets them."""

from __future__ import annotations

import contextlib
import json
import queue
from pathlib import Path

import luigi
import pytest
from pipelines import new_process

from luigi_pai import PaiSweep, PaiTask, TaskRole, grid
from luigi_pai.sweep.engine import Engine
from luigi_pai.sweep.sweep_run import SweepRun

__all__ = [
    "JOURNAL",
    "Asks",
    "Many",
    "Message",
    "Packed",
    "Proposing",
    "Reporting",
    "Study",
    "Train",
    "end_of",
    "forge",
    "killed",
    "most_at_once",
    "run_with_messages",
    "states",
    "study",
    "write_output",
]

JOURNAL = Path("results/journal.jsonl")

proposed: list[int] = []  # batches of the points of ``Proposing``


class Train(PaiTask):
    """A point."""

    rate = luigi.FloatParameter(default=0.1)
    batch = luigi.IntParameter(default=16)
    image = "python:3"
    tasks = [TaskRole("main", "python train.py", memoryMB=100)]

    @property
    def name(self):
        return f"train-{self.rate}-{self.batch}"

    def result(self):
        return {"accuracy": round(1 - self.rate, 3)}


class Reporting(Train):
    """A point whose containers write its result and reports; result() is the package's own."""

    @property
    def output_dir(self):
        return f"/out/{self.name}"

    def result(self):
        return super(Train, self).result()


class Study(PaiSweep):
    """Six points, unless a test says other ones."""

    rates = (0.1, 0.2, 0.3)
    batches = (16, 32)
    parallel_jobs = 4
    results_dir = "results"

    def points(self):
        return grid(Train, rate=self.rates, batch=self.batches)


class Many(Study):
    """Twenty points, eight at once."""

    rates = (0.1,)
    batches = range(20)
    parallel_jobs = 8


class Packed(Study):
    """Six points in jobs of four."""

    points_per_job = 4
    rates = (1, 2, 3)


class Asks(Study):
    """A search that proposes what a test wants.

    ``proposes`` lists batches of points; {"told": 2} waits until two calls of ``tell`` were made, and
    {"raises": 1} raises KeyboardInterrupt.
    """

    proposes = ()
    told: list

    def points(self):
        self.told = []
        yield from self.proposed()

    def proposed(self):
        for each in self.proposes:
            told = each.get("told", 0) if isinstance(each, dict) else 0
            while len(self.told) < told:
                yield None
            if isinstance(each, dict) and "raises" in each:
                raise KeyboardInterrupt
            if not told:
                yield Train(batch=each) if isinstance(each, int) else each

    def tell(self, point, row):
        self.told.append((point.name, row["state"]))


class Proposing(PaiSweep):
    """A search with two points, which a process chooses."""

    first = 10
    results_dir = "$PAI_DEFAULT_FS_URI/proposing"

    def points(self):
        for batch in (self.first, self.first + 1):
            proposed.append(batch)
            yield Train(batch=batch)

    def tell(self, point, row):
        pass


def study(name, kind=Study, /, *, points=None, own_name=None, **about):
    """Return a sweep of a class of its own.

    Args:
        name: of the class.
        kind: its base.
        points: returns its points.
        own_name: its attribute ``name``.
        about: its other attributes.
    """
    if points is not None:
        about["points"] = lambda _: points()
    if own_name is not None:
        about["name"] = own_name
    return type(name, (kind,), {"__module__": kind.__module__, **about})()


def states(sweep):
    """Return the states of its rows."""
    return [row["state"] for row in sweep.output().rows()]


def end_of(*, failing=(), runs_for=0.0, **more):
    """Return a plan of a server: jobs whose names contain one of some texts fail."""

    def plan(name):
        ends = {"ends_as": "FAILED", "exit_code": 3} if any(part in name for part in failing) else {}
        return {"runs_for": runs_for, **ends, **more}

    return plan


@contextlib.contextmanager
def killed(monkeypatch, pai, submissions):
    """Kill the run of a sweep, as far as it can be done here, when it has submitted so many jobs."""
    step = Engine.step

    def killing(engine):
        step(engine)
        if pai.submissions >= submissions:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Engine, "step", killing)
        patched.setattr(SweepRun, "_save", lambda *_, **__: None)
        with pytest.raises(KeyboardInterrupt):
            yield
    new_process()


def most_at_once(sweep, pai, plan):
    """Run a sweep, and return the largest number of its jobs that ran at once."""
    numbers = []

    def counting(name):
        numbers.append(1 + sum(job.state == "RUNNING" for job in pai.jobs.values()))
        return plan(name)

    pai.plan = counting
    sweep.run()
    return max(numbers)


def write_output(hdfs, name, file, *lines):
    """Write what the containers of a ``Reporting`` point write: objects of JSON, or bytes of one."""
    path = hdfs / "out" / name / file
    path.parent.mkdir(parents=True)
    path.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))


def forge(*events, first=False):
    """Write lines to the journal, before or after the lines that are there."""
    JOURNAL.parent.mkdir(exist_ok=True)
    before = JOURNAL.read_bytes() if JOURNAL.exists() else b""
    lines = b"".join(
        (event if isinstance(event, bytes) else json.dumps(event).encode()) + b"\n" for event in events
    )
    JOURNAL.write_bytes(lines + before if first else before + b"\n" + lines)


class Message(str):
    """A message as Luigi's scheduler hands it over."""

    __slots__ = ("answers",)

    def respond(self, text):
        self.answers.append(text)


class _Inbox:
    """A queue that hands a message over each time that a task waits, from a moment on."""

    def __init__(self, messages, answers, when):
        self._messages = [*messages]
        self._answers = answers
        self._when = when

    def get_nowait(self):
        if not self._messages or not self._when():
            raise queue.Empty
        message = Message(self._messages.pop(0))
        message.answers = self._answers
        return message


def run_with_messages(sweep, *messages, answers=None, when=lambda: True):
    """Run a sweep that gets messages one after the other; return the responses.

    Args:
        sweep: the sweep.
        messages: to it.
        answers: a list that gets the responses, for a sweep that fails.
        when: returns whether the first message may come.
    """
    answers = [] if answers is None else answers
    sweep.scheduler_messages = _Inbox(messages, answers, when)
    try:
        sweep.run()
    finally:
        del sweep.scheduler_messages
    return answers
