"""Distributed TensorFlow: parameter servers and workers that find each other by their reserved ports.

Shows: two roles, reserved ports, host lists and TF_CONFIG from the environment, completion (when the workers
have succeeded, the job has, and the servers are stopped), a protocol in a file (tensorflow_job.yaml) with
parameters and numbers of instances from Luigi parameters.

In this folder::

    luigi-pai validate tensorflow_job.yaml
    luigi-pai render tensorflow_job TrainDistributed --instances 4
    luigi-pai render tensorflow_job TrainDistributed --instances 4 --filled

    # on this machine; the stand-in trains a model of four numbers over the same ports
    PYTHONPATH=. luigi-pai local -- \\
        luigi --module tensorflow_job Scaling --local-scheduler \\
        --program "python $PWD/stand_in/parameter_server.py"

    # on the cluster of luigi.cfg
    PYTHONPATH=. luigi --module tensorflow_job Scaling --local-scheduler
"""

from __future__ import annotations

from typing import Any

import luigi

from luigi_pai import JobProtocol, PaiProtocolTask


class TrainDistributed(PaiProtocolTask):
    """Train with some workers and parameter servers."""

    instances = luigi.IntParameter(default=2, description="workers")  # --workers is an option of Luigi's own
    servers = luigi.IntParameter(default=1)
    steps = luigi.IntParameter(default=200)
    program = luigi.OptionalParameter(
        default=None, significant=False, description="what to run in place of TensorFlow's benchmarks"
    )

    protocol = "tensorflow_job.yaml"

    @property
    def parameters(self) -> dict[str, Any]:
        instead = {} if self.program is None else {"fetch": "true", "program": self.program}
        return {"steps": self.steps, **instead}

    def job(self) -> JobProtocol:
        job = super().job()
        job.taskRoles["ps"].instances = self.servers
        job.taskRoles["worker"].instances = self.instances
        job.taskRoles["worker"].completion.minSucceededInstances = self.instances
        return job


class Scaling(luigi.WrapperTask):
    """The same training with one worker, and with more."""

    instances = luigi.ListParameter(default=(1, 2), description="numbers of workers")
    program = luigi.OptionalParameter(default=None, significant=False)

    def requires(self) -> list[luigi.Task]:
        return [TrainDistributed(instances=instances, program=self.program) for instances in self.instances]
