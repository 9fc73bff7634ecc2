"""Sweeps and tasks that share points without HDFS, on one machine, or with a storage: each runs once."""

from __future__ import annotations

import pytest
from chaos.dice import seeds
from chaos.nemeses import MACHINES, MEETINGS
from chaos.rounds import Round, judged
from chaos.workloads import ONE_MACHINE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SECONDS = 0.3  # that each command takes, so that there is something to meet
WAYS = [(api, nemesis) for api in ("v2", "ltp") for nemesis in MEETINGS]


@pytest.mark.parametrize("seed", seeds(2, share=0.8))
@pytest.mark.parametrize("workload", ONE_MACHINE)
def test_what_meets_on_one_machine_runs_each_point_once(play_round, workload, seed):
    """In one build and in two processes by turns: ``make chaos ROUNDS=100`` plays 40 rounds of each."""
    api, nemesis = WAYS[seed % len(WAYS)]
    one = Round(seed, workload, api, "none", nemesis=nemesis, workers=4, seconds=SECONDS)
    judged(
        play_round(one, MEETINGS[nemesis]), "tests/chaos/test_one_machine.py", choice=f"[{workload}-{seed}]"
    )


@pytest.mark.parametrize("seed", seeds(1, share=0.4))
@pytest.mark.parametrize("workload", ONE_MACHINE)
def test_what_meets_with_a_storage_runs_each_point_once(play_round, workload, seed):
    """In one build and in two processes by turns; claims, flags and results are on the storage."""
    api, nemesis = WAYS[seed % len(WAYS)]
    one = Round(seed, workload, api, "storage", nemesis=nemesis, workers=4, seconds=SECONDS)
    judged(
        play_round(one, MEETINGS[nemesis]),
        "tests/chaos/test_one_machine.py",
        choice=f"storage and {workload}-{seed}",
    )


@pytest.mark.parametrize("seed", seeds(1, share=0.4))
@pytest.mark.parametrize("workload", ["sweep", "arrays", "overlapping-arrays", "failing", "search"])
def test_one_pipeline_on_two_machines_runs_each_point_once(play_round, workload, seed):
    """Two users' processes at once, which share the storage alone; one of them may be killed."""
    nemesis = list(MACHINES)[seed % len(MACHINES)]
    one = Round(
        seed, workload, ("v2", "ltp")[seed // 2 % 2], "storage", nemesis=nemesis, workers=2, seconds=SECONDS
    )
    judged(
        play_round(one, MACHINES[nemesis]),
        "tests/chaos/test_one_machine.py",
        choice=f"machines and {workload}-{seed}",
    )
