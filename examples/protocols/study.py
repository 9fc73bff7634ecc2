"""A parameter study: one job for each learning rate and batch size, and a task that picks the best.

Shows: parameters of the protocol from Luigi parameters, a job for each set of them; results in a storage of
the cluster, which Luigi reads as local files; a protocol in Python with a program inside.

In this folder::

    luigi-pai render study Trial --rate 0.1 --batch-size 16

    # on this machine, where the storage is a folder of the data that ``luigi-pai local`` keeps
    PYTHONPATH=. luigi-pai local --data pai -- luigi --module study Best --local-scheduler --workers 4 \\
        --here pai/storages/nfs1

    # on the cluster of luigi.cfg: its storage nfs1 is mounted at /mnt/nfs1 here, too
    PYTHONPATH=. luigi --module study Best --local-scheduler --workers 12
"""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import luigi
from sent_along import with_program

from luigi_pai import JobProtocol, PaiProtocolTask
from luigi_pai.jobspec.protocol import DockerImage, Extras, Resources, Role, Storage


class Trial(PaiProtocolTask):
    """Train with one learning rate and one batch size."""

    rate = luigi.FloatParameter()
    batch_size = luigi.IntParameter()
    share = luigi.Parameter(default="/mnt/nfs1", description="the storage in the containers")
    here = luigi.Parameter(default="/mnt/nfs1", significant=False, description="the storage on this machine")

    @property
    def protocol(self) -> JobProtocol:
        command = with_program(
            "study_fit.py",
            "<% $parameters.rate %> <% $parameters.batch %> '<% $parameters.result %>'",
        )
        resources = Resources(cpu=1, memoryMB=1024)
        return JobProtocol(
            "study",
            prerequisites=[DockerImage("python", uri="python:3.10-slim")],
            taskRoles={"trial": Role("python", commands=[command], resourcePerInstance=resources)},
            extras=Extras(storages=[Storage("nfs1", mountPath=self.share)]),
        )

    @property
    def parameters(self) -> dict[str, Any]:
        return {"rate": self.rate, "batch": self.batch_size, "result": f"{self.share}/study/{self.name}.json"}

    def output(self) -> luigi.LocalTarget:
        return luigi.LocalTarget(Path(self.here) / "study" / f"{self.name}.json")


class Best(luigi.Task):
    """The trial with the smallest loss."""

    rates = luigi.ListParameter(default=(0.01, 0.1, 0.5))
    batch_sizes = luigi.ListParameter(default=(4, 32))
    here = luigi.Parameter(default="/mnt/nfs1", significant=False)

    def requires(self) -> list[Trial]:
        sets = product(self.rates, self.batch_sizes)
        return [Trial(rate=rate, batch_size=size, here=self.here) for rate, size in sets]

    def output(self) -> luigi.LocalTarget:
        return luigi.LocalTarget(Path(self.here) / "study" / f"best_{self.task_id[-10:]}.json")

    def run(self) -> None:
        results = [json.loads(Path(target.path).read_text()) for target in self.input()]
        best = min(results, key=lambda result: result["loss"])
        with self.output().open("w") as file:
            json.dump(best, file)
        print("best:", json.dumps(best))
