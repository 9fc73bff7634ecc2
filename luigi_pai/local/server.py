"""The local server as a whole: locks a data folder, listens, serves, shuts down."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import logging
import logging.handlers
import re
import shutil
import sqlite3
from typing import IO, TYPE_CHECKING

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets

from luigi_pai.errors import ConfigError
from luigi_pai.local.accounts.users import Tokens, Users
from luigi_pai.local.app import Door, make_app
from luigi_pai.local.config.rules import JobScripts, parse_faults
from luigi_pai.local.config.settings import (
    Address,
    HdfsAddress,
    parse_limits,
    virtual_clusters,
    whereabouts,
    write_whereabouts,
)
from luigi_pai.local.container.processes import Orphans
from luigi_pai.local.container.storages import Storages
from luigi_pai.local.container.task_files import JobFolders
from luigi_pai.local.faults import FaultyServer, InjectedFaults
from luigi_pai.local.hdfs.cluster import NoHdfs, OutsideHdfs, OwnHdfs
from luigi_pai.local.hdfs.command import executable as hdfs_command
from luigi_pai.local.launcher.launcher import Launcher
from luigi_pai.local.launcher.scheduler import Scheduler
from luigi_pai.local.launcher.task_runner import Services
from luigi_pai.local.luigi_config import shown_section
from luigi_pai.local.releases import RELEASES
from luigi_pai.local.rest.base import Api, RateLimits
from luigi_pai.local.store.jobs import Store
from luigi_pai.local.views.job_lists import JobRows
from luigi_pai.private_folder import check_owner

if TYPE_CHECKING:
    import socket
    from pathlib import Path

    from luigi_pai.local.config.settings import Settings
    from luigi_pai.local.hdfs.cluster import ClusterHdfs

_LOG_BYTES = 10_000_000
_MAX_REQUEST = 2**40
_CLOSING_SECONDS = 2.0


class LocalServer:
    """An OpenPAI server on this machine. Create and use it only while an asyncio loop is running.

    Raises:
        ConfigError: the settings, the HDFS, the port or the data folder cannot be used.
    """

    def __init__(self, settings: Settings) -> None:
        settings.check()
        self.settings = settings
        self.release = RELEASES[settings.api]
        hdfs = NoHdfs()
        if isinstance(settings.hdfs, str):
            hdfs = OutsideHdfs(settings.hdfs, settings.fs_uri, settings.user)
        data = settings.data
        try:
            data.mkdir(parents=True, exist_ok=True)
            check_owner(data, data.stat())
            data.chmod(0o700)
            self._lock = _lock(data)
        except OSError as error:
            reason = error.strerror or f"{error}; name a folder of your own with --data"
            raise ConfigError(f"cannot use the data folder {data}: {reason}") from None
        try:
            with contextlib.ExitStack() as on_failure:
                on_failure.enter_context(self._lock)
                sockets = _bind(settings.host, settings.port, whereabouts(data).get("port"))
                for each in sockets:
                    on_failure.enter_context(each)
                self.address = Address(settings.host, sockets[0].getsockname()[1])
                self._open(sockets, hdfs)
                on_failure.pop_all()
        except (OSError, sqlite3.Error) as error:  # such as a full disk, or another user's files
            raise ConfigError(f"cannot use the data folder {data}: {_why(error)}") from None

    def _open(self, sockets: list[socket.socket], hdfs: ClusterHdfs) -> None:
        """Open the data folder, serve requests, and resume earlier servers' jobs."""
        settings = self.settings
        data = settings.data
        self._log = logging.getLogger("luigi_pai.local")
        self._log.setLevel(logging.INFO)
        self._log_file = _log_file(data / "server.log")
        for logger in (self._log, logging.getLogger("tornado")):
            logger.propagate = False
            logger.addHandler(self._log_file)
        self._store = Store(data / "server.sqlite", settings.api)
        self.bin = data / "bin"
        clusters = virtual_clusters(settings.virtual_clusters)
        users = Users(self._store, tuple(clusters))
        users.ensure_admin(settings.user, settings.password)
        if settings.hdfs is True or (settings.hdfs is None and self.release.has_hdfs):
            here = HdfsAddress(self.address.url, f"hdfs://{self.address.netloc}")
            hdfs = OwnHdfs(data / "hdfs", here)
        self.hdfs = hdfs.address
        if self.hdfs.webhdfs_url:
            hdfs_command.install(self.bin)
        else:
            shutil.rmtree(self.bin, ignore_errors=True)  # an earlier server may have had an HDFS
        self.orphans = Orphans()
        self.orphans.adopt()
        services = Services(
            store=self._store,
            folders=JobFolders(data / "jobs", data / "run-task.sh"),
            orphans=self.orphans,
            bin=self.bin,
            hdfs=self.hdfs,
            storages=Storages(data / "storages"),
            scheduler=Scheduler(clusters, settings.max_tasks),
            stop_grace=settings.stop_grace,
            scripts=JobScripts(),
        )
        self._launcher = Launcher(services, self._log)
        limits = parse_limits(settings.rate_limits)
        self.config_lines = shown_section(self.address, self.hdfs, settings)
        api = Api(
            **vars(services),
            users=users,
            tokens=Tokens(self._store),
            launcher=self._launcher,
            address=self.address,
            files=hdfs,
            rows=JobRows(self._store),
            release=self.release,
            limits=limits and RateLimits(limits, per_key=self.release.window_per_key),
            faults=parse_faults(settings.faults or []),
        )
        faulty = FaultyServer(make_app(api, self._log), InjectedFaults(api, self._log).choose)
        self._server = HTTPServer(Door(faulty, self._log), max_body_size=_MAX_REQUEST)
        self._server.add_sockets(sockets)
        self._launcher.recover()
        write_whereabouts(data, self.address, self.hdfs)

    def jobs_since(self, time: int) -> tuple[int, list[str]]:
        """Return how many jobs were created since ``time`` (ms since 1970 UTC), and which of them failed."""
        jobs = self._store.select_jobs("WHERE NOT deleted AND created >= ? ORDER BY id DESC", [time])
        return len(jobs), [job.name for job in jobs if job.state == "FAILED"]

    def stop_jobs(self) -> None:
        """Stop all jobs that have not ended, as if a user stopped them."""
        for job in self._store.unfinished_jobs():
            self._launcher.stop(job)

    async def close(self) -> None:
        """Stop serving, end all tasks, and release the data folder."""
        self._server.stop()
        await self._launcher.shut_down()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._server.close_all_connections(), _CLOSING_SECONDS)
        self._store.close()
        for logger in (self._log, logging.getLogger("tornado")):
            logger.removeHandler(self._log_file)
        self._log_file.close()
        self._lock.close()


def _why(error: OSError | sqlite3.Error) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _lock(data: Path) -> IO[str]:
    """Lock a data folder; return the lock file. Closing it, or ending the process, unlocks the folder."""
    file = (data / "lock").open("a+", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        known = whereabouts(data)
        where = (
            f"process {known['pid']} at {known['url']}" if {"pid", "url"} <= set(known) else "just starting"
        )
        raise ConfigError(
            f"another luigi-pai local uses the data folder {data} ({where}); "
            "use that one, or give this one another folder with --data"
        ) from None
    return file


def _bind(host: str, port: int, last: int | None) -> list[socket.socket]:
    """Return listening sockets. For port 0, use port ``last`` if it is free, otherwise any free port.

    ``last`` is the earlier server's port. Tasks it started connect to this port if they are still running.
    """
    if port == 0 and last:
        with contextlib.suppress(OSError):
            return bind_sockets(last, host)
    try:
        return bind_sockets(port, host)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ConfigError(
                f"port {port} of {host} is in use; choose another with --port N, or --port 0 for any free one"
            ) from None
        raise ConfigError(f"cannot listen on {host} port {port}: {error.strerror or error}") from None


_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class LogLines(logging.Formatter):
    """Formats records as time and message, escapes control characters, and indents traceback lines."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Return the record's lines."""
        return "\n  ".join(map(_escaped, super().format(record).split("\n")))


def _escaped(line: str) -> str:
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), line)


def _log_file(path: Path) -> logging.Handler:
    handler = logging.handlers.RotatingFileHandler(
        path, maxBytes=_LOG_BYTES, backupCount=1, encoding="utf-8", errors="backslashreplace"
    )
    handler.setFormatter(LogLines())
    return handler
