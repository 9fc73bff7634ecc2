"""A study of 30 points: which learning rate and batch size fit best."""

import json

import luigi

from luigi_pai import PaiSweep, PaiTask, TaskRole, grid


class Fit(PaiTask):
    rate = luigi.FloatParameter()
    batch = luigi.IntParameter()
    image = "openpai/pai.example.sklearn"  # has Python
    runtime = True
    uploads = {"train_line.py": "$PAI_DEFAULT_FS_URI/fit/code/train_line.py"}
    code_dir = "$PAI_DEFAULT_FS_URI/fit/code"

    @property
    def name(self):
        return f"fit_{self.rate}_{self.batch}"

    @property
    def tasks(self):
        fit = f"python3 code/train_line.py {self.rate} {self.batch}"
        return [TaskRole("main", f"{fit} && hdfs dfs -put -f metrics.json $PAI_OUTPUT_DIR/")]


class Study(PaiSweep):
    rates = [0.003, 0.01, 0.03, 0.1, 0.3, 1.0]
    batches = [2, 4, 8, 16, 32]
    parallel_jobs = 10
    max_attempts = 2
    best = "min loss"

    def points(self):
        return grid(Fit, rate=self.rates, batch=self.batches)


class Best(luigi.Task):
    def requires(self):
        return Study()

    def output(self):
        return luigi.LocalTarget("best.json")

    def run(self):
        rows = [row for row in self.requires().results.rows() if row["loss"] is not None]
        best = min(rows, key=lambda row: row["loss"])
        with self.output().open("w") as file:
            json.dump(best, file)
