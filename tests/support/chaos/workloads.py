"""The workloads of the rounds: which tasks a pipeline has, and what has to become of each."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["APIS", "ONE_MACHINE", "TASKS", "WITH_FILES", "WORKLOADS", "Expected", "Workload"]

APIS = ("v1", "v2", "ltp")


@dataclass(frozen=True)
class Expected:
    """What has to become of a task.

    Attributes:
        submissions: how many have to run, each once.
        state: in which it ends.
        each_run: every run of the pipeline may submit it so often again.
    """

    submissions: int
    state: str
    each_run: bool = False


@dataclass(frozen=True)
class Workload:
    """A pipeline of ``program.py``.

    Attributes:
        name: of the workload.
        labels: of the tasks, those of each sweep apart.
        packs: ``points_per_job`` of the sweeps and of the runs, one after the other.
        beside: labels of points that are tasks of the pipeline, too.
        python: points are Python methods.
        budget: how many points a search proposes.
        ends: exit code of Luigi.
        apis: of the servers that can run it.
    """

    name: str
    labels: tuple[tuple[str, ...], ...] = ()
    packs: tuple[int, ...] = (1,)
    beside: tuple[str, ...] = ()
    python: bool = False
    budget: int = 0
    ends: int = 0
    apis: tuple[str, ...] = APIS

    def expected(self) -> dict[str, Expected]:
        """Return what has to become of each task, by label; of a search, nothing is known beforehand."""
        is_sweep = self.name not in TASKS
        kinds = {
            "ok": Expected(1, "SUCCEEDED"),
            "flaky": Expected(2, "SUCCEEDED"),
            "hopeless": Expected(2, "FAILED", each_run=not is_sweep),
        }
        return {label: kinds[label.partition("-")[0]] for group in self.labels for label in group}

    @property
    def parts(self) -> int:
        """Number of its sweeps and tasks that can run in separate processes."""
        return len(self.labels) + len(self.beside)

    @property
    def is_ordered(self) -> bool:
        """Whether each task requires the one before."""
        return self.name in ("chain", "dynamic", "methods")


TASKS = ("chain", "failing", "files", "dynamic", "methods", "functions")
"""Names of the workloads without sweeps."""

_V2 = ("v2", "ltp")
_ONE, _OTHER = ("ok-0", "ok-1", "flaky-2", "ok-3", "ok-4"), ("ok-3", "flaky-2", "ok-4", "ok-5")
_POINTS = ("ok-0", "ok-1", "hopeless-2", "ok-3", "flaky-4", "ok-5")
WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("chain", (("ok-0", "ok-1", "ok-2"),)),
        Workload("failing", (("ok-0", "flaky-1", "flaky-2", "hopeless-3"),), ends=30),
        Workload("sweep", (_POINTS,)),
        Workload("arrays", (_POINTS,), packs=(3, 2, 4), apis=_V2),
        Workload("overlap", (("ok-0", "ok-1", "flaky-2", "ok-3"), ("ok-3", "flaky-2", "ok-4", "ok-5"))),
        Workload(
            "overlapping-arrays",
            (_ONE, _OTHER),
            packs=(3, 4, 2),
            apis=_V2,
        ),
        Workload("search", budget=6),
        Workload("dynamic", (("ok-0", "flaky-1", "ok-2"),)),
        Workload("methods", (("ok-0", "flaky-1", "ok-2"),)),
        Workload("functions", (("ok-0", "ok-1", "flaky-2"),)),
        Workload("beside-a-task", (_ONE,), packs=(3, 2), beside=("ok-3",), apis=_V2),
    )
}
"""By their names."""

ONE_MACHINE = {
    workload.name: workload
    for python in (False, True)
    for end in ("-python" if python else "",)
    for workload in (
        Workload(f"equal-packs{end}", (_ONE, _OTHER), packs=(2,), python=python, apis=_V2),
        Workload(f"different-packs{end}", (_ONE, _OTHER), packs=(3, 2), python=python, apis=_V2),
        Workload(f"beside-a-task{end}", (_ONE,), packs=(3,), beside=("ok-3",), python=python, apis=_V2),
    )
}
"""Of jobs with several points, without HDFS: nothing but this machine decides who submits a point."""

WITH_FILES = {"files": Workload("files", (("ok-0", "flaky-1"),))}
"""Of tasks with uploads and kept logs, which need a file system of the cluster."""
