"""A search with Optuna: points are proposed from earlier results, and poor ones stopped early."""

import optuna
from fit_study import Fit

from luigi_pai.optuna import OptunaSweep


class Search(OptunaSweep):
    trials = 30
    parallel_jobs = 5
    tolerance = 3
    best = "min loss"

    def point(self, trial):
        rate = round(trial.suggest_float("rate", 0.001, 1.0, log=True), 5)
        return Fit(rate=rate, batch=trial.suggest_categorical("batch", [2, 4, 8, 16, 32]))

    def pruner(self):
        return optuna.pruners.MedianPruner(n_startup_trials=5)
