"""Run all benchmarks, one after the other, and list the broken promises at the end.

A script prints a line `broken: ...` for each broken promise, and exits with 1. This command exits with 1 if
any script fails. `python benchmarks NAME ...` runs only the named scripts. A run of all scripts writes
docs/benchmarks.md.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
MARK = "broken: "


PAGE = {"many_jobs": ["--write"]}


def run(script: Path, options: list[str]) -> list[str]:
    """Run a script, show its output, and return its broken promises."""
    print(f"\n== {script.name}", flush=True)
    command = [sys.executable, str(script), *options]
    env = os.environ | {"PYTHONUNBUFFERED": "1"}
    broken = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, encoding="utf-8", env=env) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            if line.startswith(MARK):
                broken.append(line.removeprefix(MARK).strip())
    if process.returncode and not broken:
        broken.append(f"exited with {process.returncode}")
    return broken


def main(names: list[str]) -> int:
    scripts = sorted(path for path in HERE.glob("*.py") if not path.name.startswith("_"))
    known = {script.stem: script for script in scripts}
    asked = [name.removesuffix(".py") for name in names]
    if unknown := [name for name in asked if name not in known]:
        print(f"unknown benchmark: {', '.join(unknown)}; choose from: {', '.join(known)}", file=sys.stderr)
        return 2
    chosen = [known[name] for name in asked] or scripts
    broken = {script.name: run(script, [] if asked else PAGE.get(script.stem, [])) for script in chosen}
    print("\n== promises")
    for name, failures in broken.items():
        for failure in failures:
            print(f"{MARK}{name}: {failure}")
    failed = sum(bool(failures) for failures in broken.values())
    print(f"{len(broken) - failed} of {len(broken)} benchmarks keep their promises")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
