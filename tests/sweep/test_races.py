"""Sweeps that meet, and sweeps that are killed, with points that share jobs: each point runs once.

LUIGI_PAI_ROUNDS=25 runs each race 25 times.
"""

from __future__ import annotations

import itertools
import random

import pytest
from racing import Race, rounds

pytestmark = pytest.mark.slow

ALL = rounds() > 1  # requests; read before a test may have another environment
SERVERS = {"v2": "local_pai_v2"} | ({"ltp": "local_pai_ltp"} if rounds() > 1 else {})
PACKS = [(3, 3), (5, 7)] + ([(5, 4), (5, 1)] if rounds() > 1 else [])


@pytest.fixture(params=SERVERS)
def race(request, tmp_path):
    """Ten points, with HDFS."""
    return Race(tmp_path, request.getfixturevalue(SERVERS[request.param]), "v2", points=10)


@pytest.mark.parametrize("turn", range(rounds()))
@pytest.mark.parametrize("packs", PACKS)
def test_sweeps_that_overlap_run_each_point_once(race, packs, turn):
    """Each point is claimed before its job is sent."""
    del turn
    for first, points_per_job in zip((0, 2), packs, strict=True):
        race.start(first=first, points=8, points_per_job=points_per_job)
    assert race.wait() == [0, 0], race.log()
    assert [len(ran) for ran in race.ran()] == [1] * 10, race.log()


@pytest.mark.parametrize("turn", range(rounds()))
def test_sweeps_that_overlap_after_failures_run_each_point_once_more(race, turn):
    """What has failed is packed anew by both."""
    del turn
    race.fail(fail=True)
    assert race.run(points_per_job=4) == [0], race.log()
    assert [len(ran) for ran in race.ran()] == [1] * 10, race.log()
    race.fail(fail=False)
    for points_per_job in (3, 5):
        race.start(points_per_job=points_per_job)
    assert race.wait() == [0, 0], race.log()
    assert [len(ran) for ran in race.ran()] == [2] * 10, race.log()


@pytest.mark.parametrize("turn", range(rounds()))
def test_a_sweep_that_is_killed_and_packed_otherwise_runs_each_point_once(race, turn):
    """Before a request was sent, or when it was answered: of the server, and of HDFS."""
    del turn
    race.run(points_per_job=4, kill_at=random.choice((-1, 1)) * random.randint(1, 90))
    assert race.run(points_per_job=random.choice((1, 3, 5))) == [0], race.log()
    assert [len(ran) for ran in race.ran()] == [1] * 10, race.log()


WHERE = {"hdfs": "$PAI_DEFAULT_FS_URI/results", "local": "results"}


@pytest.mark.timeout(3600 if ALL else 180)
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("packs", [(1, 3), (3, 1), (3, 5)])
def test_a_sweep_that_is_killed_at_any_request_is_exact(tmp_path, local_pai_v2, packs, where):
    """One of twelve points fails, and is submitted twice in all; the others once; by both kinds of journals.

    With more rounds than one, it is killed before each of its requests, up to the last.
    """
    once = random.randint(1, 60)
    for kill_at in itertools.count(1) if ALL else [once]:
        folder = tmp_path / f"{kill_at}"
        folder.mkdir()
        race = Race(folder, local_pai_v2, "v2", with_hdfs=where == "hdfs", points=12)
        options = {
            "max_attempts": 2,
            "failing": [5],
            "results": f"{WHERE[where]}/{race.prefix}",
            "seconds": 0.1,
        }
        ended = race.run(points_per_job=packs[0], kill_at=kill_at, **options)
        assert race.run(points_per_job=packs[1], **options) == [0], (kill_at, race.log())
        expected = [1 if number != 5 else 2 for number in range(12)]
        assert [len(ran) for ran in race.ran()] == expected, (kill_at, race.log())
        if ended == [0]:
            break


@pytest.mark.parametrize("turn", range(rounds()))
@pytest.mark.parametrize("other", [1, 4, 7, 5] if ALL else [1])
def test_two_processes_on_one_sweep_run_each_point_once(race, other, turn):
    """With one journal, packed in two ways; what comes after each of them finds it complete."""
    del turn
    for points_per_job in (5, other):
        race.start(points_per_job=points_per_job, results=f"$PAI_DEFAULT_FS_URI/results/{race.prefix}")
    assert race.wait() == [0, 0], race.log()
    assert [len(ran) for ran in race.ran()] == [1] * 10, race.log()


@pytest.mark.parametrize("turn", range(rounds()))
@pytest.mark.parametrize("where", WHERE)
def test_two_processes_try_a_failing_point_as_often_as_one(race, where, turn):
    """They run one sweep; a submission that one of them has begun is an attempt to the other."""
    del turn
    results = f"{WHERE[where]}/{race.prefix}"
    for _ in range(2):
        race.start(points_per_job=1, max_attempts=2, failing=[1, 4], results=results)
    assert race.wait() == [0, 0], race.log()
    assert [len(ran) for ran in race.ran()] == [1, 2, 1, 1, 2, 1, 1, 1, 1, 1], race.log()
