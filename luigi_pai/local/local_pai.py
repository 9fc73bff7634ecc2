"""`LocalPai` runs a local server in another process, for use in tests."""

from __future__ import annotations

import http
import http.client
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from luigi_pai.errors import ConfigError
from luigi_pai.local.config.rules import CONTENTS_PATH, FAULTS_PATH, JOB_SCRIPTS_PATH
from luigi_pai.local.config.settings import (
    DEFAULT_API,
    DEFAULT_USER,
    PASSWORD_VARIABLE,
    Address,
    HdfsAddress,
    Settings,
    whereabouts,
)
from luigi_pai.local.container.processes import kill_all_under
from luigi_pai.local.luigi_config import open_pai_section

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Self

__all__ = ["LocalPai"]

_START_SECONDS = 30.0
_STOP_SECONDS = 20.0
_LOG_LINES = 10
# unlike ``python -m``, import nothing from the current folder, which may contain a ``json.py``
_START = "import sys; sys.path[:] = filter(None, sys.path)"
_SERVE = f"{_START}; from luigi_pai.local.serve import main; sys.exit(main())"


class LocalPai:
    """An OpenPAI server on a local port, started when you enter the ``with`` block.

    The server stops when the block or this process ends, even if this process is killed.

    Args:
        data: the data folder; None for a temporary one, which is removed at the end.
        port: the port; 0 for any free port. A restart keeps the port.
        username: the administrator's name.
        password: the administrator's password; None for a new random password.
        virtual_clusters: ``NAME`` or ``NAME:cpu=N,memory=MB,gpu=N``, in addition to ``default``. Counts
            default to 64 CPUs, 262144 MB of memory and 8 GPUs, on every machine.
        max_tasks: maximum number of task processes that run at once.
        hdfs: True for an HDFS served by this server; ``http://HOST:PORT`` for a real HDFS's WebHDFS; or
            None for the release's default: an HDFS (``v1``), or a storage and no HDFS (``v2``, ``ltp``).
        fs_uri: that real HDFS's ``hdfs://HOST:PORT``, if its WebHDFS does not report it.
        api: the release that the server emulates: ``v2`` (OpenPAI 1.8), ``v1`` (0.7.1) or ``ltp`` (LTP 1.5).
        faults: the faults to inject: ``{"seed": 1, "rules": [{"fault": "error", "rate": 0.1}]}``,
            or just the list of rules; docs/local.md describes all kinds of faults.
        rate_limits: limits as in OpenPAI 1.x, ``default`` or ``CALLS,LISTS,SUBMISSIONS``; None for no limits.
        stop_grace: seconds between SIGTERM and SIGKILL for a task's processes.

    Attributes:
        username: the administrator's name.
        password: the administrator's password.
        data: the data folder.
    """

    def __init__(
        self,
        data: Path | str | None = None,
        *,
        port: int = 0,
        username: str = DEFAULT_USER,
        password: str | None = None,
        virtual_clusters: Sequence[str] = (),
        max_tasks: int | None = None,
        hdfs: Literal[True] | str | None = None,
        fs_uri: str | None = None,
        api: str = DEFAULT_API,
        faults: Any = None,
        rate_limits: str | None = None,
        stop_grace: float = Settings.stop_grace,
    ) -> None:
        self._temporary = data is None
        self.data = Path(tempfile.mkdtemp(prefix="luigi-pai-local-") if data is None else data).absolute()
        self.username = username
        self.password = secrets.token_urlsafe() if password is None else password
        self._port = port
        self._settings = Settings(
            self.data,
            user=username,
            password=self.password,
            virtual_clusters=tuple(virtual_clusters),
            max_tasks=Settings.max_tasks if max_tasks is None else max_tasks,
            hdfs=hdfs,
            fs_uri=fs_uri,
            api=api,
            faults=faults,
            rate_limits=rate_limits,
            stop_grace=stop_grace,
        )
        self._hdfs = HdfsAddress()
        self._process: subprocess.Popen[bytes] | None = None
        self._has_run = False

    @property
    def url(self) -> str:
        """Base URL of the REST API and the job pages."""
        return self._address.url

    @property
    def webhdfs_url(self) -> str:
        """Base URL of WebHDFS, without ``/webhdfs/v1``; empty without an HDFS."""
        return self._hdfs.webhdfs_url

    @property
    def fs_uri(self) -> str:
        """The value of ``$PAI_DEFAULT_FS_URI``; empty without an HDFS."""
        return self._hdfs.fs_uri

    @property
    def luigi_section(self) -> dict[str, str]:
        """The keys of ``[OpenPai]`` in a luigi.cfg that points at this server."""
        return open_pai_section(self._address, self._hdfs, self._settings)

    @property
    def pid(self) -> int:
        """The server's process id."""
        return self._running().pid

    def start(self) -> Self:
        """Start the server and wait until it responds.

        Raises:
            ConfigError: the server is already running, or does not start; the message says why.
        """
        if self._process is not None:
            raise ConfigError("this local server is running already")
        self.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        errors = self.data / "start.log"
        settings = {**asdict(self._settings), "data": str(self.data), "port": self._port, "password": None}
        command = [sys.executable, "-c", _SERVE, json.dumps(settings)]
        with errors.open("wb") as stderr:
            process = subprocess.Popen(  # noqa: S603 - our own program
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                env={**os.environ, PASSWORD_VARIABLE: self.password},
            )
        self._process = process
        self._port = self._wait_for_port(process, errors)
        self._has_run = True
        return self

    def set_faults(self, faults: Any = None) -> None:
        """Replace the fault rules. Without an argument, no more faults are injected.

        A restart brings back the faults that you created this object with.

        Raises:
            ConfigError: the faults are invalid; the message lists every problem.
        """
        self._control("PUT", {"rules": []} if faults is None else faults)

    def fault_counts(self) -> list[dict[str, Any]]:
        """Return the rules with their counts of matching (``seen``) and affected (``struck``) requests."""
        rules: list[dict[str, Any]] = self._control("GET")["rules"]
        return rules

    def script_jobs(self, **rule: Any) -> None:
        """Add a rule that defines how jobs with certain names end. These jobs' commands do not run.

        When a job is submitted, the server applies the first rule that matches the job's name and has been
        applied to fewer than ``times`` jobs so far. A server restart removes all rules.

        Args:
            rule: ``job`` (a pattern), and any of ``exit_code``, ``stdout``, ``stderr``, ``after`` (how long
                tasks run, in seconds; None: until stopped), ``waits`` (True if jobs never start),
                ``completing`` (True if running tasks are reported as ended, as by 0.10 to 0.14; v1 only),
                ``times`` (maximum number of jobs that the rule applies to; None for no limit).

        Raises:
            ConfigError: the rule is invalid; the message lists every problem.
        """
        self._control("POST", [rule], JOB_SCRIPTS_PATH)

    def jobs(self) -> list[dict[str, str]]:
        """Return each job's ``username`` and ``name`` (its task's name), in the order of submission."""
        jobs: list[dict[str, str]] = self._control("GET", path=CONTENTS_PATH)["jobs"]
        return jobs

    def empty(self) -> None:
        """Delete all jobs, faults, job scripts, and files in the server's HDFS and storages. Keep users.

        Nothing is deleted from a real HDFS (``hdfs=``), or from storages that are links to folders.
        """
        self._control("DELETE", path=CONTENTS_PATH)

    def forget_jobs(self, ended_before: float) -> None:
        """Delete jobs that ended before a given time, in seconds since 1970 UTC."""
        self._control("POST", {"endedBefore": int(ended_before * 1000)}, CONTENTS_PATH)

    def _control(self, method: str, body: Any = None, path: str = FAULTS_PATH) -> Any:
        """Call a control route."""
        self._running()
        headers = {"Content-Type": "application/json"}
        connection = http.client.HTTPConnection(self._address.netloc, timeout=_START_SECONDS)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            value = json.loads(response.read())
        finally:
            connection.close()
        if response.status != http.HTTPStatus.OK:
            raise ConfigError(str(value["message"]))
        return value

    def stop(self) -> None:
        """Stop the server like Ctrl-C: running tasks end, and their jobs are retried after a restart."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the server immediately (SIGKILL); running tasks continue."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Start the server again with the same port and data folder, stopping it first if it is running."""
        if self._process is not None:
            self.stop()
        self.start()

    def close(self) -> None:
        """Stop the server, kill remaining task processes, and remove a temporary data folder."""
        if self._process is not None:
            self.stop()
        kill_all_under(self.data)
        if self._temporary:
            shutil.rmtree(self.data, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _address(self) -> Address:
        return Address("127.0.0.1", self._port)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise ConfigError("this local server is not running")
        return self._process

    def _wait_for_port(self, process: subprocess.Popen[bytes], errors: Path) -> int:
        deadline = time.monotonic() + _START_SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            known = whereabouts(self.data)
            if known.get("pid") == process.pid:
                self._hdfs = HdfsAddress(known["webhdfs_url"], known["fs_uri"])
                return int(known["port"])
            time.sleep(0.01)
        self.kill()
        reason = errors.read_text("utf-8", "replace").strip() or self._why_late()
        if not self._has_run:
            self.close()  # __exit__ is not called when __enter__ fails
        raise ConfigError(f"the local server did not start: {reason}")

    def _why_late(self) -> str:
        """Return a message that the server is late, with the log's end, as the log may be removed next."""
        log = self.data / "server.log"
        lines = log.read_text("utf-8", "replace").splitlines()[-_LOG_LINES:] if log.exists() else []
        logged = "\n".join(["the last lines of its log:", *lines]) if lines else "it has logged nothing"
        return f"it did not respond within {_START_SECONDS:.0f} s; {logged}"

    def _end(self, number: signal.Signals) -> None:
        process = self._running()
        process.send_signal(number)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdin is not None:
            process.stdin.close()
        self._process = None
