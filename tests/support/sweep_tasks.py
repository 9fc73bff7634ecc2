"""A sweep as users write it, whose jobs end as the server of a test lets them."""

from __future__ import annotations

import queue

import luigi

from luigi_pai import PaiSweep, PaiTask, TaskRole, grid

__all__ = ["Message", "Proposing", "Study", "Train", "end_of", "run_with_messages", "states", "study"]

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


class Study(PaiSweep):
    """Six points, unless a test says other ones."""

    rates = (0.1, 0.2, 0.3)
    batches = (16, 32)
    parallel_jobs = 4
    results_dir = "results"

    def points(self):
        return grid(Train, rate=self.rates, batch=self.batches)


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
