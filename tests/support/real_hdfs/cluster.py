"""NameNodes and their DataNodes on loopback, as child processes."""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

from real_hdfs.class_files import with_long
from real_hdfs.configuration import LOGGING, QUIET, make_pages, write_configuration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from typing_extensions import Self

    from real_hdfs.software import Software

__all__ = ["RealHdfs"]

_HOST = "127.0.0.1"
_PREFIX = "luigi-pai-hdfs-"
_MEMORY = "/dev/shm"
_TRIES = 3  # a port that was free may be taken a moment later
_SERVICE = "pai"  # what two NameNodes are called together
_NAMENODE = "hdfs.server.namenode.NameNode"
_DATANODE = "hdfs.server.datanode.DataNode"
_no_proxy = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class RealHdfs:
    """A real HDFS, running for the length of ``with``. Its processes do not outlive this one.

    Args:
        software: what to run.
        namenodes: 1, or 2: an active one and one on standby, over the same edits (HA).
        datanodes: the number of its DataNodes, which is also the replication of a file.
        as_shipped: whether it waits as long as Hadoop does by default, for who measures it.
        timeout: seconds that it may take to come up.

    Attributes:
        urls: of the WebHDFS of each NameNode; the first is the active one, until ``activate``.
        fs_uri: ``hdfs://HOST:PORT``, or ``hdfs://SERVICE`` of two NameNodes.
        user: its superuser.
        bin: a folder with the ``hdfs`` and ``hadoop`` commands of this HDFS.

    Raises:
        RuntimeError: it did not come up; the text ends with its log.
    """

    def __init__(
        self,
        software: Software,
        *,
        namenodes: int = 1,
        datanodes: int = 1,
        as_shipped: bool = False,
        timeout: float = 60.0,
    ) -> None:
        self._software = software
        self._settings = {} if as_shipped else dict(software.hadoop.short_waits)
        self._constants = () if as_shipped else software.hadoop.short_constants
        self._names = [f"namenode{number}" for number in range(namenodes)]
        self._count = datanodes
        self._timeout = timeout
        self.user = getpass.getuser()
        self._namenodes: dict[str, subprocess.Popen[bytes]] = {}
        self._datanodes: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        self._room = Path(tempfile.mkdtemp(prefix=_PREFIX))
        # a NameNode waits for the disk at each change; in memory that costs nothing
        in_memory = _MEMORY if os.access(_MEMORY, os.W_OK) else self._room
        self._namespace = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=in_memory))
        try:
            for last in range(_TRIES - 1, -1, -1):
                try:
                    self._start()
                    break
                except RuntimeError as error:
                    self._stop()
                    if not last or "BindException" not in str(error):
                        raise
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()
        for folder in (self._namespace, self._room):
            shutil.rmtree(folder, ignore_errors=True)

    @property
    def url(self) -> str:
        """The WebHDFS of the first NameNode."""
        return self.urls[0]

    # faults

    def kill_datanode(self, number: int) -> None:
        """Kill a DataNode, as a machine that loses its power."""
        process = self._datanodes.pop(number)
        process.kill()
        process.wait()

    def start_datanode(self, number: int) -> None:
        """Start a DataNode and wait until the NameNode knows it."""
        self._datanodes[number] = self._launch(f"datanode{number}", _DATANODE)
        self._wait_for_datanode(number, time.monotonic() + self._timeout)

    def kill_namenode(self) -> None:
        """Kill the only NameNode, as a machine that loses its power."""
        process = self._namenodes.pop(self._names[0])
        process.kill()
        process.wait()

    def start_namenode(self) -> None:
        """Start the only NameNode again, and return at once: it passes through safe mode."""
        self._namenodes[self._names[0]] = self._launch(self._names[0], _NAMENODE)

    @contextlib.contextmanager
    def paused_datanodes(self) -> Iterator[None]:
        """Stop all DataNodes for the length of ``with``, as a machine that is out of memory does."""
        for process in self._datanodes.values():
            process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            for process in self._datanodes.values():
                process.send_signal(signal.SIGCONT)

    def datanode_of(self, netloc: str) -> int:
        """Return the number of the DataNode that serves WebHDFS at a host and port."""
        return self._http_ports.index(int(netloc.rpartition(":")[2]))

    def activate(self, number: int) -> None:
        """Make one of two NameNodes the active one."""
        self.run("haadmin", "-failover", self._names[1 - number], self._names[number])

    def safe_mode(self, *, on: bool) -> None:
        """Put the NameNode into safe mode, or out of it."""
        self.run("dfsadmin", "-safemode", "enter" if on else "leave")

    def run(self, *arguments: str) -> str:
        """Run the ``hdfs`` command and return what it printed.

        Raises:
            subprocess.CalledProcessError: it failed.
        """
        done = subprocess.run(
            [str(self.bin / "hdfs"), *arguments], capture_output=True, text=True, timeout=60, check=True
        )
        return done.stdout

    # life

    def _start(self) -> None:
        ports = _free_ports(2 * len(self._names) + 3 * self._count)
        rpc = [ports.pop() for _ in self._names]
        http = [ports.pop() for _ in self._names]
        self.urls = [f"http://{_HOST}:{port}" for port in http]
        self.fs_uri = f"hdfs://{_SERVICE if len(rpc) > 1 else f'{_HOST}:{rpc[0]}'}"
        self._http_ports = ports[::3]
        self._configure(rpc, http, ports)
        deadline = time.monotonic() + self._timeout
        self._format(self._names[0])
        for name in self._names[1:]:  # it begins with what the first one has: nothing
            shutil.copytree(self._namespace / self._names[0], self._namespace / name, dirs_exist_ok=True)
        for name in self._names:
            self._namenodes[name] = self._launch(name, _NAMENODE)
        for number in range(self._count):
            self._datanodes[number] = self._launch(f"datanode{number}", _DATANODE)
        for name, url in zip(self._names, self.urls, strict=True):
            self._wait(name, self._namenodes[name], lambda url=url: _is_operational(url), deadline)
        if self._names[1:]:
            self.run("haadmin", "-transitionToActive", self._names[0])
        for number in range(self._count):
            self._wait_for_datanode(number, deadline)
        for name, url in zip(self._names, self.urls, strict=True):
            self._wait(name, self._namenodes[name], lambda url=url: self._is_complete(url), deadline)

    def _format(self, role: str) -> None:
        """Make an empty file system for a NameNode."""
        try:
            with (self._room / role / "log").open("ab") as log:
                subprocess.run(
                    self._command(role, _NAMENODE, "-format", "-nonInteractive", "-force"),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    timeout=self._timeout,
                    check=True,
                )
        except subprocess.SubprocessError as error:
            raise self._failure(role, "could not be formatted") from error

    def _stop(self) -> None:
        processes = [*self._datanodes.values(), *self._namenodes.values()]
        self._datanodes, self._namenodes = {}, {}
        for process in processes:
            process.kill()  # nothing of it is kept
        for process in processes:
            process.wait()
        for child in (*self._namespace.iterdir(), *self._room.iterdir()):
            if child != self._namespace:
                shutil.rmtree(child, ignore_errors=True)

    def _configure(self, rpc: list[int], http: list[int], ports: list[int]) -> None:
        room = self._room
        core = {"fs.defaultFS": self.fs_uri, "hadoop.tmp.dir": str(room / "tmp")}
        common = {
            "dfs.namenode.safemode.extension": "0",
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
            "dfs.replication": str(self._count),
            "dfs.heartbeat.interval": "1",
            "dfs.webhdfs.enabled": "true",
            "dfs.client.block.write.replace-datanode-on-failure.policy": "NEVER",
            "dfs.datanode.hostname": _HOST,
        }
        common |= self._addresses(rpc, http) | self._settings
        for name in self._names:
            own = {"dfs.namenode.name.dir": f"file://{self._namespace}/{name}"}
            if self._names[1:]:
                own["dfs.ha.namenode.id"] = name
            write_configuration(room / name / "conf", core, common | own, LOGGING)
        write_configuration(room / "client" / "conf", core, common, QUIET)
        for number in range(self._count):
            pages, data, ipc = ports[3 * number : 3 * number + 3]
            own = {
                "dfs.datanode.http.address": f"{_HOST}:{pages}",
                "dfs.datanode.address": f"{_HOST}:{data}",
                "dfs.datanode.ipc.address": f"{_HOST}:{ipc}",
                "dfs.datanode.data.dir": f"file://{room}/data{number}",
            }
            write_configuration(room / f"datanode{number}" / "conf", core, common | own, LOGGING)
        make_pages(room / "webapps")
        for each in self._constants:
            place = room / f"{each.place}.class"  # on the class path, the room comes before the jars
            place.parent.mkdir(parents=True, exist_ok=True)
            code = self._software.class_file(each.place)
            place.write_bytes(with_long(code, each.milliseconds, each.becomes))
        self.bin = room / "bin"
        self.bin.mkdir()
        for name in ("hdfs", "hadoop"):
            (self.bin / name).write_text(self._shell_script())
            (self.bin / name).chmod(0o755)

    def _addresses(self, rpc: list[int], http: list[int]) -> dict[str, str]:
        """Return where the NameNodes are, as Hadoop is told."""
        if len(self._names) == 1:
            return {
                "dfs.namenode.rpc-address": f"{_HOST}:{rpc[0]}",
                "dfs.namenode.http-address": f"{_HOST}:{http[0]}",
            }
        addresses = {
            "dfs.nameservices": _SERVICE,
            f"dfs.ha.namenodes.{_SERVICE}": ",".join(self._names),
            "dfs.namenode.shared.edits.dir": f"file://{self._namespace}/edits",
            "dfs.ha.fencing.methods": "shell(true)",
            "dfs.ha.standby.checkpoints": "false",
            f"dfs.client.failover.proxy.provider.{_SERVICE}": (
                "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
            ),
        }
        for number, name in enumerate(self._names):
            addresses[f"dfs.namenode.rpc-address.{_SERVICE}.{name}"] = f"{_HOST}:{rpc[number]}"
            addresses[f"dfs.namenode.http-address.{_SERVICE}.{name}"] = f"{_HOST}:{http[number]}"
        return addresses

    def _shell_script(self) -> str:
        words = self._software.command([self._room / "client" / "conf"], "", heap=512)[:-1]
        start = " ".join(f"'{word}'" for word in words)
        return (
            "#!/bin/sh\n"
            'case "$1" in\n'
            "dfs | fs) main=fs.FsShell ;;\n"
            "dfsadmin) main=hdfs.tools.DFSAdmin ;;\n"
            "haadmin) main=hdfs.tools.DFSHAAdmin ;;\n"
            "version) main=util.VersionInfo ;;\n"
            '*) echo "$1 is not among: dfs, fs, dfsadmin, haadmin, version" >&2; exit 2 ;;\n'
            "esac\n"
            f'shift\nexec {start} "org.apache.hadoop.$main" "$@"\n'
        )

    def _command(self, role: str, main: str, *arguments: str) -> list[str]:
        return self._software.command([self._room / role / "conf", self._room], main, *arguments)

    def _launch(self, role: str, main: str) -> subprocess.Popen[bytes]:
        """Start a process that is killed when this one dies, however it does."""
        guard = shutil.which("setpriv")
        bound = [guard, "--pdeathsig", "KILL", "--"] if guard else []
        with (self._room / role / "log").open("ab") as log:
            return subprocess.Popen(
                [*bound, *self._command(role, main)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the tests
            )

    def _wait_for_datanode(self, number: int, deadline: float) -> None:
        self._wait(f"datanode{number}", self._datanodes[number], lambda: self._has_joined(number), deadline)

    def _wait(
        self, role: str, process: subprocess.Popen[bytes], is_up: Callable[[], bool], deadline: float
    ) -> None:
        while not is_up():
            ended = process.poll() is not None
            if ended or time.monotonic() > deadline:
                raise self._failure(
                    role, "has ended" if ended else f"was not up within {self._timeout:.0f} s"
                )
            time.sleep(0.1)

    def _failure(self, role: str, what: str) -> RuntimeError:
        lines = (self._room / role / "log").read_text(errors="replace").splitlines()
        return RuntimeError(
            f"the {role} of a real HDFS {self._software.hadoop.version} {what}:\n" + "\n".join(lines[-25:])
        )

    def _is_complete(self, url: str) -> bool:
        state = _bean(url, "NameNode", "FSNamesystemState")
        return bool(state.get("NumLiveDataNodes") == self._count)

    def _has_joined(self, number: int) -> bool:
        address = f"http://{_HOST}:{self._http_ports[number]}"
        return bool(_bean(address, "DataNode", "DataNodeInfo").get("ClusterId"))


def _is_operational(url: str) -> bool:
    return bool(_bean(url, "NameNode", "FSNamesystemState").get("FSState") == "Operational")


def _bean(address: str, service: str, name: str) -> dict[str, Any]:
    """Return what a process of Hadoop's says of itself; nothing while it does not answer."""
    url = f"{address}/jmx?qry=Hadoop:service={service},name={name}"
    with contextlib.suppress(OSError, ValueError), _no_proxy.open(url, timeout=5) as reply:
        beans: list[dict[str, Any]] = json.load(reply)["beans"]
        return beans[0] if beans else {}
    return {}


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((_HOST, 0))
        return [one.getsockname()[1] for one in sockets]
