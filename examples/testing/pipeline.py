"""A small pipeline: a model for each learning rate, and a report that names the best one."""

from __future__ import annotations

import json

import luigi

from luigi_pai import PaiTask, TaskRole


class Train(PaiTask):
    """One training."""

    rate = luigi.FloatParameter()

    image = "openpai/pai.example.sklearn"
    runtime = True
    code_dir = "$PAI_DEFAULT_FS_URI/pipeline/code"

    @property
    def name(self):
        return f"train-{self.rate}"

    @property
    def tasks(self):
        return [TaskRole("main", f"python code/fit_line.py --rate {self.rate}", cpuNumber=4, memoryMB=8192)]

    @property
    def uploads(self):
        return {"code/": self.code_dir}


class Report(luigi.Task):
    """The best of all trainings."""

    rates = luigi.ListParameter(default=(0.1, 0.2))
    folder = luigi.Parameter(default=".")

    def requires(self):
        return [Train(rate=rate) for rate in self.rates]

    def output(self):
        return luigi.LocalTarget(f"{self.folder}/best.json")

    def run(self):
        results = []
        for folder in self.input():
            with (folder / "metrics.json").open() as file:
                results.append(json.load(file))
        with self.output().open("w") as file:
            json.dump(min(results, key=lambda result: result["loss"]), file)
