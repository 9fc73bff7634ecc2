"""Lives of sweeps as data: what the server has and does, what a sweep is asked, and what becomes of it."""

from __future__ import annotations

import builtins
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from pipelines import new_process
from places import ROOT
from sweep_tasks import JOURNAL, Asks, Packed, Study, Train, forge, run_with_messages, study

import luigi_pai
from luigi_pai.jobspec.arrays.jobs import jobs_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from faulty_pai import FaultyPai

__all__ = ["Life", "lives"]

KINDS = {kind.__name__: kind for kind in (Study, Packed, Asks)}
FAILS = {"ends_as": "FAILED", "exit_code": 3}


def lives(section: str) -> pytest.MarkDecorator:
    """Run a test for each case of ``tests/data/sweep/SECTION.yaml``: a sentence, and its steps."""
    cases = yaml.safe_load((ROOT / "tests" / "data" / "sweep" / f"{section}.yaml").read_text("utf-8"))
    return pytest.mark.parametrize("steps", [pytest.param(steps, id=name) for name, steps in cases.items()])


def matches(text: object, pattern: str) -> bool:
    """Return whether a text is like a pattern, in which ``...`` stands for any text."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("..."))), str(text), re.DOTALL) is not None


def assert_alike(values: list[Any], expected: list[Any]) -> None:
    """Compare values with others, of which strings are patterns."""
    pairs = zip(values, expected, strict=True)
    assert all(matches(got, each) if isinstance(each, str) else got == each for got, each in pairs), values


def listed(states: str) -> list[str]:
    """Return the states of ``2 SUCCEEDED, FAILED``."""
    parts = [part.rpartition(" ") for part in states.split(", ")]
    return [state for count, _, state in parts for _ in range(int(count or 1))]


class Life:
    """Plays steps, which are its methods: ``run``, or ``posts: [train-1-16]`` with what is given to it."""

    def __init__(self, pai: FaultyPai, settings: Callable[..., None], caplog: Any) -> None:
        self._pai, self._settings, self._caplog = pai, settings, caplog
        self._sweep: Any = Study()

    def play(self, steps: list[Any]) -> None:
        for step in steps:
            ((what, given),) = step.items() if isinstance(step, dict) else [(step, None)]
            getattr(self, what)(given)

    # what there is

    def sweep(self, about: dict[str, Any]) -> None:
        """Make a sweep of a new class; ``is`` is its base, ``points`` what points() returns."""
        attributes = {name: value for name, value in about.items() if name != "is"}
        if "points" in about:
            attributes["points"] = lambda: about["points"]
        kind = KINDS[about.get("is", "Study")]
        self._sweep = study(kind.__name__, kind, **attributes)

    def settings(self, keys: dict[str, Any]) -> None:
        self._settings(**keys)

    def server(self, about: dict[str, Any]) -> None:
        for name, value in about.items():
            setattr(self._pai, name, value)

    def plan(self, ends: dict[str, Any]) -> None:
        """Let jobs run as the first pattern that is found in their names says; FAILED is exit code 3."""
        plans = {pattern: FAILS if about == "FAILED" else about for pattern, about in ends.items()}

        def plan(name: str) -> dict[str, Any]:
            return next((about for pattern, about in plans.items() if re.search(pattern, name)), {})

        self._pai.plan = plan

    def add(self, jobs: dict[str, dict[str, Any]]) -> None:
        for name, about in jobs.items():
            self._pai.add(name, **about)

    def fail(self, fault: list[Any]) -> None:
        """Let the server fail: method, path, kind, and more of a fault."""
        method, path, kind, *more = fault
        self._pai.fail(method, path, kind, **{"times": float("inf"), **(more[0] if more else {})})

    def journal(self, events: list[dict[str, Any]]) -> None:
        forge(*events)

    def rewrite(self, texts: dict[str, str]) -> None:
        """Replace texts in the journal."""
        for old, new in texts.items():
            assert old in JOURNAL.read_text()
            JOURNAL.write_text(JOURNAL.read_text().replace(old, new))

    def remove(self, files: str) -> None:
        for file in Path("results").glob(files):
            file.unlink()

    def advance(self, seconds: float) -> None:
        self._pai.clock.advance(seconds)

    def forget(self, _: None) -> None:
        """Go on as another process."""
        new_process()

    # what is done: the value that it returns, or the name of its error and a pattern of its message

    def run(self, error: str | None) -> None:
        self._ends(self._sweep.run, error)

    def complete(self, expected: bool | str) -> None:  # noqa: FBT001  as in the file
        self._ends(self._sweep.complete, expected)

    def alone(self, point: dict[str, Any]) -> None:
        Train(**point).run()

    def messages(self, about: dict[str, Any]) -> None:
        """Run the sweep, and send it messages when it has submitted ``after`` jobs; compare the responses."""
        sent = {message: response for message, response in about.items() if message not in ("after", "error")}
        responses: list[str] = []

        def is_due():
            return self._pai.submissions >= about.get("after", 0)

        def run():
            run_with_messages(self._sweep, *sent, answers=responses, when=is_due)

        self._ends(run, about.get("error"))
        assert_alike(responses, [*sent.values()])

    def _ends(self, do: Callable[[], Any], expected: Any) -> None:
        if not isinstance(expected, str):
            assert do() == expected
            return
        name, _, pattern = expected.partition(": ")
        with pytest.raises(getattr(luigi_pai, name, None) or getattr(builtins, name)) as caught:
            do()
        assert matches(caught.value, pattern), str(caught.value)

    # what becomes of it

    def states(self, states: str) -> None:
        """Compare the states of the rows, such as ``2 SUCCEEDED, FAILED``."""
        assert [row["state"] for row in self._sweep.output().rows()] == listed(states)

    def rows(self, columns: dict[str, list[Any]]) -> None:
        """Compare columns; a text is a pattern."""
        table = self._sweep.output().rows()
        for column, expected in columns.items():
            assert_alike([row[column] for row in table], expected)

    def told(self, expected: list[list[str]]) -> None:
        """Compare the calls of ``tell``, whatever their order."""
        assert sorted(map(list, self._sweep.told)) == sorted(expected)

    def ignored(self, why: str) -> None:
        """Run a search of four points; a single line says that a recorded point is ignored, and why."""
        self._pai.add("hidden-0.1-9", runs_for=600)
        self._pai.add("train-0.1-7", runs_for=600, username="eve")
        self.sweep(
            {"is": "Asks", "parallel_jobs": 2, "tolerance": 400, "proposes": [1, 2, {"told": 2}, 3, 4]}
        )
        self._sweep.run()
        (line,) = [each for each in self._caplog.messages if "ignored, because" in each]
        assert "1 recorded point is ignored, because points() does not propose it" in line
        assert why in line
        assert self._pai.submissions == 4
        assert [row["batch"] for row in self._sweep.output().rows()] == [1, 2, 3, 4]

    def posts(self, names: list[str]) -> None:
        assert self._pai.posts() == names

    def packed(self, jobs: list[list[str]]) -> None:
        """Compare the submissions of points in each job of the server."""
        assert [jobs_in(job.config) or [name] for name, job in self._pai.jobs.items()] == jobs

    def requests(self, number: int) -> None:
        assert len(self._pai.calls) == number

    def submissions(self, number: int) -> None:
        assert self._pai.submissions == number

    def jobs(self, states: str) -> None:
        assert [job.state for job in self._pai.jobs.values()] == listed(states)

    def count(self, bounds: dict[str, list[int]]) -> None:
        """Compare the numbers of requests with bounds, by method and path."""
        for request, (low, high) in bounds.items():
            method, _, path = request.partition(" ")
            assert low <= self._pai.count(method, path) <= high, request

    def elapsed(self, seconds: float) -> None:
        assert self._pai.clock.elapsed >= seconds

    def log(self, texts: dict[str, int]) -> None:
        """Compare how often the log has texts."""
        assert {text: self._caplog.text.count(text) for text in texts} == texts
