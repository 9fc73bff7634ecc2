"""Pai: the value of the ``pai`` fixture."""

from __future__ import annotations

from datetime import timedelta
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NoReturn

from luigi_pai.api.clock import Clock
from luigi_pai.config import OpenPai
from luigi_pai.config_file import clusters
from luigi_pai.errors import ConfigError
from luigi_pai.files import cluster_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from luigi_pai.api.cluster import Cluster
    from luigi_pai.api.job import Job
    from luigi_pai.files import FileSystem
    from luigi_pai.local import LocalPai

_RETENTION = {"v1": timedelta(hours=12), "v2": timedelta(days=30)}
"""How long servers keep a finished job."""

_TOO_MANY_REQUESTS = 429
_ANY_API = "/api/*"
_OTHER_PATHS = ("/api/", "/webhdfs/")


class MovedClock(Clock):
    """A clock that a test can move forward.

    Attributes:
        seconds: How far the clock is ahead of the real time.
    """

    def __init__(self) -> None:
        self.seconds = 0.0

    def time(self) -> float:
        """Return seconds since 1970 UTC."""
        return super().time() + self.seconds

    def monotonic(self) -> float:
        """Return the system's monotonic clock in seconds, plus ``seconds``."""
        return super().monotonic() + self.seconds


class Pai:
    """One test's OpenPAI.

    Args:
        server: The local server.
        clock: The tasks' clock.

    Attributes:
        server: The local server.
        url: The URL of its rest-server.
    """

    def __init__(self, server: LocalPai, clock: MovedClock) -> None:
        self.server = server
        self.url = server.url
        self._clock = clock
        self._scripts: list[When] = []
        self._paths: list[str] = []  # paths of the server's fault rules
        self._struck: set[int] = set()  # indices of the rules that made a request fail
        self._forgotten: list[str] = []  # jobs that the server may have deleted

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.url}>"

    @property
    def cluster(self) -> Cluster:
        """The tasks' Cluster."""
        return OpenPai.current().cluster()

    @property
    def files(self) -> FileSystem:
        """The tasks' file system: HDFS on v1, a storage on v2."""
        return cluster_files()

    @property
    def submitted(self) -> list[str]:
        """The names of this test's jobs, as in their tasks, in the order of submission."""
        return [job["name"] for job in self.server.jobs()]

    def job(self, name: str) -> Job:
        """Return the handle for a submitted job, which gives access to its status, logs and config.

        Raises:
            AssertionError: there is no such job; the message lists the jobs.
        """
        names, on_server = self.submitted, self.cluster.book.job_name
        if on_server(name, 1) in [on_server(submitted, 1) for submitted in names]:
            return self.cluster.job(on_server(name, 1))
        raise AssertionError(f"no job {name!r} was submitted; there are: {', '.join(names) or 'none'}")

    def when(self, pattern: str) -> When:
        """Make jobs whose names match a pattern follow a script instead of running their commands.

        Call a method on the returned object to define how these jobs end. If a name matches several scripts,
        the first one applies until ``times`` jobs have followed it, then the next one.

        Args:
            pattern: A job name with ``*`` as a wildcard; ``train*`` also matches ``train__attempt2``.
        """
        self._scripts.append(When(self.server, pattern, self.submitted))
        return self._scripts[-1]

    def unmatched(self) -> str:
        """Return a message that names each ``when`` and ``fail`` that had no effect; empty if none."""
        try:
            names = list(dict.fromkeys(self._forgotten + self.submitted)) if self._scripts else []
            faults = self._unused_faults() if self._paths else []
        except (ConfigError, OSError):  # the test stopped the server
            return ""
        missed = [script for script in self._scripts if not script.matched(names)]
        late = [] if self._forgotten else [script for script in self._scripts if script.is_late(names)]
        listed = ", ".join(names) or "none"
        problems = (
            (
                [s for s in self._scripts if s.is_empty],
                "has no effect; add .exits(1), .succeeds() or the like",
            ),
            (missed, f"matched no job of this test; submitted: {listed}"),
            (late, f"came after the jobs that it matches; call it before the task runs; submitted: {listed}"),
            (faults, "failed no request of this test; check the method and the path"),
        )
        return "\n".join(f"{', '.join(map(str, unused))} {why}" for unused, why in problems if unused)

    def fail(self, method: str, path: str, *, status: int = 503, times: int | None = None) -> None:
        """Make requests fail.

        Args:
            method: The requests' method, such as ``POST``.
            path: The path below ``/api/v1`` and ``/api/v2``, such as ``/jobs`` or ``/jobs/*``.
            status: The responses' status: 429, or 500 to 599.
            times: How many requests fail; None for all requests.

        Raises:
            ConfigError: an argument is invalid.
        """
        if not isinstance(path, str) or not path.startswith(("/", "*")) or path.startswith(_OTHER_PATHS):
            raise ConfigError(
                f"pai.fail: path = {path!r}: use the part after /api/v1 and /api/v2, such as '/jobs' or "
                "'/jobs/*'; pai.server.set_faults() is for other paths"
            )
        limit = status == _TOO_MANY_REQUESTS
        kind: dict[str, Any] = {"fault": "limit"} if limit else {"fault": "error", "status": status}
        new = {**kind, "method": str(method).upper(), "path": f"{_ANY_API}{path}", "count": times}
        self.server.set_faults([*map(_left_of, self._counted_faults()), new])
        if times == 0 or path == "*":
            self._struck.add(len(self._paths))
        self._paths.append(new["path"])

    def _counted_faults(self) -> list[dict[str, Any]]:
        """Return the server's fault rules, and record which of them made a request fail."""
        rules = self.server.fault_counts()
        paths = [rule["path"] for rule in rules]
        if paths != self._paths:  # the test called set_faults() itself, or restarted the server
            self._paths, self._struck = paths, set(range(len(paths)))
        self._struck |= {place for place, rule in enumerate(rules) if rule["struck"]}
        return rules

    def _unused_faults(self) -> list[str]:
        return [
            f"pai.fail({rule['method'][0]!r}, {rule['path'].removeprefix(_ANY_API)!r})"
            for place, rule in enumerate(self._counted_faults())
            if place not in self._struck
        ]

    def advance(
        self,
        *_unnamed: NoReturn,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
    ) -> None:
        """Move the tasks' clock forward, and delete old jobs on the server, as real servers do.

        A v1 server deletes a job 12 hours after it ends, a v2 server after 30 days. Running jobs are not
        affected.

        Raises:
            ConfigError: the arguments move the clock backwards.
            TypeError: an argument is not passed by name.
        """
        if _unnamed:
            raise TypeError("pai.advance() takes days, hours, minutes or seconds by name, such as days=31")
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
        server: The local server.
        pattern: The pattern for job names.
        earlier: The names of the jobs that were submitted earlier.
    """

    def __init__(self, server: LocalPai, pattern: str, earlier: Sequence[str] = ()) -> None:
        self._server = server
        self._pattern = pattern
        self._earlier = earlier
        self._limits: list[int | None] = []  # ``times`` of each way in which the jobs end

    def __str__(self) -> str:
        return f"pai.when({self._pattern!r})"

    @property
    def is_empty(self) -> bool:
        """Whether the script does not define how the jobs end."""
        return not self._limits

    def matched(self, names: Iterable[str]) -> bool:
        """Return whether the pattern matches one of these jobs; ``*`` matches even if there are none."""
        return self._pattern == "*" or any(fnmatchcase(name, self._pattern) for name in names)

    def is_late(self, names: Iterable[str]) -> bool:
        """Return whether all matching jobs among these were submitted before the script was defined."""
        return self.matched(names) and not self.matched(set(names).difference(self._earlier))

    def exits(
        self,
        code: int,
        *,
        stderr: str = "",
        stdout: str = "",
        after: float = 0.0,
        times: int | None = None,
    ) -> When:
        """Make every task exit with a code.

        Args:
            code: The command's exit code, 0 to 255; OpenPAI v2 reports most of these as 255.
            stderr: The command's standard error.
            stdout: The command's standard output.
            after: How long each task runs, in seconds.
            times: How many jobs follow the script; None for all jobs.
        """
        if not isinstance(code, int):
            raise TypeError(f"{self}.exits({code!r}): an exit code is a number, such as exits(1)")
        return self._add(exit_code=code, stderr=stderr, stdout=stdout, after=after, times=times)

    def succeeds(self, *, stdout: str = "", after: float = 0.0, times: int | None = None) -> When:
        """Make every task exit with code 0, ``after`` seconds after its start."""
        return self._add(exit_code=0, stdout=stdout, after=after, times=times)

    def runs(self, *, times: int | None = None) -> When:
        """Make every task run until the job is stopped."""
        return self._add(after=None, times=times)

    def waits(self, *, times: int | None = None) -> When:
        """Make the job wait in the queue until it is stopped."""
        return self._add(waits=True, times=times)

    def completes(self, *, after: float = 0.0, times: int | None = None) -> When:
        """Make the job succeed ``after`` seconds after its tasks end (v1 only).

        Until then, its state is COMPLETING, which the server reports like OpenPAI 0.10 to 0.14.
        """
        if self._server.luigi_section["api_version"] != "v1":
            raise ConfigError(
                f"{self}.completes(): only OpenPAI 0.10 to 0.14 (v1) report such jobs; mark the test with "
                "@pytest.mark.pai('v1'), or use .succeeds(after=...)"
            )
        return self._add(completing=True, after=after, times=times)

    def _add(self, *, times: int | None, **rule: Any) -> When:
        if None in self._limits:
            raise ConfigError(
                f"{self} already defines how all these jobs end; limit the first script, as in "
                ".exits(1, times=1).succeeds()"
            )
        self._server.script_jobs(job=self._pattern, times=times, **rule)
        self._limits.append(times)
        return self


def _left_of(rule: dict[str, Any]) -> dict[str, Any]:
    """Return a fault rule to set again: ``count`` is reduced by the requests that it made fail."""
    counted = {"seen", "struck"}
    left = {key: value for key, value in rule.items() if key not in counted}
    if left["count"] is not None:
        left["count"] = max(0, left["count"] - rule["struck"])
    if not left["method"]:
        del left["method"]
    return left
