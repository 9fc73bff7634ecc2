"""A pipeline of one task: ``one_task.py '{"command": ...}'`` runs it with Luigi."""

from __future__ import annotations

import json
import sys

import luigi

from luigi_pai import PaiTask, TaskRole

given = json.loads(sys.argv[1])


class Train(PaiTask):
    """A task as users write it."""

    name = "train"
    image = "x"
    tasks = [TaskRole("main", given["command"], memoryMB=100)]


if __name__ == "__main__":
    sys.exit(not luigi.build([Train()], local_scheduler=True, no_lock=True, log_level="INFO"))
