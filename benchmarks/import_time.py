"""How much longer a pipeline takes to import with luigi_pai, beside ``import luigi, requests``.

Fresh interpreters in turn, so that what else the machine does falls on all alike;
all modules from bytecode, kept in a folder of this run. Ends with 1 if luigi_pai
costs more than a tenth.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile

ROUNDS = 15
LIMIT = 1.1
BASE = "import luigi, requests"
STATEMENTS = (
    BASE,
    f"{BASE}; import luigi_pai",
    f"{BASE}; from luigi_pai import PaiTask, TaskRole",
    f"{BASE}; import luigi.contrib.pai",
)
SCRIPT = "import time; begin = time.perf_counter()\n{}\nprint(time.perf_counter() - begin)"


def seconds(statement: str, bytecode: str) -> float:
    """Return how long a statement takes in a fresh interpreter."""
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT.format(statement)]
    env = os.environ | {"PYTHONPYCACHEPREFIX": bytecode, "PYTHONDONTWRITEBYTECODE": ""}
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, env=env)
    return float(done.stdout)


def main() -> int:
    times: dict[str, list[float]] = {statement: [] for statement in STATEMENTS}
    with tempfile.TemporaryDirectory() as bytecode:
        for statement in STATEMENTS:
            seconds(statement, bytecode)  # writes the bytecode
        for _ in range(ROUNDS):
            for statement, taken in times.items():
                taken.append(seconds(statement, bytecode))
    least = {statement: min(taken) for statement, taken in times.items()}
    median = {statement: statistics.median(taken) for statement, taken in times.items()}
    print(f"{'min ms':>7} {'median':>7} {'ratio':>6} {'median':>6}  of {ROUNDS} fresh interpreters each")
    for statement in STATEMENTS:
        figures = f"{least[statement] * 1000:7.1f} {median[statement] * 1000:7.1f}"
        ratios = f"{least[statement] / least[BASE]:6.3f} {median[statement] / median[BASE]:6.3f}"
        print(f"{figures} {ratios}  {statement}")
    worst = max(least[statement] / least[BASE] for statement in STATEMENTS[1:3])
    print(f"luigi_pai: {worst:.3f} times {BASE!r} at most; the limit is {LIMIT}")
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
