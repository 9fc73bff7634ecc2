"""OptunaSweep: a search whose points Optuna proposes (``pip install luigi-pai[optuna]``)."""

from __future__ import annotations

import abc
import logging
from typing import TYPE_CHECKING, Any

import luigi
import optuna
from optuna.trial import TrialState

from luigi_pai.errors import Problem, SpecError
from luigi_pai.sweep.sweep import PaiSweep
from luigi_pai.tasks.attributes import attribute

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from optuna.distributions import BaseDistribution
    from optuna.study import Study
    from optuna.trial import FrozenTrial

    from luigi_pai.tasks.job_task import JobTask

__all__ = ["OptunaSweep"]

logger = logging.getLogger("luigi-interface")

_DIRECTIONS = {"max": optuna.study.StudyDirection.MAXIMIZE, "min": optuna.study.StudyDirection.MINIMIZE}


class _Recorded(optuna.samplers.BaseSampler):
    """A sampler whose proposals for some trials are replaced by recorded ones. It draws in any case.

    Args:
        sampler: proposes.
        known: the parameters of trials by their number.
    """

    def __init__(self, sampler: optuna.samplers.BaseSampler, known: Mapping[int, Mapping[str, Any]]) -> None:
        self._sampler = sampler
        self._known = known

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self._sampler.infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        proposed = self._sampler.sample_relative(study, trial, search_space)
        known = self._known.get(trial.number, {})
        return {name: known.get(name, value) for name, value in proposed.items()}

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        proposed = self._sampler.sample_independent(study, trial, param_name, param_distribution)
        return self._known.get(trial.number, {}).get(param_name, proposed)

    def reseed_rng(self) -> None:
        self._sampler.reseed_rng()

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        self._sampler.before_trial(study, trial)

    def after_trial(
        self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        self._sampler.after_trial(study, trial, state, values)


class OptunaSweep(PaiSweep):
    """A search whose points Optuna proposes.

    Subclass it and define ``point``::

        class Search(OptunaSweep):
            trials = 100
            parallel_jobs = 4
            tolerance = 3
            best = "max accuracy"

            def point(self, trial):
                return Train(rate=trial.suggest_float("rate", 1e-4, 0.1, log=True))

    A point that has failed, or has no value in the column, is told as a failed trial. After a kill the study
    is made anew from the journal: its trials have the parameters that they had, whatever the sampler proposes
    now, and one with a seed goes on as it would have.
    """

    if TYPE_CHECKING:

        @attribute
        def trials(self) -> int:
            """How many points the study proposes."""
            ...

    else:
        trials = luigi.IntParameter(default=20, significant=False, description="points that are proposed")

    @attribute
    def direction(self) -> str | Sequence[str]:
        """``max COLUMN`` or ``min COLUMN``, or a list of them for several objectives; default: ``best``."""
        return self.best or ()

    @abc.abstractmethod
    def point(self, trial: optuna.Trial) -> JobTask:
        """Return the task of a trial, with what ``trial.suggest_float`` and the like return. Required."""
        ...

    def sampler(self) -> optuna.samplers.BaseSampler:
        """Return the sampler of the study; the default is a TPE sampler with a seed."""
        return optuna.samplers.TPESampler(seed=1, constant_liar=True)

    def pruner(self) -> optuna.pruners.BasePruner | None:
        """Return the pruner that ends poor points early; None, the default, for none.

        It gets the values that containers report in the first column of ``direction``, by their ``step``, or
        by the number of reports where they have none.
        """
        return None

    @property
    def prunes(self) -> bool:
        """Whether it ends points early."""
        return type(self).keep is not OptunaSweep.keep or self.pruner() is not None

    def points(self) -> Iterator[JobTask]:
        """Yield a point for each trial."""
        known = {note["trial"]: note["params"] for note in self.__dict__.pop("_notes", ()) if note}
        pruner = self.pruner() or optuna.pruners.NopPruner()
        directions = [_DIRECTIONS[kind] for kind, _ in self._objectives()]
        #: the Optuna study, once ``points()`` was called
        self.study = optuna.create_study(
            directions=directions, sampler=_Recorded(self.sampler(), known), pruner=pruner
        )
        self._open: dict[str, list[optuna.Trial]] = {}
        for _ in range(self.trials):
            trial = self.study.ask()
            task = self.point(trial)
            self._open.setdefault(task.task_id, []).append(trial)
            yield task

    def tell(self, point: Any, row: Mapping[str, Any]) -> None:
        """Tell the study how a trial has ended."""
        trials = self._open.get(point.task_id)
        if not trials:  # of an interrupted run, which proposed other points
            return
        trial = trials.pop(0)
        values = [row[column] for _, column in self._objectives()]
        if row["state"] == "PRUNED" and len(values) == 1:
            self.study.tell(trial, state=TrialState.PRUNED)
        elif row["state"] == "SUCCEEDED" and all(isinstance(value, (int, float)) for value in values):
            self.study.tell(trial, values)
        else:
            if row["state"] == "SUCCEEDED":
                columns = ", ".join(column for _, column in self._objectives())
                logger.warning("%s: %s has no number in %s; its trial has failed", self.name, point, columns)
            self.study.tell(trial, state=TrialState.FAIL)

    def keep(self, point: Any, reports: list[dict[str, Any]]) -> bool:
        """Report the values of a running point to its trial, and ask the pruner."""
        trials = self._open.get(point.task_id)
        if not trials:
            return True
        _, column = self._objectives()[0]
        known = self.study.trials[trials[0].number].intermediate_values
        for number, report in enumerate(reports):
            step, value = report.get("step", number), report.get(column)
            if isinstance(value, (int, float)) and int(step) not in known:
                trials[0].report(value, int(step))
        return not trials[0].should_prune()

    def _objectives(self) -> list[tuple[str, str]]:
        """Return ``max`` or ``min`` and the column of each objective.

        Raises:
            SpecError: there is none, or one is another text.
        """
        texts = [self.direction] if isinstance(self.direction, str) else list(self.direction)
        words = [tuple(str(text).split()) for text in texts]
        if not words or any(len(each) != 2 or each[0] not in _DIRECTIONS for each in words):  # noqa: PLR2004
            wrong = f"{self.direction!r} is not max or min and a column, such as 'max accuracy'; or set best"
            raise SpecError(self.name, [Problem("direction", wrong)], "sweep")
        return [(kind, column) for kind, column in words]

    @property
    def _budget(self) -> int:
        return int(self.trials)

    def _note(self, task: JobTask) -> Any:
        """Return the parameters of the trial that a task was made for."""
        trials = self._open.get(task.task_id)
        return {"trial": trials[-1].number, "params": trials[-1].params} if trials else None

    def _replay(self, notes: list[Any]) -> None:
        """Take the parameters of the trials that were proposed before a kill."""
        self._notes = notes
