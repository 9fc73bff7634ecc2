"""Ports of this machine, given to tasks and kept apart from each other."""

from __future__ import annotations

import random
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["Ports"]

_FIRST = 10_000
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_TRIES = 2_000
_ALWAYS = ("http", "ssh")


class Ports:
    """The ports that running tasks hold.

    A port is taken from below the range that the kernel gives to outgoing
    connections, is seen to be free, and is given to one task only until it is
    released. Nothing is bound: the task binds it.
    """

    def __init__(self) -> None:
        self._held: set[int] = set()
        self._last = _below_ephemeral()
        self._random = random.SystemRandom()

    def reserve(self, port_list: Iterable[Mapping[str, Any]]) -> tuple[dict[str, list[int]], list[str]]:
        """Reserve the ports of one task: those asked for, one ``http`` and one ``ssh``.

        Args:
            port_list: the role's portList, defaults filled in.

        Returns:
            The ports by label, and a sentence for each beginAt that was not free.

        Raises:
            OSError: this machine has no free port left.
        """
        asked = {port["label"]: (port["beginAt"], port["portNumber"]) for port in port_list}
        for label in _ALWAYS:
            asked.setdefault(label, (0, 1))
        ports: dict[str, list[int]] = {label: [] for label in asked}
        notes = []
        try:
            for label, (begin, count) in asked.items():
                for wanted in range(begin, begin + count) if begin else [0] * count:
                    port = wanted if wanted and self._is_free(wanted) else self._any()
                    if wanted not in (0, port):
                        notes.append(
                            f"port {wanted} ({label}) is in use on this machine; this task has {port}"
                        )
                    self._held.add(port)
                    ports[label].append(port)
        except OSError:
            self.release(ports)
            raise
        return ports, notes

    def reserve_all(self, roles: Sequence[Mapping[str, Any]]) -> list[tuple[dict[str, list[int]], list[str]]]:
        """Reserve the ports of every task of a job, in the order of roles and indexes; or none.

        Raises:
            OSError: this machine has too few free ports.
        """
        reserved: list[tuple[dict[str, list[int]], list[str]]] = []
        left = self._last - _FIRST - len(self._held)
        wanted = sum(role["taskNumber"] * _count(role["portList"]) for role in roles)
        if wanted > left:
            raise OSError(f"{wanted} ports wanted, and {left} of this machine are left")
        try:
            for role in roles:
                for _ in range(role["taskNumber"]):
                    reserved.append(self.reserve(role["portList"]))  # noqa: PERF401 - what was reserved is given back
        except BaseException:
            for ports, _ in reserved:
                self.release(ports)
            raise
        return reserved

    def hold(self, ports: Mapping[str, Iterable[int]]) -> None:
        """Keep ports that a running task was given by an earlier server."""
        self._held.update(port for group in ports.values() for port in group)

    def release(self, ports: Mapping[str, Iterable[int]]) -> None:
        """Give back the ports of a task that has ended."""
        self._held.difference_update(port for group in ports.values() for port in group)

    def _any(self) -> int:
        for _ in range(_TRIES):
            port = self._random.randrange(_FIRST, self._last)
            if self._is_free(port):
                return port
        raise OSError("no free port found on this machine")

    def _is_free(self, port: int) -> bool:
        if port in self._held:
            return False
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind(("", port))
            except (OSError, OverflowError):
                return False
        return True


def _count(port_list: Iterable[Mapping[str, Any]]) -> int:
    """Return how many ports a task has: those asked for, and those that each has; less than none is none."""
    asked = {port["label"]: max(0, int(port["portNumber"])) for port in port_list}
    return sum({**dict.fromkeys(_ALWAYS, 1), **asked}.values())


def _below_ephemeral() -> int:
    """Return where the kernel's own choice of ports begins."""
    try:
        first = int(_EPHEMERAL.read_text("ascii").split()[0])
    except (OSError, ValueError, IndexError):
        first = 32_768
    return first if first > _FIRST + 1_000 else 65_536
