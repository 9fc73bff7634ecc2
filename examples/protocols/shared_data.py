"""Data shared by two roles: defined once, prepared in every task, checked at its end.

Shows: a data prerequisite with its own commands, a script that it requires (roles need not list it), keys
of a prerequisite in its commands (``<% this.parameters.folder %>``), two roles that share it, a protocol in
Python.

In this folder::

    luigi-pai render shared_data CompareModels > compare.yaml
    luigi-pai validate compare.yaml
    luigi-pai render shared_data CompareModels --filled

    # on this machine, with generated digits
    python stand_in/digits.py /tmp/digits
    PYTHONPATH=. luigi-pai local -- luigi --module shared_data CompareModels --local-scheduler \\
        --source file:///tmp/digits --folder digits

    # on the cluster of luigi.cfg, with the digits of the UCI repository
    PYTHONPATH=. luigi --module shared_data CompareModels --local-scheduler
"""

from __future__ import annotations

import luigi
from sent_along import with_program

from luigi_pai import JobProtocol, PaiProtocolTask
from luigi_pai.jobspec.protocol import Completion, DockerImage, Extras, Prerequisite, Resources, Role


class CompareModels(PaiProtocolTask):
    """Train two models on the same handwritten digits, each in a role of its own."""

    source = luigi.Parameter(
        default="https://archive.ics.uci.edu/ml/machine-learning-databases/optdigits",
        description="where optdigits.tra and optdigits.tes are",
    )
    folder = luigi.Parameter(
        default="/dataset/digits",
        significant=False,
        description="where they go in each container; without a / in front, in its working folder",
    )

    @property
    def protocol(self) -> JobProtocol:
        return JobProtocol(
            "compare-models",
            prerequisites=[
                DockerImage("python", uri="python:3.10"),
                self.digits(),
                self.curl(),
            ],
            taskRoles={"centroids": self.role("centroids"), "neighbour": self.role("neighbour")},
            extras=Extras(storages=[]),
        )

    @staticmethod
    def curl() -> Prerequisite:
        return Prerequisite.cmd(
            "curl",
            on_start=["command -v curl || { apt-get update && apt-get install --yes curl; }"],
        )

    def digits(self) -> Prerequisite:
        return Prerequisite.cmd(
            "digits",
            type="data",
            uri=[f"{self.source}/optdigits.tra", f"{self.source}/optdigits.tes"],
            require=["curl"],
            more={"folder": self.folder},
            on_start=[
                "mkdir -p <% this.parameters.folder %>",
                "cd <% this.parameters.folder %>",
                "curl -fsS --retry 3 -o train.csv <% this.parameters.uri[0] %>",
                "curl -fsS --retry 3 -o test.csv <% this.parameters.uri[1] %>",
                "sha256sum train.csv test.csv > SHA256SUMS",
                "echo $(cat train.csv | wc -l) digits to learn from",
            ],
            on_success=[
                "cd <% this.parameters.folder %>",
                "sha256sum --check SHA256SUMS",  # a program that changes its data has learned from other ones
            ],
        )

    def role(self, model: str) -> Role:
        return Role(
            "python",
            commands=[with_program("shared_data_classify.py", f"{model} {self.folder}")],
            instances=1,
            prerequisites=["digits"],
            completion=Completion(minFailedInstances=1, minSucceededInstances=-1),  # the job waits for both
            resourcePerInstance=Resources(cpu=1, memoryMB=2048),
        )
