"""Searches of Optuna as users write them."""

from __future__ import annotations

import luigi
import optuna

from luigi_pai import PaiTask, TaskRole
from luigi_pai.optuna import OptunaSweep

__all__ = ["Fit", "Search", "Unseeded"]


class Fit(PaiTask):
    """A point, whose result has its best at 0.3."""

    x = luigi.FloatParameter()
    image = "python:3"
    tasks = [TaskRole("main", "python fit.py", memoryMB=100)]

    @property
    def name(self):
        return f"fit-{self.x:.9f}"

    def result(self):
        return {"loss": (self.x - 0.3) ** 2, "size": self.x}


class Search(OptunaSweep):
    """Ten points, four at a time."""

    trials = 10
    parallel_jobs = 4
    best = "min loss"
    results_dir = "results"

    def point(self, trial):
        return Fit(x=trial.suggest_float("x", 0, 1))


class Unseeded(Search):
    """With a sampler that proposes something else each time."""

    name = "Search"

    def sampler(self):
        return optuna.samplers.RandomSampler()
