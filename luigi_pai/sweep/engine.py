"""Engine: starts the points of a sweep where places are free, and watches their jobs to the end."""

from __future__ import annotations

import contextlib
import logging
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from luigi_pai.api.retries import TRANSIENT
from luigi_pai.api.status import JobState
from luigi_pai.api.watching import Outcome, Update, Watcher
from luigi_pai.errors import ClusterUnreachable, JobNotFound, PaiApiError, PaiError
from luigi_pai.hdfs.errors import HdfsError
from luigi_pai.sweep.jobs import OF_ALL, Ended, Member, Point, first_line
from luigi_pai.sweep.journal import JournalClaims
from luigi_pai.sweep.starting import Pack, Started, begin, submit
from luigi_pai.sweep.user_code import user_error
from luigi_pai.sweep.workers import Start, Workers

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from luigi_pai.api.book.book import Book
    from luigi_pai.api.clock import Clock
    from luigi_pai.api.request_limits import Window
    from luigi_pai.api.status import JobStatus
    from luigi_pai.sweep.arrays import Arrays
    from luigi_pai.sweep.jobs import SweepJob
    from luigi_pai.sweep.journal import Journal
    from luigi_pai.sweep.limits import SweepLimits
    from luigi_pai.sweep.sources import Source

__all__ = ["Engine", "Listener"]

logger = logging.getLogger("luigi-interface")

_AT_ONCE = 8  # points or packs that are being started
_SLICE = 0.5  # seconds of starting, or of reading reports, before running jobs are looked up again
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 15.0  # seconds, while HDFS or the server does not answer
_REPORTS_EVERY = 10.0  # seconds between two readings of the reports of a job; containers send them as often
_CLAIMED_AGAIN = 1.0  # seconds until points are looked up again whose array may be on its way


class Listener(Protocol):
    """What a sweep reports its progress to."""

    def changed(self, job: SweepJob, point: Point, status: JobStatus) -> None:
        """Take the status of a point that waits or runs."""
        ...

    def ended(self, ended: Ended) -> Mapping[str, Any]:
        """Take the end of a point, and return its row of the table."""
        ...

    def retried(self, ended: Ended, most: int) -> None:
        """Take the failure of a point that will be submitted again, ``most`` times in all."""
        ...

    def failed_code(self, error: str, point: Point) -> None:
        """Take an error of the user's ``keep()``."""
        ...


class Engine:
    """Runs the points of a sweep. ``step()`` does what is due; it waits a twentieth of a second at most.

    Up to eight starts are on their way at once, in threads. While HDFS or the server does not answer there
    is one, so that an outage is met, and logged, once. A server's limit of submissions is kept.

    Args:
        source: of the points.
        limits: of the sweep; they may change at any time.
        clock: says when something is due.
        journal: of the sweep.
        arrays_of: returns the arrays of the sweep, which are on the cluster of a point.
        listener: gets every event.
        keep: called with a task and its reports while its job runs; False stops the job. None: no reports
            are read.

    Attributes:
        failed: the points that have failed, with their reasons, in the order of their ends.
        stopping: no more jobs are begun.
        book: that of the last cluster; None before the first.
    """

    def __init__(
        self,
        source: Source,
        limits: SweepLimits,
        clock: Clock,
        journal: Journal,
        arrays_of: Callable[[Point], Arrays],
        listener: Listener,
        keep: Callable[[Any, list[dict[str, Any]]], bool | None] | None = None,
    ) -> None:
        self.failed: list[Ended] = []
        self.stopping = False
        self.book: Book | None = None
        self._source = source
        self._limits = limits
        self._clock = clock
        self._journal = journal
        self._arrays_of = arrays_of
        self._listener = listener
        self._keep = keep
        self._workers = Workers()
        self._starts: dict[Start[Started], list[Member]] = {}
        self._packs: list[Pack] = []
        self._waiting: list[Member] = []  # for others to share a job with
        self._again: list[tuple[float, list[Member]]] = []  # to look up again, with the time
        self._claimed: dict[str, list[Member]] = {}  # for arrays that are not on the server
        self._watchers: dict[Hashable, Watcher] = {}
        self._jobs: dict[tuple[Hashable, str], SweepJob] = {}
        self._reports_due: dict[tuple[Hashable, str], float] = {}
        self._is_proven = False  # one start has come to its end
        self._outage: tuple[float, float, float] | None = None  # since, end of the pause, its length

    # for its user

    @property
    def done(self) -> bool:
        """Whether nothing runs, and nothing is left to begin."""
        if self._jobs or self._starts:
            return False
        return self.stopping or not (
            self._packs or self._waiting or self._again or not self._source.exhausted
        )

    @property
    def is_hopeless(self) -> bool:
        """Whether more points have failed than the tolerance will allow."""
        total = self._limits.max_points if self._source.total is None else self._source.total
        return len(self.failed) > self._limits.failures(total)

    @property
    def window(self) -> Window | None:
        """How many submissions the server takes, where that is known."""
        return None if self.book is None else self.book.api.submission_window()

    def watched(self) -> list[SweepJob]:
        """Return the jobs that wait or run."""
        return list(self._jobs.values())

    def starting(self) -> int:
        """Return the number of points that are being started."""
        return sum(map(len, self._starts.values()))

    def close(self) -> None:
        """Let the threads end."""
        self._workers.close()

    def stop(self) -> str:
        """Begin no more jobs, ask the server to stop those that wait or run, and return what was done."""
        self.stopping = True
        asked, problem, watched = 0, None, self.watched()
        for job in watched:
            error = _stop(job)
            asked += error is None
            problem = problem or error
            if isinstance(error, OF_ALL):  # each further request would fail, perhaps after a long time
                break
        text = f"{asked} job{'' if asked == 1 else 's'} asked to stop"
        if problem is None:
            return text
        return f"{text}; {len(watched) - asked} could not be: {first_line(problem)}"

    def idle(self) -> float:
        """Return the seconds until ``step()`` has something to do; infinity if nothing has."""
        if any(start.future is not None for start in self._starts):
            return 0.0
        now = self._clock.monotonic()
        waits = [watcher.idle() for watcher in self._watchers.values()]
        waits += [max(0.0, due - now) for due in self._reports_due.values()]
        waits += [max(0.0, start.due - now) for start in self._starts]
        waits += [max(0.0, due - now) for due, _ in self._again]
        if self._may_begin():
            waits.append(self._held_for())
        return min(waits, default=math.inf)

    def step(self) -> None:
        """Begin the jobs for which there are places, and look up those that are due.

        Raises:
            PaiError: the cluster cannot be reached, or refuses the user; what runs continues.
            ValueError: the search waits for points to end, and none runs.
        """
        self._begin()
        for key, watcher in self._watchers.items():
            for update in watcher.step():
                self._update(key, update)
        self._read_reports()

    # beginning

    def _may_begin(self) -> bool:
        """Return whether there is a place, and perhaps a point for it."""
        at_once = _AT_ONCE if self._is_proven and self._outage is None else 1
        busy = len(self._starts)
        if self.stopping or busy >= at_once or len(self._jobs) + busy >= self._limits.places:
            return False
        if self._packs or any(due <= self._clock.monotonic() for due, _ in self._again):
            return True
        return not (self._source.exhausted or self._source.waits) or self._is_last_pack()

    def _is_last_pack(self) -> bool:
        """Return whether points wait for others with which to share a job, and none come."""
        return bool(self._waiting) and not self._again and not self._starts and self._source.exhausted

    def _held_for(self) -> float:
        """Return the seconds for which the server takes no further submission, or does not answer."""
        window = self.window
        held = window.ends_in if window is not None and window.left <= len(self._starts) else 0.0
        pause = self._outage[1] - self._clock.monotonic() if self._outage is not None else 0.0
        return max(held, pause, 0.0)

    def _begin(self) -> None:
        end = self._clock.monotonic() + _SLICE
        while True:
            for start in [each for each in self._starts if each.future is not None and each.future.done()]:
                self._taken(start)
            while self._may_begin() and self._held_for() <= 0 and self._clock.monotonic() < end:
                self._start_next()
            now = self._clock.monotonic()
            for start in [each for each in self._starts if each.future is None and each.due <= now]:
                self._workers.take(start, sum(each.future is not None for each in self._starts) + 1)
            if not any(each.future is not None for each in self._starts):
                break
            self._workers.wait(self._starts)
            if self._clock.monotonic() >= end:
                break
        if self._source.waits and self._is_idle():
            raise ValueError("points() has yielded None, to wait for the end of a point, but none runs")

    def _is_idle(self) -> bool:
        return not (self._jobs or self._starts or self._packs or self._again or self._waiting)

    def _start_next(self) -> None:
        """Begin to submit the next pack, or to look up the next points."""
        now = self._clock.monotonic()
        due = next((each for each in self._again if each[0] <= now), None)
        if not self._packs and due is None and self._is_last_pack():
            self._pack(0)
        if self._packs:
            pack = self._packs.pop(0)
            arrays = self._arrays_of(pack.members[0].point)
            self.book = arrays.book
            self._starts[Start(submit(pack, arrays), now)] = pack.members
            return
        if due is not None:
            self._again.remove(due)
            self._look_up(due[1])
            return
        points: list[Point] = []
        try:
            self._draw(points)
        except (*TRANSIENT, HdfsError) as error:
            if self.book is None or not self._retries(error, points, self.book, now):
                raise
            return
        members = []
        for point in points:
            try:
                members.append(Member(point, JournalClaims(self._journal, point.name)))
            except OF_ALL:
                raise
            except Exception as error:  # noqa: BLE001  of this point's job, or of the user's own code
                self._fail(point, error)
        if members:
            self._look_up(members)

    def _look_up(self, members: list[Member]) -> None:
        arrays = self._arrays_of(members[0].point) if self._limits.points_per_job > 1 else None
        self.book = members[0].run.book if arrays is None else arrays.book
        self._starts[Start(begin(members, arrays), self._clock.monotonic())] = members

    def _draw(self, points: list[Point]) -> None:
        """Draw points for a job."""
        while len(points) < self._limits.points_per_job:
            drawn = self._source.draw()
            if drawn is None:
                break
            if isinstance(drawn, Ended):
                self._end(drawn)
            else:
                points.append(drawn)

    def _taken(self, start: Start[Started]) -> None:
        """Handle a step that was taken."""
        future, start.future = start.future, None
        members = self._starts[start]
        book = members[0].run.book
        assert future is not None
        try:
            start.due = self._clock.monotonic() + future.result()
        except (ClusterUnreachable, HdfsError) as error:  # other tasks may have given the server up just now
            del self._starts[start]
            if self._retries(error, [member.point for member in members], book, start.began):
                return
            if isinstance(error, ClusterUnreachable):
                raise
            self._fail_all(members, error)
        except OF_ALL:
            del self._starts[start]
            raise
        except Exception as error:  # noqa: BLE001  of the job, or of the user's own code
            del self._starts[start]
            self._fail_all(members, error)
        else:
            if start.result is not None:
                del self._starts[start]
                self._started(start.result)

    def _retries(self, error: PaiError, points: Sequence[Point], book: Book, began: float) -> bool:
        """Draw points again later: HDFS or the server does not answer. False for other errors, and too long.

        Args:
            error: what was raised for them.
            points: the points.
            book: of their cluster.
            began: when they were begun.
        """
        if not (error.transient if isinstance(error, HdfsError) else book.api.answered):
            return False
        now = self._clock.monotonic()
        since, until, pause = self._outage or (began, -math.inf, _FIRST_PAUSE / 2)
        limit = book.api.polling.patience
        if now - since >= limit:
            return False
        if self._outage is None:
            logger.warning("%s (retrying for up to %.0f s)", first_line(error), limit)
        if began >= until or self._outage is None:  # else it was on its way already
            pause = min(2 * pause, _LONGEST_PAUSE)
            self._outage = since, now + pause, pause
        for point in points:
            self._source.put_back(point)
        return True

    def _fail_all(self, members: Iterable[Member], error: Exception) -> None:
        for member in members:
            self._fail(member.point, error)

    def _fail(self, point: Point, error: Exception) -> None:
        logger.debug("A point cannot be begun", exc_info=error)
        text = first_line(error) if isinstance(error, PaiError) else user_error(error)
        self._end(Ended(point, "FAILED", error=text))

    def _started(self, started: Started) -> None:
        self._outage, self._is_proven = None, True
        for job in started.jobs:
            self._add(job)
        for ended in started.ended:
            self._end(ended)
        for member, error in started.failed:
            self._fail(member.point, error)
        if started.again:
            self._again.append((self._clock.monotonic(), started.again))
        for name, members in started.claimed.items():
            if self._arrays_of(members[0].point).is_on_its_way(name):
                self._claimed.setdefault(name, []).extend(members)
                self._again.append((self._clock.monotonic() + _CLAIMED_AGAIN, members))
            else:
                self._packs.append(Pack(self._with_others(members, name), name))
        self._waiting += started.to_submit
        self._pack(self._limits.points_per_job if self._source.fills_packs else 0)

    def _with_others(self, members: list[Member], name: str) -> list[Member]:
        """Return points that are claimed for an array with those that are to be looked up again for it."""
        others = [each for each in self._claimed.pop(name, []) if each not in members]
        waiting = [each for _, again in self._again for each in again if each in others]
        self._again = [(due, [each for each in again if each not in waiting]) for due, again in self._again]
        self._again = [(due, again) for due, again in self._again if again]
        return sorted([*members, *waiting], key=lambda member: member.point.index)

    def _pack(self, least: int) -> None:
        """Make packs of the points that wait, as long as there are so many."""
        size = self._limits.points_per_job
        while self._waiting and len(self._waiting) >= least:
            self._packs.append(Pack(self._waiting[:size]))
            self._waiting = self._waiting[size:]

    def _add(self, job: SweepJob) -> None:
        """Watch a job, or take its end."""
        if not job.status.finished or job.posted:
            job.announce()
        if job.status.finished:
            self._end_all(job, Update(job.name, job.status, Outcome.ENDED))
            return
        known = self._jobs.get((job.key, job.name))
        if known is not None:  # other points of this job were begun before
            known.members += job.members
        else:
            self._jobs[job.key, job.name] = job
            watcher = self._watchers.setdefault(job.key, Watcher(job.book, isolated=True))
            watcher.add(
                job.status,
                new=job.posted,
                with_tasks=job.shared,
                queue_timeout=job.options["queue_timeout"],
                run_timeout=job.options["run_timeout"],
            )
        self._changed(job, job.status)
        if self.stopping:  # while it was begun
            with contextlib.suppress(PaiApiError):
                job.book.api.stop_surely(job.name)

    # watching

    def _update(self, key: Hashable, update: Update) -> None:
        job = self._jobs[key, update.name]
        if update.outcome is Outcome.CHANGED:
            job.status = update.status
            self._end_all(job, update)
            self._changed(job, update.status)
            return
        del self._jobs[key, update.name]
        self._reports_due.pop((key, update.name), None)
        if update.error is None:
            self._end_all(job, update)
        elif isinstance(update.error, OF_ALL):
            raise update.error
        else:  # its lookup is refused; what becomes of it is not known
            self._fail_all(job.members, update.error)

    def _changed(self, job: SweepJob, status: JobStatus) -> None:
        for member, own in job.statuses(status):
            self._listener.changed(job, member.point, own)
        if job.shared:
            return
        now = self._clock.monotonic()
        if job.members[0].point.record.pruned:  # before a kill
            self._reports_due.setdefault((job.key, job.name), now)
        elif self._keep is not None and status.state is JobState.RUNNING:
            self._reports_due.setdefault((job.key, job.name), now + _REPORTS_EVERY)

    def _end_all(self, job: SweepJob, update: Update) -> None:
        kept = [member for member in job.members if self._has_attempts(member.point)]
        for ended in list(job.ended(update, kept)):
            if ended.state == "STOPPED" and ended.point.record.pruned:
                self._end(replace(ended, state="PRUNED", error=""))
            else:
                self._end(ended)

    def _has_attempts(self, point: Point) -> bool:
        return len(point.record.made) < self._most(point)

    def _most(self, point: Point) -> int:
        return max(self._limits.max_attempts, point.max_attempts)

    def _end(self, ended: Ended) -> None:
        if ended.may_retry and self._has_attempts(ended.point) and not self.stopping:
            ended.point.handled = max(ended.point.record.made, default=0)
            self._listener.retried(ended, self._most(ended.point))
            self._source.put_back(ended.point)
            return
        if ended.state not in ("SUCCEEDED", "PRUNED"):
            self.failed.append(ended)
        self._source.tell(ended.point, self._listener.ended(ended))

    # pruning

    def _read_reports(self) -> None:
        """Show the reports of running jobs to ``keep``, and stop those that it does not keep."""
        now = self._clock.monotonic()
        for key in [key for key, due in self._reports_due.items() if due <= now]:
            if self._clock.monotonic() > now + _SLICE:
                break
            job, point = self._jobs[key], self._jobs[key].members[0].point
            self._reports_due[key] = self._clock.monotonic() + _REPORTS_EVERY
            try:
                if not point.record.pruned:
                    if self._is_kept(point, job.reports()):
                        continue
                    self._journal.write({"event": "pruned", "point": point.name, "job": job.name})
            except (PaiError, OSError) as error:
                logger.debug("Job %s: its reports cannot be read: %s", job.name, error)
            else:
                if _stop(job) is None:
                    self._reports_due[key] = math.inf

    def _is_kept(self, point: Point, reports: list[dict[str, Any]]) -> bool:
        if not reports or self._keep is None:
            return True
        try:
            return self._keep(point.task, reports) is not False
        except Exception as error:  # noqa: BLE001  users' own code may raise anything
            self._listener.failed_code(user_error(error, "keep()"), point)
            return True


def _stop(job: SweepJob) -> PaiApiError | None:
    """Ask the server to stop a job, and return the error, if that failed."""
    try:
        job.book.api.stop(job.name)
    except JobNotFound:
        return None
    except PaiApiError as error:
        return error
    return None
