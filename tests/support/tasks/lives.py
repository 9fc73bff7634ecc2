"""Lives of tasks as data: what the server has and does, what is asked of the task, and what becomes of it."""

from __future__ import annotations

import json
from functools import partialmethod
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from places import ROOT
from train_task import Train, build

import luigi_pai
from luigi_pai import TaskRole

if TYPE_CHECKING:
    from collections.abc import Callable

    from faulty_pai import FaultyPai

__all__ = ["Life", "lives"]


def lives(*sections: str) -> pytest.MarkDecorator:
    """Run a test for each case of ``tests/data/tasks/SECTION.yaml``: a sentence, and its steps."""
    files = [ROOT / "tests" / "data" / "tasks" / f"{section}.yaml" for section in sections]
    cases = {name: steps for file in files for name, steps in yaml.safe_load(file.read_text("utf-8")).items()}
    return pytest.mark.parametrize("steps", [pytest.param(steps, id=name) for name, steps in cases.items()])


def _job_with(task: Train, base: type[Train], fields: dict[str, Any]) -> Any:
    job = base.job(task)
    for name, value in fields.items():
        setattr(job, name, value)
    return job


class Life:
    """Plays steps, which are its methods: ``run``, or ``count: {POST: 0}`` with what is given to it.

    Args:
        pai: the server.
        settings: sets keys of [OpenPai].
        caplog: the log.
        kind: the class of the task.
    """

    def __init__(
        self, pai: FaultyPai, settings: Callable[..., None], caplog: Any, kind: type = Train
    ) -> None:
        self._pai, self._settings, self._caplog, self._kind = pai, settings, caplog, kind
        self.error: BaseException | None = None  # the last one
        self.task({})

    def play(self, steps: list[Any]) -> None:
        for step in steps:
            ((what, given),) = step.items() if isinstance(step, dict) else [(step, None)]
            getattr(self, what)(given)

    # what there is

    def task(self, parameters: dict[str, Any]) -> None:
        self._task = self._kind(**parameters)

    def define(self, attributes: dict[str, Any]) -> None:
        """Give the class of the task attributes, and make the task anew.

        ``command`` is that of its role, ``job_fields`` are set in its job.
        """
        about = {"__module__": self._kind.__module__, **attributes}
        if "command" in about:
            about["tasks"] = [TaskRole("main", about.pop("command"), 2)]
        if fields := about.pop("job_fields", None):
            about["job"] = partialmethod(_job_with, self._kind, fields)
        self._kind = type(self._kind.__name__, (self._kind,), about)
        self.task({})

    def settings(self, keys: dict[str, Any]) -> None:
        self._settings(**keys)

    def server(self, about: dict[str, Any]) -> None:
        """Set attributes of the server."""
        for name, value in about.items():
            setattr(self._pai, name, value)

    def add(self, jobs: dict[str, dict[str, Any]]) -> None:
        """Let the server have jobs, by their names; ``config`` is fields of their configuration."""
        for name, fields in jobs.items():
            about = dict(fields)
            config = about.pop("config", {})
            self._pai.add(name, **about).config.update(config)

    def change(self, jobs: dict[str, dict[str, Any]]) -> None:
        """Set attributes of jobs of the server."""
        for name, about in jobs.items():
            vars(self._pai.jobs[name]).update(about)

    def fail(self, fault: list[Any]) -> None:
        """Let the server fail: method, path, kind, and more of a fault."""
        method, path, kind, *more = fault
        self._pai.fail(method, path, kind, **(more[0] if more else {}))

    def heal(self, _: None) -> None:
        self._pai.heal()

    def down(self, _: None) -> None:
        self._pai.down()

    def up(self, _: None) -> None:
        self._pai.up()

    def later(self, steps: list[Any]) -> None:
        """Play steps when some seconds have passed."""
        seconds, *then = steps
        self._pai.clock.call_later(seconds, lambda: self.play(then))

    def clear(self, _: None) -> None:
        """Let the server lose its jobs."""
        self._pai.jobs.clear()

    def advance(self, seconds: float) -> None:
        self._pai.clock.advance(seconds)

    def forget(self, _: None) -> None:
        """Go on as another process."""
        luigi_pai.reset_clusters()

    def unasked(self, _: None) -> None:
        """Count requests from here on."""
        self._pai.calls.clear()

    # what is done: the value that it returns, or the name of its error and parts of its message, with `...`

    def run(self, error: str | None) -> None:
        self._ends(self._task.run, error)

    def complete(self, expected: bool | str) -> None:  # noqa: FBT001  as in the file
        self._ends(self._task.complete, expected)

    def result(self, expected: dict[str, Any] | str) -> None:
        self._ends(lambda: self._task.result() == expected, expected if isinstance(expected, str) else True)

    def forecast(self, expected: list[Any] | str) -> None:
        """Compare state and number, and how the reason begins; or the error."""
        if isinstance(expected, str):
            self._ends(self._task.forecast, expected)
            return
        found = self._task.forecast()
        assert [found.state, found.number, found.why[: len(expected[2])]] == expected

    def each(self, given: list[Any]) -> None:
        """Compare complete() of each of some tasks: the stem of their names, the first number, the end."""
        stem, first, end, expected = given
        found = [self._kind(name=f"{stem}{number}").complete() for number in range(first, end)]
        assert found == [expected] * (end - first)

    def build(self, expected: bool) -> None:  # noqa: FBT001  as in the file
        assert build(self._task) is expected

    def _ends(self, do: Callable[[], Any], expected: Any) -> None:
        if not isinstance(expected, str):
            assert do() is expected
            return
        name, _, parts = expected.partition(": ")
        with pytest.raises(getattr(luigi_pai, name)) as caught:
            do()
        self.error = caught.value
        assert [part for part in parts.split(" ... ") if part not in str(caught.value)] == []

    def one_line(self, _: None) -> None:
        """The last error is a line without the password."""
        assert [part for part in ("\n", "admin-password") if part in str(self.error)] == []

    # what becomes of it

    def posts(self, names: list[str]) -> None:
        assert self._pai.posts() == names

    def submissions(self, number: int) -> None:
        assert self._pai.submissions == number

    def count(self, numbers: dict[str, int]) -> None:
        """Compare the numbers of requests, by method and path."""
        for request, number in numbers.items():
            method, _, path = request.partition(" ")
            assert self._pai.count(method, path) == number, request

    def config(self, jobs: dict[str, dict[str, Any]]) -> None:
        """Compare fields of stored jobs; None for a field that a job does not have."""
        for name, fields in jobs.items():
            assert {field: self._pai.jobs[name].config.get(field) for field in fields} == fields

    def silent(self, _: None) -> None:
        """Nothing was sent, not even a login."""
        assert self._pai.calls == []

    def asked(self, requests: list[str]) -> None:
        """Compare the requests, without logins."""
        assert self._calls() == requests, json.dumps(self._calls(), indent=1)

    def first(self, requests: list[str]) -> None:
        assert self._calls()[: len(requests)] == requests

    def last(self, request: str) -> None:
        assert self._calls()[-1] == request

    def _calls(self) -> list[str]:
        return [f"{method} {path}" for method, path in self._pai.calls if not path.endswith("/token")]

    def elapsed(self, bounds: list[float]) -> None:
        low, high = bounds
        assert low <= self._pai.clock.elapsed <= high

    def log(self, text: str) -> None:
        assert text in self._caplog.text

    def no_log(self, text: str) -> None:
        assert text not in self._caplog.text
