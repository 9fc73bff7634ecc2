"""A server's limit of submissions: kept, explained once, and obeyed where it was not known."""

from __future__ import annotations

import gc
import threading

import pytest
from sweep_tasks import Train, study

from luigi_pai import PaiJob, PaiSweep, grid
from luigi_pai.api.dialects.v2 import V2Dialect
from luigi_pai.api.request_limits import Window
from luigi_pai.api.rest_api import RestApi
from luigi_pai.api.watching import Watcher
from luigi_pai.sweep.limits import SweepLimits, pace, seconds_to_submit

HOUR = 3600.0


@pytest.fixture
def server(pai, settings):
    """An OpenPAI 1.8."""
    pai.release, pai.plan = "1.8.0", {"runs_for": 10.0}
    settings(api_version="v2", poll_min=1, poll_max=30)
    return pai


class Paced(PaiSweep):
    results_dir = "results"
    parallel_jobs = 5
    count = 12

    def points(self):
        return grid(Train, batch=range(self.count))


@pytest.mark.slow
def test_submissions_are_kept_within_the_window(server, caplog):
    """None is refused; what is submitted meanwhile ends; the plan is said once."""
    caplog.set_level("INFO", logger="luigi-interface")
    server.limits = {"submit": 5}
    Paced().run()
    assert (server.submissions, server.refused_submissions) == (12, 0)
    assert HOUR < server.clock.elapsed < 2.2 * HOUR
    assert len(Paced().output().rows()) == 12
    plans = [record.getMessage() for record in caplog.records if "submissions an hour" in record.getMessage()]
    assert len(plans) == 1
    assert plans[0].startswith("Paced: 5 submissions an hour: ")


@pytest.mark.slow
def test_a_refusal_is_obeyed(server):
    """Where others have used up the window: one submission is refused, and the rest wait for its end."""
    server.limits = {"submit": 5}
    for _ in range(8):
        server._limits.count("submit")
    Paced().run()
    assert server.refused_submissions == 1
    assert server.submissions == 13
    assert HOUR * 0.9 < server.clock.elapsed < 4 * HOUR


def test_no_start_waits_for_tags(server, monkeypatch):
    """All jobs are submitted before the first one gets its tags."""
    is_submitted, tag, tags = threading.Event(), RestApi.add_tag, []

    def add_tag(api, name, text):
        assert is_submitted.wait(60)
        tags.append((name, text))
        tag(api, name, text)

    class Tagged(Train):
        tags = ["mine"]

    many = study("Many", Paced, parallel_jobs=20, points=lambda: grid(Tagged, batch=range(20)))
    submit = V2Dialect.submit

    def submitted(dialect, job):
        submit(dialect, job)
        if server.submissions == 20:
            is_submitted.set()

    monkeypatch.setattr(RestApi, "add_tag", add_tag)
    monkeypatch.setattr(V2Dialect, "submit", submitted)
    many.run()
    assert len(set(tags)) == len(tags) == 3 * 20
    assert {text for _, text in tags} == {"luigi", "luigi:Tagged", "mine"}


def test_a_running_point_does_not_hold_its_job(server, monkeypatch):
    """A thousand definitions would only take memory."""
    names, step, held = {task.name for task in Paced().points()}, Watcher.step, []

    def counted(watcher):
        if len(watcher) == 5 and 0 not in held:
            jobs = [each for each in gc.get_objects() if isinstance(each, PaiJob)]
            held.append(sum(job.jobName in names for job in jobs))
        return step(watcher)

    monkeypatch.setattr(Watcher, "step", counted)
    Paced().run()
    assert server.submissions == 12
    assert held[-1] == 0


def test_a_new_sweep_on_0_7_is_watched_by_lists(server, settings):
    """Its lists do not mark the jobs that a name finds: one lookup shows that they are such jobs."""
    server.release, server.plan = "0.7.1", {"runs_for": 1.0}
    settings(api_version="v1")
    study("Many", Paced, parallel_jobs=20, count=40).run()
    assert server.submissions == len(server.jobs) == 40
    assert server.count("GET", r"/jobs/") < 15
    assert server.count("GET") < 60


@pytest.mark.parametrize(
    ("window", "points", "per_job", "plan", "better"),
    [
        (None, 1000, 1, None, ""),
        (Window(60, HOUR, 60, HOUR), 60, 1, None, ""),
        (Window(60, HOUR, None, HOUR), 1000, 1, None, ""),
        (Window(59, HOUR, 60, HOUR), 1000, 1, "60 submissions an hour: 1,000 points take 16 h 40 min", "50"),
        (Window(60, HOUR, 60, HOUR), 1000, 10, "60 submissions an hour: 1,000 points take 1 h 40 min", "50"),
        (Window(5, 60, 10, 60), 30, 1, "10 submissions every 1 min: 30 points take 3 min", "2"),
        (Window(0, HOUR, 10, HOUR), 500, 500, "10 submissions an hour: 500 points take 6 min", ""),
    ],
)
def test_the_plan_says_how_long_a_limit_makes_it(window, points, per_job, plan, better):
    """And with how many points a job it would take minutes, if it is not such a number already."""
    took = {"": "", "50": "50 would take 20 min", "2": "2 would take 2 min"}[better]
    assert pace(window, points, per_job) == (f"{plan}; points_per_job = {took}" if better else plan)


def test_the_last_submission_is_as_late_as_the_windows_make_it():
    window = Window(10, 600, 60, HOUR)
    assert seconds_to_submit(None, 100) == seconds_to_submit(window, 10) == 0
    assert seconds_to_submit(window, 11) == seconds_to_submit(window, 70) == 600
    assert seconds_to_submit(window, 71) == 600 + HOUR
    assert seconds_to_submit(Window(0, 600, None, HOUR), 5) == 600


@pytest.mark.parametrize(
    ("tolerance", "points", "failures"),
    [(0.29, 100, 29), (0.57, 100, 57), (0.15, 6, 0), (0.17, 6, 1), (0.999, 1000, 999), (0, 7, 0), (3, 7, 3)],
)
def test_a_share_of_the_points_is_exact(tolerance, points, failures):
    """In binary, 0.29 * 100 is less than 29."""
    limits = SweepLimits(50, tolerance, 1, 1, 10_000)
    assert limits.failures(points) == failures
