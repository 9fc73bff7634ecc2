"""The same pipeline in several processes at once, and killed at any request: each command runs once.

LUIGI_PAI_ROUNDS=25 runs each race 25 times, of two and of four processes or workers.
"""

from __future__ import annotations

import random

import pytest
from luigid import Luigid
from racing import Race, rounds

pytestmark = pytest.mark.slow

SEVERAL = (2, 4) if rounds() > 1 else (3,)
SECONDS = (0.2, 2, 10, 35) if rounds() > 1 else (0.2,)
SERVERS = {"v1": "local_pai_v1", "v2": "local_pai_v2", "ltp": "local_pai_ltp"}


@pytest.fixture(params=SERVERS)
def race(request, tmp_path):
    """Tasks on a server of each kind, with HDFS."""
    server = request.getfixturevalue(SERVERS[request.param])
    return Race(tmp_path, server, "v1" if request.param == "v1" else "v2")


@pytest.mark.parametrize("turn", range(rounds()))
@pytest.mark.parametrize("processes", SEVERAL)
def test_a_first_run_in_several_processes_submits_once(race, processes, turn):
    """Who loses the claim, or the name, takes over what the other has submitted."""
    del turn
    assert race.run(processes) == [0] * processes, race.log()
    assert [len(ran) for ran in race.ran()] == [1] * race.points, race.log()


@pytest.mark.parametrize("turn", range(rounds()))
@pytest.mark.parametrize("processes", SEVERAL)
def test_a_rerun_after_a_failure_submits_once(race, processes, turn):
    """All of them find the same failed jobs."""
    del turn
    race.fail(fail=True)
    assert race.run() == [30], race.log()
    race.fail(fail=False)
    assert race.run(processes) == [0] * processes, race.log()
    names = [f"{race.prefix}-{number}" for number in range(race.points)]
    assert race.ran() == [[name, f"{name}__attempt2"] for name in names], race.log()


@pytest.mark.parametrize("seconds", SECONDS)
@pytest.mark.parametrize("workers", SEVERAL)
@pytest.mark.parametrize("with_luigid", [False, True])
def test_what_comes_after_a_rerun_is_run_in_the_same_run(race, tmp_path, workers, seconds, with_luigid):
    """Luigi asks in another fork whether it is complete."""
    race.points = 1
    race.fail(fail=True)
    race.run(workers=workers)
    race.fail(fail=False)
    if with_luigid:
        (tmp_path / "luigid").mkdir()
        with Luigid(tmp_path / "luigid") as scheduler:
            assert race.run(workers=workers, seconds=seconds, scheduler=scheduler.url) == [0], race.log()
    else:
        assert race.run(workers=workers, seconds=seconds) == [0], race.log()
    assert race.ran() == [[f"{race.prefix}-0", f"{race.prefix}-0__attempt2"]]


@pytest.mark.parametrize("turn", range(rounds()))
def test_a_pipeline_that_is_killed_at_a_request_is_ended_by_the_next_run(race, turn):
    """Before the request is sent, or when it was answered: of the server, and of HDFS."""
    del turn
    race.run(kill_at=random.choice((-1, 1)) * random.randint(1, 40), seconds=0.1)
    assert race.run(seconds=0.1) == [0], race.log()
    assert [len(ran) for ran in race.ran()] == [1] * race.points, race.log()
