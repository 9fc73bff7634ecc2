"""Compare the import of a pipeline with luigi_pai and ``import luigi, requests``.

The figures are CPU time (user and system) of fresh interpreters, so other load hardly matters. Each round
runs every statement once, in reverse order every other round. The ratios are taken within a round, and their
median counts. All modules come from bytecode, in a temporary folder.

Promise: importing luigi_pai takes at most a tenth more. If not, the exit code is 1. `luigi-pai --help` and
its base are shown without a promise. `--rounds N` shortens the run. `--profile` instead shows the modules
that a statement loads in addition to those of its base, and the time of each.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile

ROUNDS = 25
LIMIT = 1.1
BASE = "import luigi, requests"
PROMISED = (f"{BASE}; import luigi_pai", f"{BASE}; from luigi_pai import PaiTask, TaskRole")
HELP = "import sys; sys.argv = ['luigi-pai', '--help']; from luigi_pai.cli import main; main()"
STATEMENTS = (BASE, *PROMISED, f"{BASE}; import luigi.contrib.pai", "pass", HELP)
SHOWN = {HELP: "luigi-pai --help"}
PROFILED = {PROMISED[1]: BASE, HELP: "pass"}  # statement -> base
PROFILE_RUNS, PROFILE_ROWS = 5, 15


def run(statement: str, bytecode: str, *options: str) -> str:
    """Run a statement in a fresh interpreter, and return its stderr."""
    command = [sys.executable, *options, "-W", "ignore", "-c", statement]
    env = os.environ | {"PYTHONPYCACHEPREFIX": bytecode, "PYTHONDONTWRITEBYTECODE": ""}
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, env=env)
    return done.stderr


def cpu_seconds(statement: str, bytecode: str) -> float:
    """Return the CPU time of a fresh interpreter that runs a statement, including its start."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run(statement, bytecode)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(rounds: int, bytecode: str) -> float:
    """Print the table, and return the highest median ratio of the promised statements."""
    times: dict[str, list[float]] = {statement: [] for statement in STATEMENTS}
    for turn in range(rounds):
        for statement in STATEMENTS if turn % 2 else reversed(STATEMENTS):
            times[statement].append(cpu_seconds(statement, bytecode))
    ratios = {
        statement: statistics.median(own / base for own, base in zip(taken, times[BASE], strict=True))
        for statement, taken in times.items()
    }
    print(f"{'CPU ms':>7} {'ratio':>6}   medians of {rounds} fresh interpreters each")
    for statement, taken in times.items():
        figures = f"{statistics.median(taken) * 1000:7.1f} {ratios[statement]:6.3f}"
        print(f"{figures}   {SHOWN.get(statement, statement)}")
    return max(ratios[statement] for statement in PROMISED)


def profile(bytecode: str) -> None:
    """Print the packages and the slowest modules that the statements load in addition to their base."""
    for statement, base in PROFILED.items():
        rows = imported(statement, bytecode)
        for name in imported(base, bytecode):
            rows.pop(name, None)
        packages: dict[str, float] = {}
        for name, own in rows.items():
            package = name.partition(".")[0]
            packages[package] = packages.get(package, 0.0) + own
        title = SHOWN.get(statement, statement)
        print(f"\n{title}: {len(rows)} modules in addition to those of {base!r}, {sum(rows.values()):.1f} ms")
        for kind, times in (("package", packages), ("module", rows)):
            for name, own in sorted(times.items(), key=lambda row: -row[1])[:PROFILE_ROWS]:
                print(f"{own:7.1f}   {kind} {name}")


def imported(statement: str, bytecode: str) -> dict[str, float]:
    """Return the modules that a statement loads, with the milliseconds of each by itself.

    These are wall-clock times, so the shortest of several runs counts.
    """
    least: dict[str, float] = {}
    for _ in range(PROFILE_RUNS):
        for line in run(statement, bytecode, "-X", "importtime").splitlines():
            own, _, rest = line.removeprefix("import time:").partition("|")
            if own.strip().isdigit():
                name = rest.partition("|")[2].strip()
                least[name] = min(int(own) / 1000, least.get(name, math.inf))
    return least


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the CPU time of importing luigi_pai.")
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, help="fresh interpreters per statement (default: %(default)s)"
    )
    parser.add_argument("--profile", action="store_true", help="show the loaded modules instead")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as bytecode:
        for statement in STATEMENTS:
            run(statement, bytecode)  # writes the bytecode
        if asked.profile:
            profile(bytecode)
            return 0
        worst = measure(asked.rounds, bytecode)
    if worst > LIMIT:
        print(
            f"broken: importing luigi_pai takes {worst:.3f} times the CPU time of {BASE!r}, promised {LIMIT}"
        )
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
