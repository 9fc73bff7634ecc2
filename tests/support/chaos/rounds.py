"""Rounds: a pipeline runs, a nemesis meets it, the user runs the same command again, the checker looks."""

from __future__ import annotations

import configparser
import json
import random
import shutil
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from places import ROOT
from waiting import wait_until

from chaos import processes
from chaos.checker import findings
from chaos.dice import BUG
from chaos.history import History, Run, read_history, torn_files
from chaos.nemeses import MACHINES, OUTAGES, RACES
from chaos.workloads import ONE_MACHINE, WITH_FILES, WORKLOADS, Workload
from luigi_pai.api.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from chaos.checker import Finding
    from luigi_pai.local import LocalPai

__all__ = ["Played", "Round", "Started", "Table", "drawn", "judged", "play"]

_RERUNS = 5
_LONGEST = 150.0  # seconds of a run
_KEPT = ROOT / "build" / "chaos"
_PLACES = ("hdfs", "hdfs", "hdfs", "storage", "storage", "none")  # each is as likely as the others
_ENDED = ("SUCCEEDED", "FAILED", "STOPPED")


@dataclass(frozen=True)
class Round:
    """A round; all that is drawn at random comes from its seed.

    Attributes:
        seed: of the round.
        workload, api: what runs where.
        place: of the files: ``hdfs``, ``storage``, or ``none``.
        nemesis: its name, for the table.
        workers: of Luigi, in each process.
        seconds: that each command takes.
        bug: of ``seeded_bugs``; empty for none.
    """

    seed: int
    workload: str
    api: str
    place: str
    nemesis: str
    workers: int = 1
    seconds: float = 0.1
    bug: str = ""

    @property
    def work(self) -> Workload:
        """Its workload."""
        return (WORKLOADS | ONE_MACHINE | WITH_FILES)[self.workload]

    def __str__(self) -> str:
        return f"{self.seed}-{self.workload}-{self.api}-{self.place}-{self.nemesis}-{self.workers}"


@dataclass
class Started:
    """A run of the pipeline that goes on."""

    run: Run
    process: Any
    log: Path

    @property
    def session(self) -> int:
        """Of its processes; the main one has this pid."""
        return int(self.process.pid)


@dataclass
class Table:
    """A round that is played.

    Attributes:
        round: it.
        folder: of its files.
        server: runs the jobs.
        random: from the seed.
        history: what has happened so far.
    """

    round: Round
    folder: Path
    server: LocalPai
    random: random.Random
    history: History
    _turns: int = field(default=0)

    def start(
        self,
        *,
        disturbed: bool = False,
        kill_at: int = 0,
        files: Mapping[str, Any] | None = None,
        only: int | None = None,
        machine: int = 0,
    ) -> Started:
        """Start the pipeline.

        Args:
            disturbed: a nemesis meets it.
            kill_at: see ``kill_at_request``.
            files: which of them fail, see ``outage``.
            only: the sweep or task of this index alone.
            machine: number of the machine; runs on different machines have nothing in common but the cluster.
        """
        work, turn = self.round.work, f"{self._turns}"
        labels, beside = work.labels, work.beside
        if only is not None:
            part = (*labels, *beside)[only % work.parts]
            labels, beside = ((), (part,)) if part in beside else ((part,), ())
        packs = [work.packs[(self._turns + number) % len(work.packs)] for number in range(len(labels))]
        self._turns += 1
        words = {
            "folder": str(self.folder),
            "prefix": self.history.prefix,
            "results": f"{self.folder}/results"
            if self.round.place == "none"
            else "$PAI_DEFAULT_FS_URI/results",
            "workload": self.round.workload,
            "labels": labels,
            "beside": beside,
            "packs": packs,
            "python": work.python,
            "budget": work.budget,
            "seconds": self.round.seconds,
            "workers": self.round.workers,
            "bug": self.round.bug,
            "kill_at": kill_at,
            "files": dict(files or {}),
            "turn": turn,
        }
        log = self.folder / f"log-{turn}"
        run = Run(turn, disturbed or kill_at != 0)
        self.history.runs.append(run)
        process = processes.start(json.dumps(words), self.folder, log, state=f"state-{machine}")
        return Started(run, process, log)

    def end(self, started: Started) -> int:
        """Wait for the end of a run and of its processes, and return the exit code."""
        started.process.join(_LONGEST)
        code = started.process.exitcode
        started.run.code = code
        if code is None:
            processes.kill(started.session)
            started.process.join()
        said = self.folder / f"said-{started.run.turn}"
        started.run.said = json.loads(said.read_text()) if said.exists() else None
        if code is not None:
            started.run.left = processes.left(started.session)
        started.process.close()
        self.history.torn += torn_files(self.server.data / "storages" / "nfs1")
        return -1 if code is None else code

    def finish(self) -> None:
        """Run the same command again until it ends as it should, and once more to see that nothing runs."""
        for _ in range(_RERUNS):
            if self.end(self.start()) == self.round.work.ends:
                break
        cluster = Cluster(self.server.url, self.server.username, password=self.server.password)
        wait_until(lambda: all(job.state.value in _ENDED for job in cluster.list()), pause=0.1)
        cluster.close()


@dataclass(frozen=True)
class Played:
    """A round that was played, its folder, and what the checker has found."""

    round: Round
    folder: Path
    findings: list[Finding]


def play(one: Round, folder: Path, server: LocalPai, nemesis: Callable[[Table], None]) -> Played:
    """Play a round; its folder keeps its history and logs."""
    drawn = random.Random(one.seed)
    prefix = f"{one.workload}-{one.seed}"
    table = Table(one, folder, server, drawn, History(prefix, one.place, one.nemesis in OUTAGES))
    _write_config(one, folder, server)
    try:
        nemesis(table)
        table.finish()
        read_history(table.history, folder, server, "v1" if one.api == "v1" else "v2")
        # whoever ends the work does not wait for those who are killed, and files that fail cannot be removed;
        # a worker that is killed beside its main process exists until it is reaped, and so do its files
        is_killed = one.nemesis.startswith("kill") and one.workers > 1
        if is_killed or one.nemesis in (*RACES, *MACHINES, "failing-files"):
            table.history.leftovers.clear()
        return Played(one, folder, findings(table.history, one.work))
    finally:
        (folder / "history.json").write_text(table.history.text())
        server.empty()


def _write_config(one: Round, folder: Path, server: LocalPai) -> None:
    given = {**server.luigi_section, "poll_min": "0.05", "poll_max": "0.3", "poll_patience": "60"}
    given["api_version"] = "v1" if one.api == "v1" else "v2"
    if one.place != "hdfs":
        given.pop("webhdfs_url", None)
    if one.place != "storage":
        given.pop("storage", None)
    if one.nemesis in OUTAGES:
        given["read_timeout"] = "1.5"
    parser = configparser.ConfigParser(interpolation=None)
    parser["OpenPai"] = given
    parser["worker"] = {"wait_interval": "0.1", "ping_interval": "0.5"}
    parser["core"] = {"no_configure_logging": "false"}
    with (folder / "luigi.cfg").open("w") as file:
        parser.write(file)


# which rounds there are


def drawn(seed: int, nemeses: Iterable[str]) -> Round:
    """Return the round of a seed: each nemesis comes in turn, all else is drawn at random."""
    names, chosen = list(nemeses), random.Random(seed)
    nemesis = names[seed % len(names)]
    work = chosen.choice(list(WORKLOADS.values()))
    api = chosen.choice(work.apis)
    place = chosen.choice([each for each in _PLACES if each != "storage" or api != "v1"])
    if nemesis in ("lost-hdfs-replies", "safe-mode"):
        place = "hdfs"
    is_away = place == "hdfs" and nemesis in ("lost-hdfs-replies", "safe-mode", "kill-server")
    if is_away and work.name in ("methods", "functions"):  # whose containers read HDFS, and fail as well
        work, api = WORKLOADS["chain"], chosen.choice(WORKLOADS["chain"].apis)
    if nemesis in OUTAGES:
        place = chosen.choice(("storage", "storage", "none"))
        api = chosen.choice([each for each in work.apis if each != "v1" or place == "none"])
    workers = chosen.choice((2, 4)) if nemesis in ("kill-main", "kill-child") else chosen.choice((1, 2, 4))
    return Round(seed, work.name, api, place, nemesis, workers, bug=BUG)


def judged(played: Played, module: str, crash_point: int | None = None, choice: str = "") -> None:
    """Record a round in build/chaos/rounds.jsonl, and fail if there are findings.

    Args:
        played: the round.
        module: of the test, below the project.
        choice: of the module's tests that play the seed, for ``-k``.
        crash_point: of the round, where it has one.

    Raises:
        AssertionError: the findings, where the history is kept, and the command that plays it again.
    """
    one = played.round
    _KEPT.mkdir(parents=True, exist_ok=True)
    row = {**asdict(one), "findings": [asdict(each) for each in played.findings]}
    with (_KEPT / "rounds.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n")
    if not played.findings:
        return
    kept = shutil.copytree(played.folder, _KEPT / played.folder.name, dirs_exist_ok=True)
    how = f"CHAOS_SEED={one.seed} CHAOS_ROUNDS=1"
    if crash_point is not None:
        how, choice = f"CHAOS_CRASH_POINTS={crash_point}", f"{one.workload}-{one.api}-{one.place}"
    if one.bug:
        how += f" CHAOS_BUG={one.bug}"
    raise AssertionError(
        "\n  ".join(
            [
                f"round {one}:",
                *map(str, played.findings),
                f"history and logs: {kept}",
                f"to play it again: {how} .venv/bin/pytest {module}" + (f" -k '{choice}'" if choice else ""),
            ]
        )
    )
