"""Stories of a cluster as data: what its server does, what is asked of the cluster, and what comes of it."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from places import DATA

from luigi_pai.api.polling import Polling
from luigi_pai.api.status import JobState, JobStatus
from luigi_pai.api.submitting import Posting
from luigi_pai.api.watched import Outcome
from luigi_pai.api.watching import Watcher
from luigi_pai.errors import PaiError
from luigi_pai.jobspec.job import PaiJob, TaskRole

if TYPE_CHECKING:
    from collections.abc import Callable

    from clocks import MovableClock
    from faulty_pai import FaultyPai

    from luigi_pai.api.cluster import Cluster
    from luigi_pai.api.job import Job
    from luigi_pai.api.watched import Update

__all__ = ["Story", "lookups", "stories"]

PATHS = {"JOBS": r"/api/v\d/jobs/?$", "TRAIN": r"/api/v\d/jobs/(admin~)?train", "LIST": r"/jobs\?"}


def stories() -> pytest.MarkDecorator:
    """Run a test for each story of ``stories.yaml``, for each of its releases or its faults."""
    sections = yaml.safe_load((DATA / "api" / "stories.yaml").read_text("utf-8"))
    cases = []
    for section, (name, (first, *steps)) in (
        (key, story) for key in sections for story in sections[key].items()
    ):
        ((what, given),) = first.items() if isinstance(first, dict) else [(first, None)]
        starts = [{what[:-1]: each} for each in given] if what in ("releases", "kinds") else [first]
        marks = [pytest.mark.slow] if section == "watching" else []
        for start in starts:
            title = f"{section}: {name}" + (f" ({next(iter(start.values()))})" if start is not first else "")
            cases.append(pytest.param([start, *steps], id=title, marks=marks))
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
        self._handles: dict[str, Job] = {}
        self._changes: list[str] = []
        self._updates: list[Update] = []

    def play(self, steps: list[Any]) -> None:
        for step in steps:
            ((what, given),) = step.items() if isinstance(step, dict) else [(step, None)]
            if what in ("down", "up"):
                getattr(self._pai, what)()
            else:
                getattr(self, what)(given)

    def repeat(self, given: list[Any]) -> None:
        """Play steps several times."""
        times, steps = given
        for _ in range(times):
            self.play(steps)

    @property
    def _cluster(self) -> Cluster:
        if self._made is None:
            self.cluster({})
        assert self._made is not None
        return self._made

    # what there is

    def release(self, release: str) -> None:
        self._pai.release = release

    def kind(self, kind: int | str) -> None:
        """Set the kind of the faults that are KIND."""
        self._kind = kind

    def server(self, about: dict[str, Any]) -> None:
        """Set attributes of the server."""
        for name, value in about.items():
            setattr(self._pai, name, value)

    def cluster(self, about: dict[str, Any]) -> None:
        """Use a new cluster of little patience; a ``known`` one has the usual, and the right dialect."""
        if about.get("known"):
            about = {"api_version": "v1" if self._pai.release == "0.7.1" else "v2"}
        else:
            about = {"polling": Polling(patience=100), **about}
        self._made = self._make(self._pai.url, clock=self._clock, **about)

    def add(self, jobs: dict[str, dict[str, Any]]) -> None:
        """Put jobs on the server; ``j0..9`` are ten, and ``ago`` is the age of one in seconds."""
        for name, about in jobs.items():
            age = {"created": self._clock.time() - about["ago"]} if "ago" in about else {}
            for one in _names(name):
                self._pai.add(one, **{key: value for key, value in about.items() if key != "ago"}, **age)

    def change(self, jobs: dict[str, dict[str, Any]]) -> None:
        for name, about in jobs.items():
            for one in _names(name):
                vars(self._pai.jobs[one]).update(about)

    def forget(self, _given: None) -> None:
        self._pai.jobs.clear()

    def fail(self, given: list[Any]) -> None:
        """Let requests fail: method, path, kind, and more."""
        method, path, kind, *more = given
        kind = self._kind if kind == "KIND" else kind
        self._pai.fail(method, PATHS.get(path, path), kind, **(more[0] if more else {}))

    def vanish(self, name: str) -> None:
        del self._pai.jobs[name]

    def reset(self, _given: None) -> None:
        self._cluster.reset()

    def heal(self, _given: None) -> None:
        self._pai.faults.clear()

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
            handle = self._handles[name] = self._cluster.submit(_job(name))
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

    def sent(self, name: str) -> None:
        """Submit a job, and do not look it up."""
        self._handles[name] = self._cluster.submit(_job(name))

    def wait(self, outcomes: dict[str, Any], **limits: float) -> None:
        """Wait for jobs; all limits of the waiting are in ``limits``."""
        self._changes.clear()

        def ask(name: str) -> str:
            handle = self._handles.setdefault(name, self._cluster.job(name))
            shown = lambda status: self._changes.append(status.raw_state)  # noqa: E731
            return handle.wait(on_change=shown, **limits).raw_state

        self._call(outcomes, ask)

    def wait_within(self, given: list[Any]) -> None:
        """Wait for jobs with limits: the names of the limits with their seconds, and the outcomes."""
        limits, outcomes = given
        self.wait(outcomes, **limits)

    def failure(self, outcomes: dict[str, str]) -> None:
        """Compare the error of a failed job: its class and a pattern in its text."""

        def ask(name: str) -> None:
            error = self._handles[name].failure()
            assert error is not None
            raise error

        self._call(outcomes, ask)

    def watch(self, names: list[str]) -> None:
        """Watch jobs that were submitted just now; one of them is looked up then."""
        every = [one for name in names for one in _names(name)]
        self._cluster.job(every[0]).status()
        self._watcher = Watcher(self._cluster.book)
        for name in every:
            self._watcher.add(JobStatus(name, JobState.WAITING, raw_state="WAITING"), new=True)

    def follow(self, seconds: float | None) -> None:
        """Step until nothing is watched any more, or for some seconds."""
        self._updates, watcher = [], self._watcher
        end = self._clock.monotonic() + (seconds or 100_000)
        while len(watcher) and self._clock.monotonic() + watcher.idle() < end:
            self._clock.sleep(watcher.idle())
            self._updates += watcher.step()

    def stop(self, outcomes: dict[str, Any]) -> None:
        self._call(outcomes, self._cluster.stop)

    def look(self, outcomes: dict[str, Any]) -> None:
        """Look jobs up one by one, each as one of many."""
        self._call(outcomes, lambda name: self._cluster.book.status(name, of_many=True).raw_state)

    def latest(self, outcomes: dict[str, Any]) -> None:
        """Find the newest submission of work: its number and state, or null."""

        def ask(name: str) -> str | None:
            entry = self._cluster.book.latest(name)
            if entry is None:
                return None
            assert not entry.posted
            assert entry.succeeded == (entry.known.raw_state == "SUCCEEDED")
            return f"{entry.number} {entry.known.raw_state}"

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

    def changes(self, expected: list[str]) -> None:
        """Compare the states that the last ``wait`` has shown."""
        assert self._changes == expected

    def ends(self, expected: dict[str, str]) -> None:
        """Compare the last states of the jobs whose watching has ended; LOST is one, too."""
        ended = [update for update in self._updates if update.outcome is not Outcome.CHANGED]
        found = {u.name: "LOST" if u.outcome is Outcome.LOST else u.status.raw_state for u in ended}
        assert found == {one: state for name, state in expected.items() for one in _names(name)}

    def failed_with(self, facts: dict[str, Any]) -> None:
        """Compare facts of all jobs that have failed or were stopped."""
        failed = [u.status for u in self._updates if u.status.finished and not u.status.succeeded]
        assert failed
        assert all(getattr(status, name) == fact for status in failed for name, fact in facts.items())

    def updates(self, expected: dict[str, int]) -> None:
        """Compare how many updates there were to each state."""
        assert Counter(update.status.raw_state for update in self._updates) == expected

    def singly(self, expected: dict[str, int] | list[str]) -> None:
        """Compare how often each job was looked up alone, or which jobs were."""
        names = Counter(lookups(self._pai))
        if isinstance(expected, list):
            assert set(names) == {one for name in expected for one in _names(name)}
        else:
            assert names == {one: count for name, count in expected.items() for one in _names(name)}

    def between(self, expected: dict[str, list[int]]) -> None:
        """Compare counts of the server with bounds."""
        for name, (least, most) in expected.items():
            value = getattr(self._pai, name)
            assert least <= (len(value) if name == "calls" else value) <= most, (name, value)

    def dialect(self, version: str) -> None:
        assert self._cluster.book.api.dialect.version == version

    def counts(self, expected: dict[str, int]) -> None:
        """Compare ``posts``, ``submissions``, ``logins``, ``lists`` and other counts of the server."""
        assert {name: getattr(self._pai, name) for name in expected} == expected

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
