"""Horovod on several nodes: SSH between the tasks, a barrier before the start, InfiniBand.

Shows: the ssh plugin with its barrier, InfiniBand devices in the containers, options of NCCL as a
parameter, a check of each node before the start (a prerequisite with a callback), a role of workers that
wait for SSH, and a role whose end is the end of the job.

In this folder::

    luigi-pai validate horovod_job.yaml
    luigi-pai render horovod_job TrainHorovod --nodes 4
    luigi-pai render horovod_job TrainHorovod --nodes 4 --filled

    # on this machine; the stand-in starts nothing, but checks the barrier and prints its options
    PYTHONPATH=. luigi-pai local -- \\
        luigi --module horovod_job TrainHorovod --local-scheduler \\
        --launcher "python $PWD/stand_in/mpirun.py" --fabric true

    # on the cluster of luigi.cfg
    PYTHONPATH=. luigi --module horovod_job TrainHorovod --nodes 4 --local-scheduler
"""

from __future__ import annotations

from typing import Any

import luigi

from luigi_pai import JobProtocol, PaiProtocolTask


class TrainHorovod(PaiProtocolTask):
    """Run the benchmark on all GPUs of some nodes."""

    nodes = luigi.IntParameter(default=2)
    gpus = luigi.IntParameter(default=4, description="GPUs of each node")
    model = luigi.Parameter(default="resnet50")
    launcher = luigi.OptionalParameter(
        default=None, significant=False, description="what to run in place of mpirun"
    )
    fabric = luigi.OptionalParameter(
        default=None, significant=False, description="command that fails on a node without InfiniBand"
    )

    protocol = "horovod_job.yaml"

    @property
    def parameters(self) -> dict[str, Any]:
        tasks = ["master-0", *(f"worker-{index}" for index in range(self.nodes - 1))]
        values = {
            "model": self.model,
            "processes": self.nodes * self.gpus,
            "hosts": ",".join(f"{task}:{self.gpus}" for task in tasks),
            "launcher": self.launcher,
            "fabric": self.fabric,
        }
        return {name: value for name, value in values.items() if value is not None}

    def job(self) -> JobProtocol:
        job = super().job()
        job.taskRoles["worker"].instances = self.nodes - 1
        for role in job.taskRoles.values():
            role.resourcePerInstance.gpu = self.gpus
        return job
