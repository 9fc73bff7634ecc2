"""What a round has left: what ran, what the server, HDFS and the tables have, and what Luigi said."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from luigi_pai.api.cluster import Cluster
from luigi_pai.files import Storage, WebHdfs
from luigi_pai.jobspec.names import base_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from luigi_pai.files.file_system import FileSystem
    from luigi_pai.local import LocalPai

__all__ = ["History", "Run", "read_history", "torn_files"]


@dataclass
class Run:
    """A run of the pipeline in a process.

    Attributes:
        turn: its name.
        disturbed: a nemesis met it.
        code: exit code; negative: the signal that killed it.
        said: which tasks Luigi says are ``done`` and ``failed``; None where it was killed.
        left: how many of its processes were left when it had ended, after some seconds.
    """

    turn: str
    disturbed: bool
    code: int | None = None
    said: dict[str, list[str]] | None = None
    left: int = 0


@dataclass
class History:
    """What a round has left.

    Attributes:
        prefix: of the names of its jobs.
        place: of the files, see ``Round``.
        runs: of the pipeline, in their order.
        ran: names of submissions, in the order in which their commands began.
        jobs: on the server: name -> state.
        claims: in output folders, or on this machine: task -> number of the submission -> job that it was
            claimed for, and recorded end.
        flags: tasks with the completion flag.
        tables: of sweeps: name -> rows, see ``SweepResults``.
        reports: turns whose last task has run.
        torn: files on the storage that had their name, but not their whole content, when a run had ended.
        may_fail: a run may end with an error of the files, after which the next run has attempts of its own.
        leftovers: hidden files on the storage, which have not become what they were to be.
    """

    prefix: str
    place: str
    may_fail: bool = False
    runs: list[Run] = field(default_factory=list)
    ran: list[str] = field(default_factory=list)
    jobs: dict[str, str] = field(default_factory=dict)
    claims: dict[str, dict[int, tuple[str, str | None]]] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    reports: list[str] = field(default_factory=list)
    torn: list[str] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)

    def submissions(self, name: str) -> list[str]:
        """Return the submissions of a task whose command has begun, once for each time."""
        return [ran for ran in self.ran if base_name(ran) == name]

    def text(self) -> str:
        """Return it as JSON."""
        return json.dumps(asdict(self), indent=1)


def read_history(history: History, folder: Path, server: LocalPai, api_version: str) -> History:
    """Fill a history in from the files of a round, its server and HDFS."""
    lines = folder / "history"
    history.ran = lines.read_text().split() if lines.exists() else []
    cluster = Cluster(server.url, server.username, password=server.password, api_version=api_version)
    jobs = cluster.list()
    cluster.close()
    history.jobs = {job.name: job.state.value for job in jobs}
    history.reports = [path.name.removeprefix("report-") for path in folder.glob("report-*")]
    tables: dict[str, str | bytes] = {
        path.parent.name: path.read_text() for path in folder.glob("results/*/results.json")
    }
    if history.place != "none":
        fs: FileSystem = WebHdfs(server.webhdfs_url, server.username)
        if history.place == "storage":
            root = server.data / "storages" / "nfs1"
            fs = Storage("nfs1", str(root))
            # a process that is killed between its last rename and the removal of its folder leaves that empty
            history.leftovers = [
                str(path)
                for path in root.rglob(".*")
                if path.name != ".luigi-pai-manifest.json" and (path.is_file() or any(path.iterdir()))
            ]
        for name in sorted({base_name(ran) for ran in history.ran}):
            _read_evidence(history, fs, name)
        for table in fs.glob(f"/results/{history.prefix}-*/results.json"):
            with fs.open_reader(table) as file:
                tables[table.split("/")[-2]] = file.read()
    else:
        for file in folder.glob("state-*/luigi_pai/claims/*/[!.]*.json"):
            claim = json.loads(file.read_text())
            _read_claim(history, claim, {path.name for path in file.parent.iterdir()})
    history.tables = {name: json.loads(text)["rows"] for name, text in tables.items()}
    return history


def torn_files(storage: Path) -> Iterator[str]:
    """Yield the claims and flags on a storage that have their name, but not their whole content."""
    for pattern, end in (
        ("*/output/_SUCCESS", "\n"),
        ("*/code/part-*/[!.]*", "end\n"),
        ("*/output/_logs/*/[!.]*.stdout", "said\n"),
    ):
        for path in storage.glob(pattern):
            if not path.read_text().endswith(end):
                yield str(path)
    for path in (*storage.glob("*/output/_luigi_pai/[!.]*.json"), *storage.glob("results/*/*.json")):
        try:
            json.loads(path.read_text())
        except ValueError:
            yield str(path)


def _read_evidence(history: History, fs: FileSystem, name: str) -> None:
    """Read the flag and the claims of a task, as files, not by the code that writes them."""
    output = f"/{name}/output"
    if not fs.exists(output):
        return
    names = _names(fs, output)
    if "_SUCCESS" in names or f"_SUCCESS.{name}" in names:
        history.flags.append(name)
    history.claims[name] = {}
    files = _names(fs, f"{output}/_luigi_pai") if "_luigi_pai" in names else []
    for file in files:
        if file.startswith(f"{name}.") and file.endswith(".json"):
            with fs.open_reader(f"{output}/_luigi_pai/{file}") as claim:
                _read_claim(history, json.loads(claim.read()), files)


def _read_claim(history: History, claim: Mapping[str, Any], files: Collection[str]) -> None:
    """Add a claim; the files beside it record its end."""
    name, number = claim["name"], claim["number"]
    ends = [state for state in ("SUCCEEDED", "FAILED", "STOPPED") if f"{name}.{number}.{state}" in files]
    history.claims.setdefault(name, {})[number] = claim["job"], "+".join(ends) or None


def _names(fs: FileSystem, folder: str) -> list[str]:
    return [path.rpartition("/")[2] for path in fs.listdir(folder)]
