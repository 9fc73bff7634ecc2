"""Where a sweep stands, in a line; and how it would be with a thousand jobs at once."""

from __future__ import annotations

import functools
import statistics
from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from clocks import MovableClock

from luigi_pai.api.polling import Polling
from luigi_pai.api.status import JobState, JobStatus
from luigi_pai.sweep.ending import Ending
from luigi_pai.sweep.engine import Engine
from luigi_pai.sweep.journal.journal import Journal
from luigi_pai.sweep.limits import SweepLimits
from luigi_pai.sweep.point import Point
from luigi_pai.sweep.rows import Best
from luigi_pai.sweep.source import Source
from luigi_pai.sweep.starting import Starter
from luigi_pai.sweep.table import Progress, Table
from luigi_pai.work.submission import Submission


def row(rate, accuracy, state="SUCCEEDED"):
    return {"rate": rate, "steps": 7, "state": state, "accuracy": accuracy}


def test_a_line_has_counts_the_best_and_the_end():
    """Not more often than a fifth of its age, and none where nothing has changed."""
    clock = MovableClock()
    progress = Progress(clock, Best("max accuracy"))
    for number in range(4):
        progress.changed(f"j{number}", "WAITING", f"j{number}")
    assert progress.line(600) == "600 points: 4 waiting"
    assert progress.line(600) is None
    clock.advance(60)
    assert progress.line(600) is None
    progress.changed("j0", "RUNNING", "j0")
    progress.changed("j1", "RUNNING", "j1")
    progress.best.add(row(0.1, 0.9))
    assert progress.line(600) == "600 points: 2 running, 2 waiting; best accuracy 0.9 (rate=0.1, steps=7)"
    for number in range(6):
        progress.changed(f"k{number}", "RUNNING", f"k{number}")
        progress.ended(f"k{number}", "SUCCEEDED")
    progress.ended("known", "FAILED")
    progress.best.add(row(0.01, 0.9734567))
    clock.advance(5)
    assert progress.line(600) is None
    clock.advance(10)
    line = progress.line(600)
    assert line.startswith(
        "600 points: 6 done, 2 running, 2 waiting, 1 failed; "
        "best accuracy 0.973457 (rate=0.01, steps=7); done in about "
    )
    assert progress.percentage(600) == 1
    assert progress.summary(None).startswith("search: 6 done, 2 running, 2 waiting, 1 failed")


def test_the_end_is_forecast_from_the_last_ends():
    """Not before a few jobs have ended, and not for a search, whose length is not known."""
    clock = MovableClock()
    progress = Progress(clock)
    for number in range(10):
        progress.changed(f"j{number}", "RUNNING", f"j{number}")
        clock.advance(60)
        progress.ended(f"j{number}", "SUCCEEDED")
        line = progress.line(1000)
        assert ("done in about" in line) is (number >= 4)
    assert progress.line(None) is None
    clock.advance(60)
    progress.ended("known", "SUCCEEDED")
    assert "done in" not in progress.line(None)


def test_all_points_of_a_job_count_for_the_end():
    """Fifty in a minute, fifty left: another minute."""
    clock = MovableClock()
    progress = Progress(clock)
    for number in range(50):
        progress.changed(f"p{number}", "RUNNING", "array")
    clock.advance(60)
    for number in range(50):
        progress.ended(f"p{number}", "SUCCEEDED")
    assert progress.line(100).endswith("; done in about 1 min")


def test_the_best_is_of_what_succeeded_and_has_a_number():
    best = Best("min accuracy")
    assert str(best) == ""
    invalid = (row(1, None), row(2, "low"), row(3, float("nan")), row(4, -1, "FAILED"))
    for values in (*invalid, row(5, accuracy=True), row(5, 10**400)):
        best.add(values)
    assert str(best) == ""
    best.add(row(6, 0.5))
    best.add(row(7, 0.7))
    assert str(best) == "best accuracy 0.5 (rate=6, steps=7)"
    assert best.declaration == "min accuracy"


def test_the_parameters_of_the_best_are_cut_between_two():
    """Values are those of the table; parameters that the point does not have are left out."""
    best = Best("max accuracy")
    given = {f"parameter_{number}": number / 3 for number in range(9)}
    best.add({"augment": True, "dropout": None, **given, "state": "SUCCEEDED", "accuracy": 0.5})
    shown = "parameter_0=0, parameter_1=0.333333, parameter_2=0.666667, parameter_3=1"
    assert str(best) == f"best accuracy 0.5 (augment=true, {shown}, ...)"


@pytest.mark.parametrize("declaration", ["accuracy", "most accuracy", "max the accuracy", "", 7])
def test_another_declaration_of_the_best_is_an_error(declaration):
    with pytest.raises(ValueError, match="is not max COLUMN or min COLUMN, such as 'max accuracy'"):
        Best(declaration)


def test_a_table_that_cannot_be_written_does_not_hold_up_the_sweep(caplog):
    """HDFS takes a minute to fail, in which a sweep does nothing else; it tries again after some minutes."""
    clock = MovableClock()

    def write(*_):
        clock.advance(60)
        raise OSError("no reply")

    table = Table(SimpleNamespace(write=write), "study", Journal("nowhere", clock), clock)
    clock.advance(table.idle())
    table.write_if_due()
    assert "Sweep study: cannot write its table: no reply" in caplog.text
    assert 240 < table.idle() <= 300


# ---------------------------------------------------------------- many at once


class Simulated:
    """A cluster of jobs that run for a time of its clock."""

    url, username, detector = "http://pai", "admin", SimpleNamespace(given="v2")
    dialect = SimpleNamespace(version="v2")
    polling = Polling(0.1, 30.0, 1800.0)
    row = 20e-6  # seconds of a list for each of its jobs

    def __init__(self, clock, trip, runs_for):
        self.api = self.session = self.limits = self  # it is its own book, too
        self.clock = clock
        self.trip, self.runs_for = trip, runs_for  # seconds of a request, and of a job
        self.began = clock.monotonic()
        self.ends = {}
        self.tags = []
        self.lookups = self.most = 0
        self.lists_from = 0.0

    def page(self, name):
        return f"{self.url}/{name}"

    def window(self, _kind):
        return None

    def space_lists(self, waits):
        self.lists_from = max(self.lists_from, self.clock.monotonic() + 0.2 * statistics.median(waits or [0]))

    def polling_wait(self):
        return 0.0

    def waiting(self):
        return 1

    def remembered(self, _key, _make):
        return True

    def add_tag(self, name, tag):
        assert name in self.ends
        self.tags.append((name, tag))

    def list_wait(self):
        return max(0.0, self.lists_from - self.clock.monotonic())

    def running(self):
        return sum(end > self.clock.monotonic() for end in self.ends.values())

    def submit(self, name):
        assert name not in self.ends
        self.ends[name] = self.clock.monotonic() + self.trip / 2 + self.runs_for(len(self.ends))
        return JobStatus(name, JobState.WAITING)

    def status(self, name):
        self.lookups += 1
        ended = self.clock.monotonic() >= self.ends[name]
        return JobStatus(name, JobState.SUCCEEDED if ended else JobState.RUNNING)

    def statuses(self, names):
        self.clock.advance(self.trip / 2)
        listed = {name: self.status(name) for name in names}
        took = self.trip + self.row * len(self.ends)
        self.clock.advance(took - self.trip / 2)
        self.lists_from = self.clock.monotonic() + 5 * took  # a fifth of the time
        return listed


class Settings(dict):
    tags = ("luigi", "luigi:Point")


def begin(cluster, point):
    """Prepare a point for a simulated cluster."""
    options = Settings(queue_timeout=None, run_timeout=None, on_kill="leave")
    work = SimpleNamespace(book=cluster, options=options, forget_job=lambda: None)
    evidence = SimpleNamespace(with_start=lambda status: status, close=lambda: None)
    point.work, point.evidence, point.number = work, evidence, 1


def submitted(_starter, pack):
    """Submit a point."""
    (point,) = pack.points
    status = point.work.book.submit(point.name)
    job = Submission(point.name, point.work.book, [point], status, posted=True)
    return [(point, job)]


class Counts:
    sweep = "simulated"

    def __init__(self):
        self.rows, self.failed = [], []

    def recorded_end(self, _):
        return None

    def changed(self, point, status):
        pass

    def ended(self, ended):
        self.rows.append(ended)
        return {}

    def failed_code(self, error, point):
        pass


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Run a simulated sweep; return its cluster, and what ended."""
    return functools.partial(_run, monkeypatch, tmp_path)


def _run(monkeypatch, tmp_path, count, at_once, trip=0.01, runs_for=lambda number: 100 + number % 50):
    clock = MovableClock()
    cluster, counts = Simulated(clock, trip, runs_for), Counts()
    points = [Point(None, f"p{number}") for number in range(count)]

    arrivals = []  # moments

    def run_at_once(act, seconds):
        """Call a function now; its result arrives later, while others are called."""
        result, future = act(), Future()
        arrivals.append(clock.monotonic() + seconds)
        clock.call_later(seconds, lambda: future.set_result(result))
        return future

    def wait(futures, seconds, _):
        """Let time pass until a result arrives."""
        while seconds > 0 and not any(future.done() for future in futures):
            now = clock.monotonic()
            step = min([seconds, *(moment - now for moment in arrivals if moment > now)])
            clock.advance(step)
            seconds -= step

    monkeypatch.setattr("luigi_pai.sweep.ending.trigger", lambda *_: None)
    for module, seconds in {"packs": trip, "starting": len(Settings.tags) * trip, "ending": 0.001}.items():
        in_thread = functools.partial(run_at_once, seconds=seconds)
        monkeypatch.setattr(f"luigi_pai.sweep.{module}.run_in_thread", in_thread)
    monkeypatch.setattr("luigi_pai.sweep.engine.wait", wait)
    monkeypatch.setattr(Point, "prepare", functools.partialmethod(lambda point: begin(cluster, point)))
    monkeypatch.setattr(Starter, "start", submitted)
    monkeypatch.setattr(Ending, "record", lambda *_: None)
    journal = Journal(str(tmp_path), clock)
    limits = SweepLimits(at_once, 0, 1, 1, 10_000)
    source = Source(SimpleNamespace(is_search=False), points, limits, journal, counts)
    engine = Engine(source, clock, patience=60.0)
    while not engine.done:
        engine.step()
        cluster.most = max(cluster.most, len(engine.watched()))
        clock.advance(0.0 if engine.done else max(engine.idle(), 0.001))
    return cluster, counts.rows


def test_four_hundred_jobs_are_watched_by_one_engine(run):
    """All at once, and each to its end; the lookups of a job do not grow with their number."""
    few, _ = run(100, 100)
    many, ended = run(400, 400)
    assert {each.row.state for each in ended} == {"SUCCEEDED"}
    assert len({each.row.job for each in ended}) == many.most == 400
    assert many.lookups / 400 < 1.5 * few.lookups / 100


def test_the_places_are_kept_full(run):
    """As one job ends the next begins, and never more than the limit."""
    cluster, ended = run(200, 20)
    assert len(ended) == 200
    assert cluster.most == 20


@pytest.mark.slow
@pytest.mark.parametrize(("milliseconds", "longest"), [(1, 11.0), (20, 12.0)])
def test_short_jobs_on_a_slow_server(run, milliseconds, longest):
    """500 jobs of 1 s, 50 at once, take at the least 10 s; round trips of 20 ms add a fifth at most."""
    cluster, ended = run(500, 50, milliseconds / 1000, lambda _: 1.0)
    assert len(ended) == 500
    assert cluster.most == 50
    took = cluster.clock.monotonic() - cluster.began
    assert took < longest
    assert len(cluster.tags) == 2 * 500
