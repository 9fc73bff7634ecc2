"""How many of its own functions luigi_pai calls for one job, counted with ``sys.setprofile``.

In a fresh process each: ``run()`` of a job of 1 s, ``complete()`` of its task, and ``luigi-pai status`` of
the job, on `luigi-pai local` (0.7.1). A call is the start of a function of luigi_pai, or the resumption of a
generator, comprehensions aside; the frames are those of luigi_pai on the way from ``run()`` to the request
that posts the job. Counts, not times: they are the same on every machine, but for a lookup more or less.

Promised, and the exit code is 1 if not: the numbers of LIMITS.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import luigi

import luigi_pai
from luigi_pai import PaiTask, TaskRole, reset_clusters
from luigi_pai.cli import main
from luigi_pai.local import LocalPai

if TYPE_CHECKING:
    from types import FrameType

LIMITS = {
    "run": {"calls": 2600, "files": 63, "frames": 11},
    "complete": {"calls": 340, "files": 45},
    "status": {"calls": 330, "files": 42},
}
PACKAGE = str(Path(luigi_pai.__file__).parent)


class Job(PaiTask):
    """A job of 1 s."""

    name = "calls"
    image = "x"
    tasks: ClassVar = [TaskRole("main", "sleep 1", memoryMB=100)]


class Count:
    """Counts calls of luigi_pai's functions.

    Attributes:
        calls: by file and function.
        frames: how many of luigi_pai's frames were on the stack when a job was posted.
    """

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()
        self.frames = 0

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
        about = frame.f_locals
        if (
            code.co_name == "send"
            and about.get("method") == "POST"
            and str(about.get("url")).endswith("/jobs")
        ):
            self.frames = sum(each.f_code.co_filename.startswith(PACKAGE) for each in _stack(frame))


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


def counted(what: str, settings: dict[str, object]) -> dict[str, int]:
    """Run a part of a job's life in this process, and count the calls."""
    config = luigi.configuration.get_config()
    for key, value in settings.items():
        config.set("OpenPai", key, str(value))
    reset_clusters()
    count = Count()
    part = _status if what == "status" else getattr(Job(), what)
    sys.setprofile(count)
    try:
        result = part()
    finally:
        sys.setprofile(None)
    assert what == "run" or result, "the job has not succeeded"
    if "--show" in sys.argv:
        for (file, name), number in count.calls.most_common():
            print(f"{number:5} {file.removeprefix(PACKAGE)}: {name}", file=sys.stderr)
    files = {file for file, _ in count.calls}
    return {"calls": count.calls.total(), "files": len(files), "frames": count.frames}


def measure() -> tuple[dict[str, dict[str, int]], list[str]]:
    """Count each part in a process of its own; return the counts, and what is broken."""
    counts, broken = {}, []
    with LocalPai(api="v1") as server:
        settings = {
            key: value for key, value in server.luigi_section.items() if key not in ("webhdfs_url", "fs_uri")
        }
        for what, limits in LIMITS.items():
            command = [sys.executable, __file__, "--part", what, json.dumps(settings), *sys.argv[1:]]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=120)
            counts[what] = json.loads(done.stdout.splitlines()[-1])
            broken += [
                f"{what} takes {counts[what][key]} {key}, promised are {limit}"
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
        print(f", {numbers['frames']} frames to the POST" if numbers["frames"] else "")
    for failure in broken:
        print(f"broken: {failure}")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(measured())
