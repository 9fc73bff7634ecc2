"""A parameter study: one job for each learning rate and batch size, and a task that picks the best.

Shows: parameters of the protocol from Luigi parameters, a job for each set of them; a secret from an
environment variable; results in a storage of the cluster, which Luigi reads as local files; a protocol in
Python with a program inside.

The jobs sign their results with the secret, and ``Best`` checks the signatures: everybody may write to a
shared folder. The secret is sent in base64, because the runtimes of OpenPAI 0.17 to 1.8 escape
``& < > " '`` in secrets as HTML, and because base64 is safe between quotes.

In this folder::

    export STUDY_KEY=...
    luigi-pai render study Trial --rate 0.1 --batch-size 16 > trial.yaml
    luigi-pai validate trial.yaml
    luigi-pai render study Trial --rate 0.1 --batch-size 16 --filled

    # on this machine
    PYTHONPATH=. luigi-pai local -- luigi --module study Study --local-scheduler --workers 4 \\
        --share /tmp/study

    # on the cluster of luigi.cfg: its storage nfs1 is mounted at /mnt/nfs1 here, too
    PYTHONPATH=. luigi --module study Study --local-scheduler --workers 12 --storage nfs1 --share /mnt/nfs1

``luigi-pai local`` has no containers: paths of jobs are paths of this machine, so ``--share`` is any folder.
"""

from __future__ import annotations

import base64
import hmac
import json
import os
from itertools import product
from pathlib import Path
from typing import Any

import luigi
from sent_along import with_program
from study_fit import signature

from luigi_pai import ConfigError, JobProtocol, PaiProtocolTask
from luigi_pai.spec.protocol import DockerImage, Extras, Resources, Role, Storage


def study_key() -> str:
    """Return what results are signed with."""
    key = os.environ.get("STUDY_KEY")
    if not key:
        raise ConfigError("set STUDY_KEY in the environment: the results are signed with it")
    return key


class Trial(PaiProtocolTask):
    """Train with one learning rate and one batch size."""

    rate = luigi.FloatParameter()
    batch_size = luigi.IntParameter()
    steps = luigi.IntParameter(default=200)
    storage = luigi.Parameter(default="nfs1", significant=False, description="storage of the cluster")
    share = luigi.Parameter(default="/mnt/nfs1", description="where it is, in the containers and here")

    @property
    def protocol(self) -> JobProtocol:
        command = with_program(
            "study_fit.py",
            "--rate <% $parameters.rate %> --batch <% $parameters.batch %> --steps <% $parameters.steps %>"
            " --result '<% $parameters.result %>'",
        )
        return JobProtocol(
            "study",
            prerequisites=[DockerImage("python", uri="python:3.10-slim")],
            taskRoles={
                "trial": Role(
                    "python",
                    commands=[
                        "STUDY_KEY=$(echo '<% $secrets.key %>' | base64 --decode)",
                        "export STUDY_KEY",
                        command,
                    ],
                    instances=1,
                    resourcePerInstance=Resources(cpu=1, memoryMB=1024),
                )
            },
            extras=Extras(storages=[Storage(self.storage, mountPath=self.share)]),
        )

    @property
    def parameters(self) -> dict[str, Any]:
        return {
            "rate": self.rate,
            "batch": self.batch_size,
            "steps": self.steps,
            "result": self.output().path,
        }

    @property
    def secrets(self) -> dict[str, str]:
        return {"key": base64.b64encode(study_key().encode()).decode()}

    def output(self) -> luigi.LocalTarget:
        return luigi.LocalTarget(Path(self.share) / "study" / f"{self.name}.json")


class Best(luigi.Task):
    """Pick the trial with the smallest loss."""

    rates = luigi.ListParameter()
    batch_sizes = luigi.ListParameter()
    storage = luigi.Parameter(significant=False)
    share = luigi.Parameter()

    def requires(self) -> list[luigi.Task]:
        return [
            Trial(rate=rate, batch_size=batch_size, storage=self.storage, share=self.share)
            for rate, batch_size in product(self.rates, self.batch_sizes)
        ]

    def output(self) -> luigi.LocalTarget:
        return luigi.LocalTarget(Path(self.share) / "study" / f"best_{self.task_id[-10:]}.json")

    def run(self) -> None:
        results = [read(target) for target in self.input()]
        best = min(results, key=lambda result: result["loss"])
        with self.output().open("w") as file:
            json.dump(best, file)


def read(target: luigi.LocalTarget) -> dict[str, Any]:
    """Return the result of a trial, without its signature."""
    with target.open() as file:
        result: dict[str, Any] = json.load(file)
    signed = result.pop("signature")
    if not hmac.compare_digest(signed, signature(result, study_key())):
        raise ValueError(f"{target.path} is not signed with STUDY_KEY")
    return result


class Study(luigi.WrapperTask):
    """The whole study."""

    rates = luigi.ListParameter(default=(0.01, 0.1, 0.5))
    batch_sizes = luigi.ListParameter(default=(4, 32))
    storage = luigi.Parameter(default="nfs1", significant=False)
    share = luigi.Parameter(default="/mnt/nfs1")

    def requires(self) -> Best:
        return Best(rates=self.rates, batch_sizes=self.batch_sizes, storage=self.storage, share=self.share)


@Study.event_handler(luigi.Event.SUCCESS)
def close(task: Study) -> None:
    """Say what is best."""
    with task.requires().output().open() as file:
        best = json.load(file)
    print(f"best: rate {best['rate']}, batch {best['batch']}: loss {best['loss']}")
