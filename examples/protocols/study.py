"""A parameter study: one job for each learning rate and batch size, and a task that picks the best.

Shows: parameters of the protocol from Luigi parameters, a job for each set of them; results on a storage of
the cluster, which Luigi reads; a protocol in Python with a program inside.

In this folder::

    luigi-pai render study Trial --rate 0.1 --batch-size 16

    # on this machine, whose OpenPAI has a storage
    PYTHONPATH=. luigi-pai local -- luigi --module study Best --local-scheduler --workers 4

    # on the cluster of luigi.cfg, which has ``storage = NAME``
    PYTHONPATH=. luigi --module study Best --local-scheduler --workers 12
"""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import luigi
from sent_along import with_program

from luigi_pai import HdfsTarget, JobProtocol, PaiProtocolTask
from luigi_pai.jobspec.protocol import DockerImage, Resources, Role


class Trial(PaiProtocolTask):
    """Train with one learning rate and one batch size."""

    rate = luigi.FloatParameter()
    batch_size = luigi.IntParameter()

    @property
    def output_dir(self) -> str:
        return f"$PAI_DEFAULT_FS_URI/study/{self.name}"

    @property
    def protocol(self) -> JobProtocol:
        command = with_program(
            "study_fit.py",
            '<% $parameters.rate %> <% $parameters.batch %> "$PAI_OUTPUT_DIR/result.json"',
        )
        resources = Resources(cpu=1, memoryMB=1024)
        return JobProtocol(
            "study",
            prerequisites=[DockerImage("python", uri="python:3.10-slim")],
            taskRoles={"trial": Role("python", commands=[command], resourcePerInstance=resources)},
        )

    @property
    def parameters(self) -> dict[str, Any]:
        return {"rate": self.rate, "batch": self.batch_size}

    def output(self) -> HdfsTarget:
        return HdfsTarget(f"{self.output_dir}/result.json")


class Best(luigi.Task):
    """The trial with the smallest loss."""

    rates = luigi.ListParameter(default=(0.01, 0.1, 0.5))
    batch_sizes = luigi.ListParameter(default=(4, 32))
    folder = luigi.Parameter(default=".", significant=False)

    def requires(self) -> list[Trial]:
        sets = product(self.rates, self.batch_sizes)
        return [Trial(rate=rate, batch_size=size) for rate, size in sets]

    def output(self) -> luigi.LocalTarget:
        return luigi.LocalTarget(f"{self.folder}/best_{self.task_id[-10:]}.json")

    def run(self) -> None:
        results = []
        for trial in self.input():
            with trial.open() as file:
                results.append(json.load(file))
        best = min(results, key=lambda result: result["loss"])
        with self.output().open("w") as file:
            json.dump(best, file)
        print("best:", json.dumps(best))
