"""A task as users write it, and Luigi's build of it."""

from __future__ import annotations

import luigi

from luigi_pai import PaiTask, TaskRole

__all__ = ["Train", "build"]


class Train(PaiTask):
    """A task as users write it."""

    name = luigi.Parameter(default="train")
    image = "openpai/pai.example.sklearn"
    tasks = [TaskRole("main", "python train.py", taskNumber=2)]


def build(*tasks: luigi.Task, **how) -> bool:
    """Run tasks with Luigi's own scheduler."""
    return luigi.build(list(tasks), local_scheduler=True, log_level="WARNING", **how)
