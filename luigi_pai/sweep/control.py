"""Control: what Luigi's scheduler tells a sweep while it runs, and what the sweep gives back to it."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

from luigi_pai.errors import PaiApiError, PaiError
from luigi_pai.sweep.arrays import check_cluster, check_points
from luigi_pai.tasks.messages import answered_within

if TYPE_CHECKING:
    from luigi_pai.api.clock import Clock
    from luigi_pai.sweep.engine import Engine
    from luigi_pai.sweep.limits import SweepLimits
    from luigi_pai.sweep.progress import Progress
    from luigi_pai.sweep.sources import Source
    from luigi_pai.sweep.sweep import PaiSweep
    from luigi_pai.tasks.luigi_page import LuigiPage

__all__ = ["RESOURCE", "Control"]

logger = logging.getLogger("luigi-interface")

RESOURCE = "pai"
"""Luigi's resource of which each job takes one."""

_LEAST_PAUSE = 0.001  # seconds; a message is read in them while there is always more to submit


class Control:
    """Answers messages of the scheduler to a sweep, and gives back its resource.

    Args:
        sweep: the task.
        limits: of the sweep; messages change them.
        engine, source, progress: of its run.
        page: of the task.
        clock: of the sweep.
    """

    def __init__(
        self,
        sweep: PaiSweep,
        limits: SweepLimits,
        engine: Engine,
        source: Source,
        progress: Progress,
        page: LuigiPage,
        clock: Clock,
    ) -> None:
        self._sweep = sweep
        self._name = sweep.name
        self._limits = limits
        self._engine = engine
        self._source = source
        self._progress = progress
        self._page = page
        self._clock = clock
        held = (sweep.resources or {}).get(RESOURCE)
        limits.resource = None if held is None else int(held)

    def pause(self, seconds: float) -> None:
        """Wait, until a message of the scheduler comes."""
        for _ in answered_within(self._sweep, max(seconds, _LEAST_PAUSE), self._clock, self._handle):
            return

    def give_back(self) -> None:
        """Give back what the sweep no longer needs of Luigi's resource."""
        held, callback = self._limits.resource, "decrease_running_resources"
        if held is None or self._source.total is None or not hasattr(self._sweep, callback):
            return
        left = self._source.left + self._engine.starting()
        needed = max(1, math.ceil(left / self._limits.points_per_job) + len(self._engine.watched()))
        if needed < held:
            self._limits.resource = needed
            if not self._page.report(callback, {RESOURCE: held - needed}):
                self._limits.resource = held

    def _handle(self, message: str) -> str:
        """Handle a message and return the response."""
        if message.lower() == "stop":
            text = self._engine.stop()
        elif message.lower() == "status":
            return self._progress.text(self._source.total)
        else:
            try:
                text = self._change(message)
            except (ValueError, PaiApiError) as error:
                return str(error)
        logger.info("%s: by message: %s", self._name, text)
        return text

    def _change(self, message: str) -> str:
        """Change a limit, and return what was done.

        Raises:
            ValueError: the message is not valid, or the points cannot share jobs; the limits are as before.
            PaiApiError: the cluster was to be asked whether they can, and does not answer.
        """
        before, points = self._limits.points_per_job, self._source.points
        text = self._limits.change(message)
        if self._limits.points_per_job > before == 1 and points:
            try:
                check_points(points)
                check_cluster(points[0])
            except PaiError:
                self._limits.points_per_job = before
                raise
        return text
