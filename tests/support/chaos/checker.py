"""The checker: what of a round's history breaks the promise."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chaos.workloads import TASKS, Expected
from luigi_pai.jobspec.names import base_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from chaos.history import History, Run
    from chaos.workloads import Workload

__all__ = ["LOST", "TWICE", "WRONG", "Finding", "findings"]

LOST, TWICE, WRONG = "lost", "twice", "wrong verdict"


@dataclass(frozen=True)
class Finding:
    """A broken promise.

    Attributes:
        verdict: ``lost``, ``twice`` or ``wrong verdict``.
        text: what was expected, and what there is.
    """

    verdict: str
    text: str

    def __str__(self) -> str:
        return f"{self.verdict}: {self.text}"


def findings(history: History, workload: Workload) -> list[Finding]:
    """Return what is wrong with a round; nothing if the promise holds."""
    expected = {f"{history.prefix}-{label}": each for label, each in workload.expected().items()}
    if workload.budget:
        expected = _of_search(history, workload)
    return [
        *(found for name, each in expected.items() for found in _task(history, name, each)),
        *_strangers(history, set(expected)),
        *(found for run in history.runs for found in _run(run, workload)),
        *_last_run(history, expected),
        *_tables(history, workload, expected),
        *(Finding(WRONG, f"{path} was seen half-written") for path in history.torn),
        *(Finding(WRONG, f"{path} is left behind") for path in history.leftovers),
        *(_order(history, list(expected)) if workload.is_ordered else ()),
    ]


def _of_search(history: History, workload: Workload) -> dict[str, Expected]:
    """Return what has to become of the points of a search: as many as it proposes, whichever they are."""
    names = list(dict.fromkeys(base_name(ran) for ran in history.ran))[: workload.budget]
    names += [f"point {number} of the search" for number in range(len(names), workload.budget)]
    return dict.fromkeys(names, Expected(1, "SUCCEEDED"))


def _task(history: History, name: str, expected: Expected) -> Iterator[Finding]:
    """Yield what is wrong with the submissions of a task, and with what HDFS has of it."""
    ran = history.submissions(name)
    for submission, times in Counter(ran).items():
        if times > 1:
            yield Finding(TWICE, f"submission {submission} has run {times} times")
    numbers = [1 if submission == name else int(submission.rpartition("__attempt")[2]) for submission in ran]
    is_each_run = expected.each_run or (history.may_fail and expected.state == "FAILED")
    most = expected.submissions * (len(history.runs) if is_each_run else 1)
    void = _void(history, name, numbers)
    if len({*numbers, *void}) < expected.submissions:
        yield Finding(LOST, f"{name} has run as submissions {numbers}, of {expected.submissions}")
    if len(set(numbers)) > most:
        yield Finding(TWICE, f"{name} has run as submissions {numbers}, of {most} at most")
    if sorted({*numbers, *void}) != list(range(1, len({*numbers, *void}) + 1)):
        yield Finding(LOST, f"{name} has run as submissions {numbers}; one between them has not")
    if ran and history.place != "none":
        yield from _evidence(history, name, expected, max(numbers))


def _void(history: History, name: str, ran: Sequence[int]) -> set[int]:
    """Return the submissions whose claim names an array that went to the server without the point.

    The claim could not be given back, as HDFS was away; the point has the next number then.
    """
    return {
        number
        for number, (job, state) in history.claims.get(name, {}).items()
        if state is None and "-array-" in job and number not in ran and number < max(ran, default=0)
    }


def _evidence(history: History, name: str, expected: Expected, last: int) -> Iterator[Finding]:
    """Yield what is wrong with the flag and the claims of a task."""
    has_flag, claims = name in history.flags, history.claims.get(name, {})
    if has_flag != (expected.state == "SUCCEEDED"):
        yield Finding(WRONG, f"{name} is {expected.state}, and its completion flag is there: {has_flag}")
    if sorted(claims) != list(range(1, last + 1)):
        yield Finding(WRONG, f"{name} has run as {last} submissions, and has claims {sorted(claims)}")
    elif claims[last][1] != expected.state:
        yield Finding(WRONG, f"the end of {name} is {expected.state}, and recorded as {claims[last][1]}")


def _strangers(history: History, names: set[str]) -> Iterator[Finding]:
    """Yield what has run that should not, and jobs that have not run."""
    for ran in dict.fromkeys(history.ran):
        if base_name(ran) not in names:
            yield Finding(TWICE, f"{ran} has run, and is none of the tasks")
    for name, state in history.jobs.items():
        if base_name(name) in names and name not in history.ran:
            yield Finding(LOST, f"job {name} is {state}, and has not run")


def _run(run: Run, workload: Workload) -> Iterator[Finding]:
    """Yield what is wrong with the end of a run."""
    if not run.disturbed and run.code != workload.ends:
        yield Finding(WRONG, f"run {run.turn}, undisturbed, has ended with {run.code}, not {workload.ends}")
    if run.left:
        yield Finding(WRONG, f"run {run.turn} has left {run.left} processes")
    if run.code == 0 and workload.ends:
        yield Finding(WRONG, f"run {run.turn} has ended with 0, not {workload.ends}")


def _last_run(history: History, expected: dict[str, Expected]) -> Iterator[Finding]:
    """Yield what the last run says that is not so; what failed before it is over."""
    run = history.runs[-1]
    if run.said is None:
        yield Finding(WRONG, f"run {run.turn}, the last one, was not ended by itself: {run.code}")
        return
    for name, each in expected.items():
        said = "done" if name in run.said["done"] else "failed" if name in run.said["failed"] else None
        if said not in (None, "done" if each.state == "SUCCEEDED" else "failed"):
            yield Finding(WRONG, f"{name} is {each.state}, and Luigi says {said}")
    is_done = run.code == 0
    if is_done != (run.turn in history.reports):
        yield Finding(WRONG, f"the exit code is {run.code}, and the last task has run: {not is_done}")


def _tables(history: History, workload: Workload, expected: dict[str, Expected]) -> Iterator[Finding]:
    """Yield what the tables of sweeps say that is not so."""
    if workload.name in TASKS:
        return
    groups = [{f"{history.prefix}-{label}" for label in group} for group in workload.labels] or [
        set(expected)
    ]
    if len(history.tables) != len(groups):
        yield Finding(LOST, f"{len(groups)} sweeps have tables {sorted(history.tables)}")
        return
    for sweep, rows in history.tables.items():
        states = {f"{history.prefix}-{row['label']}": row["state"] for row in rows}
        given_up = {f"{history.prefix}-{row['label']}" for row in rows if _could_not_be_claimed(row)}
        if set(states) not in groups or len(states) != len(rows):
            yield Finding(LOST, f"the table of {sweep} has the points {sorted(states)}")
        for name, state in states.items():
            if history.may_fail and name in given_up:
                continue
            if name in expected and state != expected[name].state:
                yield Finding(
                    WRONG, f"{name} is {expected[name].state}, and the table of {sweep} says {state}"
                )


def _could_not_be_claimed(row: Mapping[str, Any]) -> bool:
    """Return whether the files failed for longer than a run is patient, so a point was not submitted."""
    return row["state"] == "FAILED" and not row["job"] and " on storage nfs1: " in (row["error"] or "")


def _order(history: History, names: list[str]) -> Iterator[Finding]:
    """Yield what has run before the task that it requires."""
    ran = list(dict.fromkeys(base_name(each) for each in history.ran))
    if ran != [name for name in names if name in ran]:
        yield Finding(WRONG, f"the tasks have run in the order {ran}")
