"""Stands in for mpirun in horovod_job.yaml on the local OpenPAI: says what it would start, and where.

It fails if a task that it would reach over SSH has not come up: that is what the barrier is for. There is no
SSH between the tasks on one machine; the plugin leaves a mark in the folder of each task that is up.
"""

from __future__ import annotations

import os
import sys
from itertools import pairwise
from pathlib import Path


def after(option: str, arguments: list[str]) -> list[str]:
    """Return what follows each occurrence of an option."""
    return [value for name, value in pairwise(arguments) if name == option]


def main() -> None:
    arguments = sys.argv[1:]
    slots = dict(host.split(":") for host in after("-H", arguments)[0].split(","))
    (processes,) = after("-np", arguments)
    if int(processes) != sum(map(int, slots.values())):
        sys.exit(f"-np {processes} are not the slots of {slots}")
    tasks = Path(os.environ["PAI_WORK_DIR"]).parent.parent
    missing = [task for task in slots if not (tasks / task / "ssh-ready").exists()]
    if missing:
        sys.exit(f"started before {', '.join(missing)}: the barrier did not hold")
    print(f"{processes} processes on {', '.join(slots)}: all of them are up")
    for variable in after("-x", arguments):
        if variable.startswith("NCCL_"):
            print(variable)
    print("would run:", " ".join(arguments[arguments.index("python") :]))


if __name__ == "__main__":
    main()
