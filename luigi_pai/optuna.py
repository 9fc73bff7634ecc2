"""OptunaSweep: a search whose points Optuna proposes. The ``optuna`` extra installs Optuna."""

from __future__ import annotations

import abc
import importlib.util
import logging
import re
import warnings
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import luigi

from luigi_pai.errors import MissingPackage, Problem

if importlib.util.find_spec("optuna") is None:
    raise MissingPackage("OptunaSweep needs Optuna: pip install optuna")

import optuna
from optuna.trial import TrialState

from luigi_pai.console import first_line
from luigi_pai.redaction import printable
from luigi_pai.sweep.rows import Best
from luigi_pai.sweep.sweep import PaiSweep
from luigi_pai.tasks.attributes import attribute
from luigi_pai.tasks.job_task import JobTask

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from optuna.distributions import BaseDistribution
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler
    from optuna.study import Study
    from optuna.trial import FrozenTrial


__all__ = ["OptunaSweep"]

logger = logging.getLogger("luigi-interface")

_LONGEST = 200  # maximum characters of an error to quote in a warning
_LARGEST = 10**300  # a larger number does not fit into a float
_STEP = re.compile(r"[0-9]{1,15}", re.ASCII)


class _Note(NamedTuple):
    """A trial in the journal.

    Attributes:
        trial: The trial's number.
        params: The trial's parameters.
        values: The trial's reported values by step.
    """

    trial: int
    params: Mapping[str, Any]
    values: Mapping[int, float]


def _repeating(sampler: BaseSampler, known: Mapping[int, Mapping[str, Any]], sweep: str) -> BaseSampler:
    """Make a sampler return the recorded parameters of trials that have any.

    The sampler still draws new parameters for these trials, so that its random state advances as for new
    trials. If a parameter's distribution does not contain the recorded value, the new value is used: the code
    may have changed, or others may have written the journal. The first such value is logged.

    Args:
        sampler: The sampler to change.
        known: A trial's number -> its recorded parameters.
        sweep: The sweep's name, for the log.
    """
    relative, independent = sampler.sample_relative, sampler.sample_independent
    refused: list[str] = []

    def recorded(trial: FrozenTrial, name: str, distribution: BaseDistribution, proposed: Any) -> Any:
        if name not in (params := known.get(trial.number, {})):
            return proposed
        try:
            value = distribution.to_external_repr(distribution.to_internal_repr(params[name]))
            optuna.trial.create_trial(value=0.0, params={name: value}, distributions={name: distribution})
        except (ValueError, TypeError, ArithmeticError, LookupError) as error:
            if not refused:
                logger.warning(
                    "%s: recorded parameters of trials are not used if point() does not suggest them now; "
                    "the first is %.40r of trial %d: %s",
                    sweep,
                    name,
                    trial.number,
                    printable(first_line(error))[:_LONGEST],
                )
            refused.append(name)
            return proposed
        return value

    def sample_relative(study: Study, trial: FrozenTrial, space: dict[str, Any]) -> dict[str, Any]:
        proposed = relative(study, trial, space)
        return {name: recorded(trial, name, space[name], value) for name, value in proposed.items()}

    def sample_independent(study: Study, trial: FrozenTrial, name: str, distribution: Any) -> Any:
        return recorded(trial, name, distribution, independent(study, trial, name, distribution))

    vars(sampler).update(sample_relative=sample_relative, sample_independent=sample_independent)
    return sampler


def _valid_notes(notes: Iterable[Any]) -> Iterator[_Note]:
    """Yield the valid notes on trials in a journal, without fields of other types."""
    for trial in (each for note in notes if isinstance(note, list) for each in note):
        number, params, values = (
            trial.get(key) if isinstance(trial, dict) else None for key in ("trial", "params", "values")
        )
        if isinstance(number, int) and isinstance(params, dict):
            reported = values.items() if isinstance(values, dict) else ()
            valid = {
                int(step): value for step, value in reported if _STEP.fullmatch(step) and _is_number(value)
            }
            yield _Note(number, params, valid)


def _is_number(value: object) -> bool:
    return isinstance(value, float) or (isinstance(value, int) and abs(value) < _LARGEST)


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

    A failed point, or a point without a number in a column of ``direction``, counts as a failed trial. If the
    process is killed, the next run rebuilds the study from the journal. Trials keep their recorded
    parameters, and a sampler with a seed continues as if nothing had happened.
    """

    trials: ClassVar[Any] = luigi.IntParameter(
        default=20, significant=False, description="number of proposed points"
    )

    @attribute
    def direction(self) -> str | Sequence[str]:
        """``max COLUMN`` or ``min COLUMN``, or a list of them for several objectives; default: ``best``."""
        return self.best or ()

    @abc.abstractmethod
    def point(self, trial: optuna.Trial) -> JobTask:
        """Return a trial's task, with values from ``trial.suggest_float`` and the like. Required."""
        ...

    def sampler(self) -> BaseSampler:
        """Return the study's sampler; the default is a TPE sampler with a seed."""
        with warnings.catch_warnings():  # before Optuna 5, constant_liar is experimental
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            return optuna.samplers.TPESampler(seed=1, constant_liar=True)

    def pruner(self) -> BasePruner | None:
        """Return the pruner that stops poor points early. The default is None: no point is stopped.

        The pruner receives the values reported for the first column of ``direction``, each with its report's
        ``step``, or with the report's number if the report has no ``step``.
        """
        return None

    @property
    def prunes(self) -> bool:
        """Whether the sweep may stop points early."""
        return type(self).keep is not OptunaSweep.keep or self.pruner() is not None

    def points(self) -> Iterator[JobTask]:
        """Yield a point for each trial."""
        self._open: dict[str, list[optuna.Trial]] = {}
        self._changed: dict[int, optuna.Trial] = {}  # trials with values that are not in the journal yet
        known = {note.trial: note for note in _valid_notes(self._recalled)}
        parameters = {number: note.params for number, note in known.items()}
        sampler = _repeating(self.sampler(), parameters, self.name)
        pruner = self.pruner() or optuna.pruners.NopPruner()
        log = logging.getLogger("optuna")
        level = log.level  # the user's level, for the user's own studies
        log.setLevel(max(log.getEffectiveLevel(), logging.WARNING))  # no "A new study created in memory"
        try:
            #: the Optuna study, which the first step of ``points()`` creates
            self.study = optuna.create_study(
                directions=["maximize" if each.sign > 0 else "minimize" for each in self._objectives],
                sampler=sampler,
                pruner=pruner,
            )
        finally:
            log.setLevel(level)
        for number in range(self.trials):
            trial = self.study.ask()
            task: Any = self.point(trial)
            if not isinstance(task, JobTask):
                raise TypeError(f"point() returned {task!r:.60}; return a task")
            if number == 1 and not trial.params:
                problem = "point() suggests no value with its trial, so all trials are the same point"
                logger.warning("%s: %s: call trial.suggest_float() or the like", self.name, problem)
            self._open.setdefault(task.task_id, []).append(trial)
            if number not in known:
                self._changed[number] = trial
            else:
                for step, value in known[number].values.items():
                    trial.report(value, step)
            yield task

    def tell(self, point: Any, row: Mapping[str, Any]) -> None:
        """Tell the study the result of a point's trial."""
        trials = self._open.get(point.task_id)
        if not trials:  # an interrupted run proposed this point, but this run did not
            return
        trial, succeeded = trials.pop(0), row["state"] == "SUCCEEDED"
        values = [row[each.column] for each in self._objectives]
        if succeeded and all(isinstance(value, (int, float)) for value in values):
            self.study.tell(trial, values)
            return
        if succeeded:
            columns = ", ".join(each.column for each in self._objectives)
            logger.warning("%s: %s has no number in %s; its trial has failed", self.name, point, columns)
        pruned = row["state"] == "PRUNED"
        self.study.tell(trial, state=TrialState.PRUNED if pruned else TrialState.FAIL)

    def keep(self, point: Any, reports: list[dict[str, Any]]) -> bool:
        """Report a running point's values to its trial; return False if the pruner stops the point."""
        trials = self._open.get(point.task_id)
        if not trials:
            return True
        trial, column = trials[0], self._objectives[0].column
        known = self._values(trial)
        for number, report in enumerate(reports):
            step, value = int(report.get("step", number)), report.get(column)
            if isinstance(value, (int, float)) and step not in known:
                trial.report(value, step)
                self._changed[trial.number] = trial
        return not trial.should_prune()

    @property
    def _objectives(self) -> list[Best]:
        """The columns to optimise."""
        directions = [self.direction] if isinstance(self.direction, str) else self.direction
        return [Best(direction) for direction in directions]

    def _values(self, trial: optuna.Trial) -> dict[int, float]:
        """Return a trial's reported values by step."""
        return self.study.trials[trial.number].intermediate_values

    # methods of PaiSweep

    _recalled: Sequence[Any] = ()

    def _problems(self) -> Iterable[Problem]:
        for name in ("sampler", "pruner"):
            if not callable(value := getattr(self, name)):
                problem = f"is a method: write def {name}(self): return {type(value).__name__}(...)"
                yield Problem(name, problem)
                return
        try:
            count = len(self._objectives)
        except ValueError as error:
            yield Problem("direction", str(error))
            return
        if not count:
            yield Problem("direction", "is missing; set it, such as 'max accuracy', or set best")
        if count > 1 and self.pruner() is not None:
            yield Problem("pruner", "Optuna only prunes searches with one objective; return None")

    @property
    def _budget(self) -> int:
        return int(self.trials)

    def _note(self) -> Any:
        """Return the parameters and reported values of trials that changed since the last call."""
        changed, self._changed = self._changed, {}
        return [
            {"trial": number, "params": trial.params, "values": self._values(trial)}
            for number, trial in changed.items()
        ]

    def _recall(self, notes: list[Any]) -> None:
        self._recalled = notes
