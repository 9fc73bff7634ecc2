"""Count the functions of luigi_pai that are called for one job, with ``sys.setprofile``.

Each count is from a fresh process, on `luigi-pai local` (0.7.1): ``run()`` of a job of 1 s, ``complete()`` of
its task, ``luigi-pai status`` of the job, and a point of a sweep. A call is the start of a function of
luigi_pai or the resumption of a generator, but not of a comprehension. The frames are those of luigi_pai on
the stack of the first request that submits the job or, if none submits it, looks it up. For a point, the
calls are a twentieth of the difference between sweeps of 30 and 10 points, and the files are those with at
least one call per point. The counts are the same on every machine, give or take a lookup.

Promises: No count exceeds LIMITS. If one does, the exit code is 1. `--show` lists every function.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import luigi

import luigi_pai
from luigi_pai import PaiSweep, PaiTask, TaskRole, grid, reset_clusters
from luigi_pai.cli import main
from luigi_pai.local import LocalPai

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

LIMITS = {
    "run": {"calls": 1550, "files": 66, "frames": 10},
    "complete": {"calls": 220, "files": 42, "frames": 12},
    "status": {"calls": 195, "files": 35, "frames": 12},
    "point": {"calls": 1000, "files": 75},
}
FEW, MANY = 10, 30  # sizes of the two sweeps
PACKAGE = str(Path(luigi_pai.__file__).parent)


class Job(PaiTask):
    """A job of 1 s."""

    name = "calls"
    image = "x"
    tasks: ClassVar = [TaskRole("main", "sleep 1", memoryMB=100)]


class Point(Job):
    """A job of a sweep."""

    number = luigi.IntParameter()

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"calls_{self.number}"


class Sweep(PaiSweep):
    """Jobs of 1 s that run at the same time."""

    first = luigi.IntParameter()
    count = luigi.IntParameter()

    def points(self) -> list[Point]:
        return grid(Point, number=range(self.first, self.first + self.count))


class Count:
    """Counts calls of luigi_pai's functions.

    Attributes:
        calls: The number of calls, by file and function.
        frames: The number of luigi_pai's frames on the stack of the first GET of a job and of the first POST,
            by method.
    """

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()
        self.frames: dict[str, int] = {}

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if (
            event != "call"
            or code.co_name.startswith("<")
            or not code.co_filename.startswith(PACKAGE)
            or not code.co_flags & inspect.CO_OPTIMIZED
        ):
            return
        self.calls[code.co_filename, code.co_qualname if hasattr(code, "co_qualname") else code.co_name] += 1
        method, url = (str(frame.f_locals.get(name)) for name in ("method", "url"))
        if code.co_name == "send" and "/jobs" in url and method not in self.frames:
            self.frames[method] = sum(each.f_code.co_filename.startswith(PACKAGE) for each in _stack(frame))


def _stack(frame: FrameType | None) -> list[FrameType]:
    found = []
    while frame is not None:
        found.append(frame)
        frame = frame.f_back
    return found


def _status() -> bool:
    """Run ``luigi-pai status`` of the job; return whether it shows that the job has succeeded."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
        main(["status", "calls"], standalone_mode=False)
    return shown.getvalue().startswith("calls  SUCCEEDED")


def _counting(part: Callable[[], object]) -> tuple[Count, object]:
    """Call a function, and return the calls in all threads and its result."""
    reset_clusters()
    count = Count()
    threading.setprofile(count)
    sys.setprofile(count)
    try:
        result = part()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return count, result


def counted(what: str, settings: dict[str, object]) -> dict[str, int]:
    """Run one part in this process, and count its calls."""
    config = luigi.configuration.get_config()
    for key, value in settings.items():
        config.set("OpenPai", key, str(value))
    if what == "point":
        few, many = (
            _counting(Sweep(first=count, count=count, parallel_jobs=MANY).run)[0] for count in (FEW, MANY)
        )
        many.calls.subtract(few.calls)
        count = Count()
        count.calls.update({key: n // (MANY - FEW) for key, n in many.calls.items() if n >= MANY - FEW})
        total = many.calls.total() // (MANY - FEW)
    else:
        count, result = _counting(_status if what == "status" else getattr(Job(), what))
        assert what == "run" or result, "the job has not succeeded"
        total = count.calls.total()
    if "--show" in sys.argv:
        for (file, name), number in count.calls.most_common():
            print(f"{number:5} {file.removeprefix(PACKAGE)}: {name}", file=sys.stderr)
    frames = count.frames.get("POST") or count.frames.get("GET", 0)
    return {"calls": total, "files": len({file for file, _ in count.calls}), "frames": frames}


def measure() -> tuple[dict[str, dict[str, int]], list[str]]:
    """Count each part in a separate process, and return the counts and the broken promises."""
    counts, broken = {}, []
    with LocalPai(api="v1", max_tasks=MANY) as server, tempfile.TemporaryDirectory() as folder:
        settings = {
            key: value for key, value in server.luigi_section.items() if key not in ("webhdfs_url", "fs_uri")
        }
        for what, limits in LIMITS.items():
            command = [
                sys.executable,
                str(Path(__file__).resolve()),
                "--part",
                what,
                json.dumps(settings),
                *sys.argv[1:],
            ]
            done = subprocess.run(
                command,
                stdout=subprocess.PIPE,
                text=True,
                check=True,
                timeout=120,
                cwd=folder,
                env={**os.environ, "XDG_STATE_HOME": folder},
            )
            counts[what] = json.loads(done.stdout.splitlines()[-1])
            broken += [
                f"{what} takes {counts[what][key]} {key}, promised at most {limit}"
                for key, limit in limits.items()
                if counts[what][key] > limit
            ]
    return counts, broken


def measured() -> int:
    if sys.argv[1:2] == ["--part"]:
        print(json.dumps(counted(sys.argv[2], json.loads(sys.argv[3]))))
        return 0
    counts, broken = measure()
    for what, numbers in counts.items():
        print(f"{what}: {numbers['calls']} calls in {numbers['files']} files", end="")
        print(f", {numbers['frames']} frames to its request" if numbers["frames"] else "")
    for failure in broken:
        print(f"broken: {failure}")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(measured())
