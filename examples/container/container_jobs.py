"""Jobs whose scripts use pai_runtime: checkpoints, and several workers of torch, TensorFlow and MPI.

In this folder:

    luigi-pai local -- luigi-pai run container_jobs All --local-scheduler

runs them on this machine. A cluster needs images with what the scripts use: Python 3.6 or later, the
``hdfs`` command and, for AllReduce, torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import luigi

from luigi_pai import PaiTask, TaskRole

if TYPE_CHECKING:
    from collections.abc import Mapping


class ContainerTask(PaiTask):
    """A task whose code folder is ``code/``, with pai_runtime.py in it."""

    image = luigi.Parameter(default="python:3", significant=False)
    runtime = True
    uploads: Mapping[str, str] = {"code/": "$PAI_DEFAULT_FS_URI/container-examples/code"}
    code_dir = "$PAI_DEFAULT_FS_URI/container-examples/code"


class Train(ContainerTask):
    """A training that saves checkpoints, and continues from the last one."""

    name = luigi.Parameter(default="container-train")
    steps = luigi.IntParameter(default=20)
    stop_at = luigi.IntParameter(default=0, significant=False)

    @property
    def tasks(self) -> list[TaskRole]:
        """The first submission fails at step ``stop_at``, as if it were killed there."""
        command = f"python code/count_up.py --steps {self.steps} --stop-at {self.stop_at}"
        return [TaskRole("main", command, memoryMB=1024)]


class AllReduce(ContainerTask):
    """Two workers that add up their gradients: with torch (gloo) if it is installed, else with sockets."""

    name = "container-all-reduce"
    tasks = (TaskRole("worker", "python code/all_reduce.py", 2, memoryMB=1024, minSucceededTaskCount=2),)


class Cluster(ContainerTask):
    """Parameter servers and workers that find each other by TF_CONFIG, and an MPI host list."""

    name = "container-cluster"

    @property
    def tasks(self) -> list[TaskRole]:
        """Two roles; the job is done when both workers are."""
        return [
            TaskRole("ps", "python code/cluster.py", 1, memoryMB=512),
            TaskRole("worker", "python code/cluster.py", 2, memoryMB=512),
        ]


class All(luigi.WrapperTask):
    """All of them."""

    def requires(self) -> list[PaiTask]:
        """Return one of each."""
        return [Train(), AllReduce(), Cluster()]
