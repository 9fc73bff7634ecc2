"""Train with three learning rates, a job each, and pick the best.

In this folder, on an OpenPAI of this machine::

    PYTHONPATH=. luigi-pai local -- luigi --module rates Best --local-scheduler --workers 3

Without ``luigi-pai local --`` it runs on the cluster of luigi.cfg.
"""

import json

import luigi

from luigi_pai import PaiTask, TaskRole


class Train(PaiTask):
    """One job. Its code is uploaded to the cluster first, and its results are read back from there."""

    rate = luigi.FloatParameter()

    image = "openpai/pai.example.tensorflow"
    code_dir = "$PAI_DEFAULT_FS_URI/rates/code"
    uploads = {"code/": code_dir}

    @property
    def name(self):
        return f"rates-{self.rate}".replace(".", "_")

    @property
    def tasks(self):
        command = f"python code/fit.py {self.rate} && hdfs dfs -put -f metrics.json $PAI_OUTPUT_DIR/"
        return [TaskRole("worker", command, cpuNumber=4, memoryMB=8192, gpuNumber=1)]


class Best(luigi.Task):
    """The metrics of the best job."""

    def requires(self):
        return [Train(rate=rate) for rate in (0.1, 0.01, 0.001)]

    def output(self):
        return luigi.LocalTarget("best.json")

    def run(self):
        results = []
        for folder in self.input():  # the output folder of each job
            with (folder / "metrics.json").open() as file:
                results.append(json.load(file))
        with self.output().open("w") as file:
            json.dump(max(results, key=lambda result: result["accuracy"]), file)
