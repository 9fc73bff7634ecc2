"""A task as users write it, and Luigi's build of it."""

from __future__ import annotations

import luigi

from luigi_pai import PaiTask, TaskRole

__all__ = ["Command", "Train", "build"]


class Train(PaiTask):
    """A task as users write it."""

    name = luigi.Parameter(default="train")
    image = "openpai/pai.example.sklearn"
    tasks = [TaskRole("main", "python train.py", taskNumber=2)]


class Command(PaiTask):
    """A task with the command that a test gives it."""

    name = luigi.Parameter(default="train")
    command = luigi.Parameter(default="true", significant=False)
    number = luigi.IntParameter(default=1, significant=False)
    image = "python:3"
    role = "main"

    @property
    def tasks(self):
        return [TaskRole(self.role, self.command, self.number, memoryMB=100)]


def build(*tasks: luigi.Task, **how) -> bool:
    """Run tasks with Luigi's own scheduler."""
    return luigi.build(list(tasks), local_scheduler=True, log_level="WARNING", **how)
