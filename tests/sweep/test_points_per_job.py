"""Many points in one job: the same results as one job a point, and no point submitted twice."""

from __future__ import annotations

import uuid
from pathlib import Path

import luigi
import pytest
from pipelines import new_process
from sweep_tasks import Packed, Train, killed, run_with_messages, states, study

from luigi_pai import (
    ConfigError,
    OpenPai,
    PaiEvent,
    PaiJobError,
    PaiSweep,
    PaiSweepFailed,
    PaiTask,
    PermissionRefused,
    SpecError,
    TaskRole,
    grid,
)
from luigi_pai.api.book.book import Book
from luigi_pai.api.clock import Clock
from luigi_pai.api.dialects.v2 import V2Dialect
from luigi_pai.api.rest_api import RestApi
from luigi_pai.jobspec.arrays.jobs import jobs_in
from luigi_pai.jobspec.names import base_name, is_array_name, may_hold
from luigi_pai.sweep.journal.journal import Journal
from luigi_pai.sweep.sweep_run import SweepRun
from luigi_pai.sweep.table import Table


def packed(pai) -> list[list[str]]:
    """Return the submissions of points in each job of a server, in the order of their submission."""
    return [jobs_in(job.config) or [name] for name, job in pai.jobs.items()]


def check_runs(pai, sweep=None):
    """Check that each point was submitted once, by whatever job, and has succeeded."""
    sweep = sweep or Packed()
    submitted = [base_name(name) for names in packed(pai) for name in names]
    assert sorted(submitted) == sorted(point.name for point in sweep.points())
    assert states(sweep) == ["SUCCEEDED"] * 6


# ---------------------------------------------------------------- as one job a point


class OfSweep(PaiTask):
    """A point that writes its result, and fails for number 2."""

    prefix = luigi.Parameter()
    number = luigi.IntParameter()
    image = "python:3"

    @property
    def name(self):
        return f"{self.prefix}-{self.number}"

    @property
    def tasks(self):
        command = (
            f'echo "point $PAI_JOB_NAME, task $PAI_TASK_INDEX of $PAI_TASKS_NUM"; [ {self.number} != 2 ] || '
            '{ echo "number 2 fails" >&2; exit 9; }; '
            f"""echo '{{"square": {self.number**2}}}' | hdfs dfs -put - "$PAI_OUTPUT_DIR/metrics.json" """
        )
        return [TaskRole("main", command, memoryMB=100)]


class OfNumbers(PaiSweep):
    """A sweep of them."""

    prefix = luigi.Parameter()
    tolerance = 1

    def points(self):
        return grid(OfSweep, prefix=[self.prefix], number=range(5))


@pytest.mark.slow
def test_points_in_one_job_end_as_in_jobs_of_their_own(local_pai_v2, settings):
    """State, result, error, output folder and completion flag; each point is complete alone, too."""
    settings(**{**local_pai_v2.luigi_section, "poll_min": 0.05, "poll_max": 0.2})
    tables = []
    for points_per_job in (1, 3):
        prefix = f"p{uuid.uuid4().hex[:8]}"
        sweep = OfNumbers(prefix=prefix, points_per_job=points_per_job)
        sweep.run()
        rows = sweep.output().rows()
        jobs = {row["job"] for row in rows}
        assert len(jobs) == (5 if points_per_job == 1 else 2)
        assert all(row["seconds"] > 0 and row["page"].endswith(row["job"]) for row in rows)
        unlike = ("prefix", "seconds", "job", "page")
        tables.append([{key: row[key] for key in row if key not in unlike} for row in rows])
        assert [point.complete() for point in sweep.points()] == [True, True, False, True, True]
        flags = [(point.output() / "_SUCCESS").exists() for point in sweep.points()]
        assert flags == [True, True, False, True, True]
        assert sweep.complete()
    assert tables[0] == tables[1]
    assert [row["square"] for row in tables[1]] == [0, 1, None, 9, 16]
    assert tables[1][2]["error"].startswith("exit code 255, its command with 9")
    assert tables[1][2]["error"].endswith("number 2 fails")


# ---------------------------------------------------------------- submissions


@pytest.mark.parametrize("points_per_job", [1, 3, 5])
def test_a_killed_worker_s_jobs_are_taken_over(v2, monkeypatch, points_per_job):
    """With another points_per_job too: each point gets its end, however few are looked up together."""
    v2.plan = {"task_codes": {}, "runs_for": 1000}
    with killed(monkeypatch, v2, 2):
        Packed().run()
    assert not any(point.complete() for point in Packed().points())
    new_process()
    looked_up = set()
    latest = Book.latest

    def found(book, name, *arguments, **options):
        looked_up.add(name)
        if len(looked_up) == 6:
            for job in v2.jobs.values():
                job.runs_for = 0.0
        return latest(book, name, *arguments, **options)

    monkeypatch.setattr(Book, "latest", found)
    study("Packed", Packed, points_per_job=points_per_job).run()
    assert v2.submissions == 2
    assert states(Packed()) == ["SUCCEEDED"] * 6


def test_a_submission_that_the_list_does_not_show_yet_is_taken_over(v2, monkeypatch):
    """The same submissions have the same name, which the server refuses."""
    Packed().run()
    monkeypatch.setattr(RestApi, "list", lambda *_, **__: [])
    Path("results/results.json").unlink()
    new_process()
    Packed().run()
    assert len(v2.jobs) == 2
    assert states(Packed()) == ["SUCCEEDED"] * 6


def test_points_have_their_own_events(v2):
    """As alone; a job has the name of the array."""
    events = []

    class Noted(Train):
        """Its handlers are its own."""

    for event in (PaiEvent.SUBMITTED, PaiEvent.SUCCEEDED, PaiEvent.FAILED):

        @Noted.event_handler(event)
        def note(task, status, *_, event=event):
            events.append((event.rpartition(".")[2], task.rate, is_array_name(status.name)))

    of_noted = study("OfNoted", Packed, tolerance=1, points=lambda: grid(Noted, rate=[1, 2, 3]))
    v2.plan = {"task_codes": {1: 255}}
    of_noted.run()
    assert sorted(events) == [
        ("failed", 2, True),
        *(("submitted", rate, True) for rate in (1, 2, 3)),
        *(("succeeded", rate, True) for rate in (1, 3)),
    ]


def test_a_point_is_found_without_hdfs(v2):
    """Alone, by another sweep and by another process: in the jobs of the user's list."""
    Packed().run()

    overlaps = study("Overlaps", Packed, rates=(2, 3, 4), results_dir="others")
    assert all(point.complete() for point in Packed().points())
    overlaps.run()
    assert packed(v2)[2:] == [[point.name for point in overlaps.points()[4:]]]
    new_process()
    assert all(point.complete() for point in [*Packed().points(), *overlaps.points()])
    points = len(v2.jobs)
    Packed().points()[0].run()
    assert len(v2.jobs) == points


@pytest.mark.slow
def test_a_point_that_another_process_has_just_submitted_is_not_submitted(v2, hdfs, monkeypatch):
    """Its claim says so, whatever was found a moment ago."""
    del hdfs
    points = Packed().points()

    other = study("Other", Packed, points_per_job=2, points=lambda: points[1:2])
    looked_up = []
    latest = Book.latest

    def found(book, name, *arguments, **options):
        looked_up.append(name)
        result = latest(book, name, *arguments, **options)
        if looked_up == [point.name for point in points[:4]]:
            other.run()
        return result

    monkeypatch.setattr(Book, "latest", found)
    Packed().run()
    check_runs(v2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("packs", "with_hdfs", "arrives"),
    [((4, 3), True, False), ((4, 1), True, True), ((4, 3), False, True), ((1, 4), False, True)],
)
def test_a_sender_is_killed_between_its_claim_and_its_job(
    v2, request, monkeypatch, packs, with_hdfs, arrives
):
    """Whether the job arrives after the next run, which packs otherwise, has looked for it, or never.

    Another worker might be about to send it: its name decides, after a moment.
    """
    if with_hdfs:
        request.getfixturevalue("hdfs")
    monkeypatch.setattr("luigi_pai.work.decide._ON_ITS_WAY", 0.5)
    late, submit = [], V2Dialect.submit

    def killed(_, job):
        late.extend([job] if arrives else [])
        raise KeyboardInterrupt

    def overtaken(dialect, job):
        while late:
            submit(dialect, late.pop())
        return submit(dialect, job)

    monkeypatch.setattr(V2Dialect, "submit", killed)
    with pytest.raises(KeyboardInterrupt):
        study("Packed", Packed, points_per_job=packs[0]).run()
    assert v2.submissions == 0
    new_process()
    monkeypatch.setattr(V2Dialect, "submit", overtaken)
    sweep = study("Packed", Packed, points_per_job=packs[1])
    sweep.run()
    check_runs(v2, sweep)


@pytest.mark.slow
@pytest.mark.parametrize("failing", [(), (1,)])
def test_a_job_that_another_sweep_has_submitted_and_watched_to_its_end(v2, hdfs, monkeypatch, failing):
    """The server refuses the name then. What has succeeded stays so, and is not run again."""
    del hdfs
    v2.plan = {"task_codes": dict.fromkeys(failing, 255)}

    class Other(Packed):
        name, results_dir = "Other", "other"
        tolerance = 2

    submit, other = V2Dialect.submit, [Other()]

    def overtaken(dialect, job):
        if other:
            new_process()  # which knows nothing of what this one has looked up
            other.pop().run()
        return submit(dialect, job)

    monkeypatch.setattr(V2Dialect, "submit", overtaken)
    sweep = Packed(tolerance=2)
    sweep.run()
    assert [len(names) for names in packed(v2)] == [4, 2]  # what has failed was an attempt of both
    succeeded = [point for number, point in enumerate(sweep.points()) if number % 4 not in failing]
    assert all(point.complete() for point in succeeded)
    expected = ["SUCCEEDED" if point in succeeded else "FAILED" for point in sweep.points()]
    assert states(sweep) == expected


def test_points_that_have_waited_long_for_a_place_are_looked_up_again(v2, monkeypatch):
    """Somebody else has submitted one of them meanwhile: another sweep, or its task alone."""
    monkeypatch.setattr("luigi_pai.sweep.starting.RECENT", 0.3)
    points = Packed().points()
    v2.add(points[0].name, runs_for=1.0)
    run = SweepRun(study("Packed", Packed, parallel_jobs=1))
    changed = Table.changed

    def meanwhile(table, point, status):
        if status.name == points[0].name and points[1].name not in v2.jobs:
            v2.add(points[1].name)
        changed(table, point, status)

    monkeypatch.setattr(Table, "changed", meanwhile)
    run.execute()
    check_runs(v2)


class Uneven(PaiSweep):
    """One job, of which the first point ends soon and the second one does not."""

    prefix = luigi.Parameter()
    name = "Uneven"
    points_per_job = 2
    results_dir = "results"

    def points(self):
        class Sleeping(OfSweep):
            tasks = [TaskRole("main", "sleep 600", memoryMB=100)]

        return [OfSweep(prefix=self.prefix, number=0), Sleeping(prefix=self.prefix, number=1)]


@pytest.fixture
def uneven(local_pai_v2, settings):
    """Return the sweep, on a real server; its jobs are stopped after the test."""
    settings(**{**local_pai_v2.luigi_section, "poll_min": 0.05, "poll_max": 0.1})
    sweep = Uneven(prefix=f"p{uuid.uuid4().hex[:8]}")
    yield sweep
    cluster = OpenPai.current().cluster()
    for job in cluster.list():
        if may_hold(job.name, sweep.prefix) and not job.finished:
            cluster.stop(job.name)


@pytest.mark.slow
def test_the_table_shows_each_point_while_others_run(uneven, monkeypatch):
    """A point that has ended is recorded at once."""
    first, second = uneven.points()
    ended = []

    class Stop(Exception):
        pass

    noted = Table.ended

    def note(table, each):
        row = noted(table, each)
        ended.append((each.point.task, row["square"]))
        raise Stop

    monkeypatch.setattr(Table, "ended", note)
    with pytest.raises(Stop):
        SweepRun(uneven).execute()
    assert ended == [(first, 0)]
    assert first.complete()
    assert not second.complete()
    with pytest.raises(
        PaiJobError, match=rf"'{uneven.prefix}-1' was not submitted: it is RUNNING as a part of job "
    ):
        second.run()


@pytest.mark.slow
def test_a_point_that_has_ended_does_not_fail_with_its_job(uneven, monkeypatch):
    """From then on the server refuses to show the job."""
    noted = Table.ended

    def refused(_, name):
        raise PermissionRefused(f"no access to {name}")

    def note(table, each):
        monkeypatch.setattr(RestApi, "status", refused)
        return noted(table, each)

    monkeypatch.setattr(Table, "ended", note)
    with pytest.raises(PaiSweepFailed, match="1 of 2 points failed"):
        SweepRun(uneven).execute()
    assert states(uneven) == ["SUCCEEDED", "FAILED"]


# ---------------------------------------------------------------- what cannot be packed


class Unlike(Packed):
    """Points of which one has another image."""

    def points(self):
        class Other(Train):
            image = "python:2"

        return [Train(rate=1), Train(rate=2), Other(rate=3)]


def test_points_that_differ_are_an_error_before_anything_is_sent(v2):
    with pytest.raises(SpecError, match=r"(?s)'train-3.*prerequisites\[0\]\.uri.*differs from job 'train-1"):
        Unlike().run()
    assert not [call for call in v2.calls if "jobs" in call[1]]


def test_points_of_a_job_are_on_one_cluster(v2, further):
    """Each array is on one."""

    class There(Train):
        cluster = "gpu2"

    elsewhere = study("Elsewhere", Packed, points=lambda: [Train(rate=1), There(rate=2)])
    further("gpu2", pai_url=v2.url, username="anna")
    with pytest.raises(ConfigError, match=r"need the same cluster, but have that of \[OpenPai\], 'gpu2'"):
        elsewhere.run()


def test_a_message_that_the_points_cannot_follow_changes_nothing(v2):
    v2.plan = {"runs_for": 0.3}
    sweep = study("Alone", Unlike, points_per_job=1)
    (answer,) = run_with_messages(sweep, "points_per_job = 4")
    assert "differs from job 'train-1" in answer
    assert states(sweep) == ["SUCCEEDED"] * 3


@pytest.mark.usefixtures("v2")
def test_a_refused_job_fails_its_points_and_no_others(monkeypatch):
    """Here the server accepts the second one only."""
    refuse = iter([True])
    submit = V2Dialect.submit

    def submitted(dialect, job):
        if next(refuse, False):
            raise PermissionRefused("no such virtual cluster")
        submit(dialect, job)

    monkeypatch.setattr(V2Dialect, "submit", submitted)
    with pytest.raises(PaiSweepFailed, match="4 of 6 points failed"):
        Packed(tolerance=3).run()
    assert states(Packed()).count("FAILED") == 4


@pytest.mark.parametrize("seconds", [0, 11])
def test_a_claim_of_a_refused_job_is_given_back_while_no_other_process_uses_it(v2, monkeypatch, seconds):
    """10 s after the claim, another process takes its job for lost and submits it, under the same name."""

    def refused(*_):
        v2.clock.advance(seconds)
        raise PermissionRefused("no such virtual cluster")

    monkeypatch.setattr(V2Dialect, "submit", refused)
    with pytest.raises(PaiSweepFailed):
        Packed(tolerance=5).run()
    journal = Journal("results", Clock())
    journal.read()
    held = [journal.record(point.name).claim is not None for point in Packed().points()]
    assert held == [seconds > 10] * 6
