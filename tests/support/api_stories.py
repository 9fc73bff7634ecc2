"""Stories of a cluster as data: what its server does, what is asked of the cluster, and what comes of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from places import DATA

from luigi_pai.api.polling import Polling
from luigi_pai.api.submitting import Posting
from luigi_pai.errors import PaiError
from luigi_pai.jobspec.job import PaiJob, TaskRole

if TYPE_CHECKING:
    from collections.abc import Callable

    from clocks import MovableClock
    from faulty_pai import FaultyPai

    from luigi_pai.api.cluster import Cluster

__all__ = ["Story", "lookups", "stories"]

PATHS = {"JOBS": r"/api/v\d/jobs/?$", "TRAIN": r"/api/v\d/jobs/(admin~)?train", "LIST": r"/jobs\?"}


def stories(section: str) -> pytest.MarkDecorator:
    """Run a test for each story of a section of ``tests/data/api/stories.yaml``, for each of its releases."""
    read = yaml.safe_load((DATA / "api" / "stories.yaml").read_text("utf-8"))[section]
    cases = []
    for name, (first, *steps) in read.items():
        several = first["releases"] if isinstance(first, dict) and "releases" in first else None
        if several is None:
            cases.append(pytest.param([first, *steps], id=name))
        else:
            cases += [pytest.param([{"release": one}, *steps], id=f"{name} ({one})") for one in several]
    return pytest.mark.parametrize("steps", cases)


def lookups(pai: FaultyPai) -> list[str]:
    """Return the names that were looked up, in order."""
    paths = [path for method, path in pai.calls if method == "GET" and "/jobs/" in path]
    return [path.rsplit("/", 1)[1].removeprefix("admin~") for path in paths]


class Story:
    """Plays steps, which are its methods: ``down``, or ``advance: 31`` with what is given to it.

    A call has for each name what comes of it: a value, or ``ErrorClass: pattern`` of an error.

    Args:
        pai: the server.
        clock: of the server and of the cluster.
        make: makes clusters.
    """

    def __init__(self, pai: FaultyPai, clock: MovableClock, make: Callable[..., Cluster]) -> None:
        self._pai, self._clock, self._make = pai, clock, make
        self._made: Cluster | None = None

    def play(self, steps: list[Any]) -> None:
        for step in steps:
            ((what, given),) = step.items() if isinstance(step, dict) else [(step, None)]
            getattr(self, what)(given)

    @property
    def _cluster(self) -> Cluster:
        if self._made is None:
            self.cluster({})
        assert self._made is not None
        return self._made

    # what there is

    def release(self, release: str) -> None:
        self._pai.release = release

    def server(self, about: dict[str, Any]) -> None:
        """Set attributes of the server."""
        for name, value in about.items():
            setattr(self._pai, name, value)

    def cluster(self, about: dict[str, Any]) -> None:
        """Use a new cluster; with ``known``, its API version need not be found out."""
        if about.get("known"):
            about = {"api_version": "v1" if self._pai.release == "0.7.1" else "v2"}
        self._made = self._make(self._pai.url, clock=self._clock, polling=Polling(patience=100), **about)

    def add(self, jobs: dict[str, dict[str, Any]]) -> None:
        """Put jobs on the server; ``j0..9`` are ten, and ``ago`` is the age of one in seconds."""
        for name, about in jobs.items():
            age = {"created": self._clock.time() - about["ago"]} if "ago" in about else {}
            for one in _names(name):
                self._pai.add(one, **{key: value for key, value in about.items() if key != "ago"}, **age)

    def change(self, jobs: dict[str, dict[str, Any]]) -> None:
        for name, about in jobs.items():
            vars(self._pai.jobs[name]).update(about)

    def forget(self, _given: None) -> None:
        self._pai.jobs.clear()

    def fail(self, given: list[Any]) -> None:
        """Let requests fail: method, path, kind, and more."""
        method, path, kind, *more = given
        self._pai.fail(method, PATHS.get(path, path), kind, **(more[0] if more else {}))

    def heal(self, _given: None) -> None:
        self._pai.faults.clear()

    def down(self, _given: None) -> None:
        self._pai.down()

    def up(self, _given: None) -> None:
        self._pai.up()

    def advance(self, seconds: float) -> None:
        self._clock.advance(seconds)

    def restart(self, _given: None) -> None:
        """Count sleep and time from now on."""
        self._clock.restart()
        self._clock.slept.clear()

    def clear(self, _given: None) -> None:
        """Forget what was asked."""
        self._pai.calls.clear()

    # what is asked

    def _call(self, outcomes: dict[str, Any], ask: Callable[[str], Any]) -> None:
        for name, expected in outcomes.items():
            for one in _names(name):
                kind, _, pattern = str(expected).partition(": ")
                if expected is None or not re.fullmatch(r"[A-Z]\w+", kind) or kind.isupper():
                    assert ask(one) == expected, (one, expected)
                    continue
                with pytest.raises((PaiError, TimeoutError)) as caught:
                    ask(one)
                assert type(caught.value).__name__ == kind, caught.value
                assert re.search(pattern, str(caught.value)), (pattern, str(caught.value))

    def submit(self, outcomes: dict[str, Any]) -> None:
        """Submit jobs by ``Cluster.submit``; the state of each then."""

        def ask(name: str) -> str:
            handle = self._cluster.submit(_job(name))
            assert handle.name == name
            return handle.status().raw_state

        self._call(outcomes, ask)

    def post(self, outcomes: dict[str, Any]) -> None:
        """Post jobs as a run does; the first state of each, or null."""

        def ask(name: str) -> str | None:
            status = Posting(self._cluster.book, name).post(_job(name))
            if status is None:
                return None
            assert (status.state.value == "UNKNOWN") == (status.raw_state == "SUBMITTED")
            return status.raw_state

        self._call(outcomes, ask)

    def status(self, outcomes: dict[str, Any]) -> None:
        """Look jobs up by their handles."""
        self._call(outcomes, lambda name: self._cluster.job(name).status().raw_state)

    def wait(self, outcomes: dict[str, Any]) -> None:
        self._call(outcomes, lambda name: self._cluster.job(name).wait().raw_state)

    def stop(self, outcomes: dict[str, Any]) -> None:
        self._call(outcomes, self._cluster.stop)

    def look(self, outcomes: dict[str, Any]) -> None:
        """Look jobs up one by one, each as one of many."""
        self._call(outcomes, lambda name: self._cluster.book.status(name, of_many=True).raw_state)

    def latest(self, outcomes: dict[str, Any]) -> None:
        """Find the newest submission of work: its number and state, or null."""

        def ask(name: str) -> str | None:
            entry = self._cluster.book.latest(name)
            assert entry is None or not entry.posted
            return None if entry is None else f"{entry.number} {entry.known.raw_state}"

        self._call(outcomes, ask)

    def holder(self, outcomes: dict[str, Any]) -> None:
        """Look up a submission as ``NAME NUMBER``, or a later one."""

        def ask(given: str) -> str:
            name, number = given.split()
            entry = self._cluster.book.holder(name, int(number))
            assert entry is not None
            return f"{entry.number} {entry.known.raw_state}"

        self._call(outcomes, ask)

    def listed_number(self, outcomes: dict[str, Any]) -> None:
        self._call(outcomes, lambda name: self._cluster.book.listed_number(name, is_needed=True))

    # what came of it

    def dialect(self, version: str) -> None:
        assert self._cluster.book.api.dialect.version == version

    def counts(self, expected: dict[str, int]) -> None:
        """Compare ``posts``, ``submissions``, ``logins``, ``lists`` and other counts of the server."""
        assert {name: getattr(self._pai, name) for name in expected} == expected

    def at_most(self, expected: dict[str, int]) -> None:
        assert all(getattr(self._pai, name) <= most for name, most in expected.items())

    def posts(self, names: list[str]) -> None:
        assert self._pai.posts() == names

    def lookups(self, names: list[str]) -> None:
        assert lookups(self._pai) == names

    def requests(self, expected: list[int]) -> None:
        """Compare the numbers of lookups and of lists."""
        assert [self._pai.count("GET", r"/api/v\d/jobs/[^/?]+$"), self._pai.lists] == expected

    def calls(self, expected: dict[str, int]) -> None:
        """Compare the number of requests whose method and path match."""
        for request, count in expected.items():
            method, _, path = request.partition(" ")
            assert self._pai.count(method, path) == count, request

    def slept(self, bounds: list[float]) -> None:
        assert bounds[0] <= sum(self._clock.slept) <= bounds[1], self._clock.slept

    def elapsed(self, bounds: list[float]) -> None:
        assert bounds[0] <= self._clock.elapsed <= bounds[1]


def _names(name: str) -> list[str]:
    """Return the names that ``j0..9`` stands for."""
    stem, dots, last = name.rpartition("..")
    if not dots:
        return [name]
    prefix = stem.rstrip("0123456789")
    return [f"{prefix}{number}" for number in range(int(stem[len(prefix) :]), int(last) + 1)]


def _job(name: str) -> PaiJob:
    return PaiJob(name, "x", [TaskRole("main", "true")])
