"""A search: each point is proposed from the results of those before, and poor ones are stopped early."""

import random
import statistics

import luigi
from fit_study import Fit

from luigi_pai import PaiSweep


class RandomStudy:
    """Asked for values, and told results, as a study of Optuna is: half random, half near the best."""

    def __init__(self, seed):
        self._chance = random.Random(seed)
        self._best = None

    def ask(self):
        if self._best is None or self._chance.random() < 0.5:
            rate = 10 ** self._chance.uniform(-3, 0)
        else:
            rate = self._best[1] * self._chance.uniform(0.5, 2)
        return {"rate": round(min(rate, 1.0), 5), "batch": self._chance.choice([2, 4, 8, 16, 32])}

    def tell(self, values, loss):
        if self._best is None or loss < self._best[0]:
            self._best = loss, values["rate"]


class OptunaStudy:
    """The same with Optuna (``pip install optuna``)."""

    def __init__(self, seed):
        import optuna

        self._study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
        self._trials = {}

    def ask(self):
        trial = self._study.ask()
        rate = round(trial.suggest_float("rate", 0.001, 1.0, log=True), 5)
        values = {"rate": rate, "batch": trial.suggest_categorical("batch", [2, 4, 8, 16, 32])}
        self._trials.setdefault((rate, values["batch"]), []).append(trial)
        return values

    def tell(self, values, loss):
        self._study.tell(self._trials[values["rate"], values["batch"]].pop(), loss)


class Search(PaiSweep):
    trials = luigi.IntParameter(default=30)
    seed = luigi.IntParameter(default=1)
    optuna = luigi.BoolParameter()
    parallel_jobs = 5
    tolerance = 3
    best = "min loss"

    def points(self):
        self.study = OptunaStudy(self.seed) if self.optuna else RandomStudy(self.seed)
        self.losses = {}  # step -> the losses of all points at that step
        for _ in range(self.trials):
            yield Fit(**self.study.ask())

    def tell(self, point, row):
        if row["state"] == "SUCCEEDED":
            self.study.tell({"rate": point.rate, "batch": point.batch}, row["loss"])

    def keep(self, point, reports):
        last = reports[-1]
        others = self.losses.setdefault(last["step"], {})
        others[point.name] = last["loss"]
        return len(others) < 5 or last["loss"] <= statistics.median(others.values())
