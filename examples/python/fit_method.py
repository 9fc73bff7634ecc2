"""A line fitted in containers, one for each rate: nothing but this file is needed.

    luigi-pai local -- luigi-pai run fit_method Best --local-scheduler

On a cluster, configure it in luigi.cfg, leave out ``luigi-pai local --``, and choose an image whose Python is
of the minor version that runs this.
"""

import json
import sys

import luigi

from luigi_pai import PaiPythonTask, PaiSweep, grid

STEPS = 200


def points():
    """Return points near y = 3 x + 1."""
    return [(x / 10, 3 * x / 10 + 1 + (-1) ** x / 20) for x in range(20)]


class Fit(PaiPythonTask):
    """One training; it runs in the container."""

    rate = luigi.FloatParameter()

    image = f"python:3.{sys.version_info.minor}"
    memory_mb = 500

    def work(self):
        data, slope, offset = points(), 0.0, 0.0
        for step in range(1, STEPS + 1):
            errors = [slope * x + offset - y for x, y in data]
            slope -= (
                self.rate * sum(error * x for error, (x, _) in zip(errors, data, strict=True)) / len(data)
            )
            offset -= self.rate * sum(errors) / len(data)
            if step % 50 == 0:
                self.pai.report(step=step, steps=STEPS, loss=self.loss(errors))
        return {"slope": round(slope, 3), "offset": round(offset, 3), "loss": self.loss(errors)}

    def loss(self, errors):
        return round(sum(error**2 for error in errors) / len(errors), 6)


class Study(PaiSweep):
    """All rates."""

    parallel_jobs = 4
    best = "min loss"

    def points(self):
        return grid(Fit, rate=[0.03, 0.1, 0.3])


class Best(luigi.Task):
    """The row of the best rate."""

    def requires(self):
        return Study()

    def output(self):
        return luigi.LocalTarget("best.json")

    def run(self):
        rows = [row for row in self.requires().results.rows() if row["loss"] is not None]
        with self.output().open("w") as file:
            json.dump(min(rows, key=lambda row: row["loss"]), file)
