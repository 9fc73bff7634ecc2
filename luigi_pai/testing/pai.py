"""Pai: the value of the fixture ``pai``."""

from __future__ import annotations

from datetime import timedelta
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from luigi_pai.api.clock import Clock
from luigi_pai.config import OpenPai
from luigi_pai.config_file import clusters
from luigi_pai.errors import ConfigError
from luigi_pai.files import cluster_files

if TYPE_CHECKING:
    from luigi_pai.api.cluster import Cluster
    from luigi_pai.api.job import Job
    from luigi_pai.files import FileSystem
    from luigi_pai.local import LocalPai

_RETENTION = {"v1": timedelta(hours=12), "v2": timedelta(days=30)}
"""How long servers keep a job after its end."""

_TOO_MANY_REQUESTS = 429
_OTHER_PATHS = ("/api/", "/webhdfs/")


class MovedClock(Clock):
    """A clock that a test can move forward.

    Attributes:
        seconds: how far the clock is ahead of the real time.
    """

    def __init__(self) -> None:
        self.seconds = 0.0

    def time(self) -> float:
        """Return seconds since 1970 UTC."""
        return super().time() + self.seconds

    def monotonic(self) -> float:
        """Return the system's monotonic seconds plus ``seconds``."""
        return super().monotonic() + self.seconds


class Pai:
    """The OpenPAI of one test.

    Args:
        server: the local server.
        clock: the clock of the tasks.

    Attributes:
        server: the local server.
        url: URL of its rest-server.
    """

    def __init__(self, server: LocalPai, clock: MovedClock) -> None:
        self.server = server
        self.url = server.url
        self._clock = clock
        self._patterns: list[str] = []  # of all scripts
        self._forgotten: list[str] = []  # jobs that the server may have deleted

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.url}>"

    @property
    def cluster(self) -> Cluster:
        """The Cluster of the tasks."""
        return OpenPai.current().cluster()

    @property
    def files(self) -> FileSystem:
        """The file system of the tasks: HDFS on v1, a storage on v2."""
        return cluster_files()

    @property
    def submitted(self) -> list[str]:
        """The names of the jobs of this test, as their tasks have them, in the order of their submission."""
        return [job["name"] for job in self.server.jobs()]

    def job(self, name: str) -> Job:
        """Return the handle of a submitted job, which gives the job's status, logs and config.

        Raises:
            AssertionError: there is no such job; the message lists the jobs.
        """
        names, on_server = self.submitted, self.cluster.book.job_name
        if on_server(name, 1) in [on_server(submitted, 1) for submitted in names]:
            return self.cluster.job(on_server(name, 1))
        raise AssertionError(f"no job {name!r} was submitted; there are: {', '.join(names) or 'none'}")

    def when(self, pattern: str) -> When:
        """Let jobs whose names match a pattern follow a script instead of running their commands.

        Call a method of the returned object to say how these jobs end. If a name matches several scripts,
        the first one applies until ``times`` jobs have followed it; then the next one applies.

        Args:
            pattern: of names with ``*`` as a wildcard; ``train*`` also matches ``train__attempt2``.
        """
        self._patterns.append(pattern)
        return When(self.server, pattern)

    def unmatched(self) -> str:
        """Return a message that names the patterns of ``when`` that no job has matched; empty if none."""
        try:
            names = list(dict.fromkeys(self._forgotten + self.submitted)) if self._patterns else []
        except (ConfigError, OSError):  # the test has stopped the server
            return ""
        missed = [p for p in self._patterns if p != "*" and not any(fnmatchcase(n, p) for n in names)]
        scripts, listed = ", ".join(f"pai.when({p!r})" for p in missed), ", ".join(names) or "none"
        return f"{scripts} matched no job of this test; submitted: {listed}" if missed else ""

    def fail(self, method: str, path: str, *, status: int = 503, times: int | None = None) -> None:
        """Let requests fail.

        Args:
            method: of the requests, such as ``POST``.
            path: below ``/api/v1`` and ``/api/v2``, such as ``/jobs`` or ``/jobs/*``.
            status: of the replies; either 429, or from 500 to 599.
            times: number of requests that fail; None for all requests.

        Raises:
            ConfigError: an argument is not valid.
        """
        if not isinstance(path, str) or not path.startswith(("/", "*")) or path.startswith(_OTHER_PATHS):
            raise ConfigError(
                f"pai.fail: path = {path!r}: give what follows /api/v1 and /api/v2, such as '/jobs' or "
                "'/jobs/*'; pai.server.set_faults() is for other paths"
            )
        limit = status == _TOO_MANY_REQUESTS
        kind: dict[str, Any] = {"fault": "limit"} if limit else {"fault": "error", "status": status}
        new = {**kind, "method": str(method).upper(), "path": f"/api/*{path}", "count": times}
        self.server.set_faults([*map(_left_of, self.server.fault_counts()), new])

    def advance(self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0) -> None:
        """Move the clock of the tasks forward, and delete jobs on the server as real servers do.

        A v1 server deletes a job 12 hours after its end, a v2 server after 30 days. Running jobs are not
        affected.

        Raises:
            ConfigError: the arguments move the clock backwards.
        """
        moved = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        if moved < timedelta(0):
            raise ConfigError(f"pai.advance: {moved.total_seconds():g} s: the clock only moves forward")
        self._clock.seconds += moved.total_seconds()
        self._forgotten += self.submitted
        retention = _RETENTION[self.server.luigi_section["api_version"]]
        self.server.forget_jobs(self._clock.time() - retention.total_seconds())
        for name in (None, *clusters()):
            OpenPai.current(name).cluster().reset()


class When:
    """A script for the jobs whose names match a pattern.

    Args:
        server: the local server.
        pattern: of the jobs' names.
    """

    def __init__(self, server: LocalPai, pattern: str) -> None:
        self._server = server
        self._pattern = pattern

    def exits(
        self,
        code: int,
        *,
        stderr: str = "",
        stdout: str = "",
        after: float = 0.0,
        times: int | None = None,
    ) -> None:
        """Let every task end with an exit code.

        Args:
            code: the exit code of the command, 0 to 255; OpenPAI v2 reports most of these as 255.
            stderr: the standard error of the command, as text.
            stdout: the standard output of the command, as text.
            after: run time of each task in seconds.
            times: number of jobs that follow the script; None for all jobs.
        """
        self._add(exit_code=code, stderr=stderr, stdout=stdout, after=after, times=times)

    def succeeds(self, *, stdout: str = "", after: float = 0.0, times: int | None = None) -> None:
        """Let every task end with exit code 0, ``after`` seconds from its start."""
        self._add(exit_code=0, stdout=stdout, after=after, times=times)

    def runs(self, *, times: int | None = None) -> None:
        """Let every task run until the job is stopped."""
        self._add(after=None, times=times)

    def waits(self, *, times: int | None = None) -> None:
        """Let the job wait in the queue until it is stopped."""
        self._add(waits=True, times=times)

    def completes(self, *, after: float = 0.0, times: int | None = None) -> None:
        """Let the job succeed ``after`` seconds from the end of its tasks (v1 only).

        Meanwhile its state is COMPLETING, which the server reports as OpenPAI 0.10 to 0.14 do.
        """
        self._add(completing=True, after=after, times=times)

    def _add(self, **rule: Any) -> None:
        self._server.script_jobs(job=self._pattern, **rule)


def _left_of(rule: dict[str, Any]) -> dict[str, Any]:
    """Return a fault rule to be set again; its ``count`` is reduced by the requests that have failed."""
    counted = {"seen", "struck"}
    left = {key: value for key, value in rule.items() if key not in counted}
    if left["count"] is not None:
        left["count"] = max(0, left["count"] - rule["struck"])
    if not left["method"]:
        del left["method"]
    return left
