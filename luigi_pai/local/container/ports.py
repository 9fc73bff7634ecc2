"""Ports of this machine, reserved for tasks."""

from __future__ import annotations

import random
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_FIRST = 10_000
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_TRIES = 2_000
_FIRST_EPHEMERAL = 32_768
"""Assumed first port for outgoing connections if /proc does not say. On macOS, it is higher: 49152."""
TASK_PORTS = ("http", "ssh")
"""Labels of the ports that every task has."""


class Ports:
    """The ports reserved for running tasks.

    If a role asks for a specific port and the port is free, that port is reserved. Otherwise, a free port is
    chosen at random, below the range that the kernel uses for outgoing connections. A port belongs to one
    task until it is released. Only the task binds the port, not this server.

    Args:
        end: upper limit (exclusive) for random ports; None for the start of the kernel's range.
    """

    def __init__(self, end: int | None = None) -> None:
        self._held: set[int] = set()
        self._end = _first_ephemeral() if end is None else end
        self._random = random.SystemRandom()

    def __len__(self) -> int:
        return len(self._held)

    @property
    def left(self) -> int:
        """Number of ports that can still be reserved, if no other program uses any of them."""
        return self._end - _FIRST - len(self._held)

    def reserve_all(self, roles: Sequence[Mapping[str, Any]]) -> list[dict[str, list[int]]]:
        """Reserve ports for all tasks. Return label -> ports for each task, in role order.

        A task gets its role's ports, and one port each for ``http`` and ``ssh`` unless the role lists those
        labels. A negative count means 0. Raises OSError if too few ports are free.
        """
        asked = [port for role in roles for port in [_asked(role["portList"])] * role["taskNumber"]]
        wanted = sum(max(0, count) for ports in asked for _, count in ports.values())
        if wanted > self.left:
            raise OSError(f"{wanted} ports wanted, and {self.left} of this machine are left")
        before = set(self._held)
        try:
            return [self._reserve(ports) for ports in asked]
        except BaseException:
            self._held = before
            raise

    def _reserve(self, asked: Mapping[str, tuple[int, int]]) -> dict[str, list[int]]:
        ports: dict[str, list[int]] = {label: [] for label in asked}
        for label, (first, count) in asked.items():
            for wanted in range(first, first + count) if first else [0] * count:
                port = wanted if wanted and self._is_free(wanted) else self._any()
                self._held.add(port)
                ports[label].append(port)
        return ports

    def hold(self, ports: Mapping[str, Iterable[int]]) -> None:
        """Reserve the ports that a running task got from an earlier server."""
        self._held.update(port for group in ports.values() for port in group)

    def release(self, ports: Mapping[str, Iterable[int]]) -> None:
        """Release an ended task's ports."""
        self._held.difference_update(port for group in ports.values() for port in group)

    def _any(self) -> int:
        for _ in range(_TRIES):
            port = self._random.randrange(_FIRST, self._end)
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


def _asked(port_list: Iterable[Mapping[str, Any]]) -> dict[str, tuple[int, int]]:
    """Return, by label, a task's first port (0 for any) and number of ports."""
    asked = {port["label"]: (port["beginAt"], port["portNumber"]) for port in port_list}
    return {**asked, **{label: asked.get(label, (0, 1)) for label in TASK_PORTS}}


def _first_ephemeral() -> int:
    """Return the first port for outgoing connections, or 65,536 if too few ports are below it."""
    try:
        first = int(_EPHEMERAL.read_text("ascii").split()[0])
    except (OSError, ValueError, IndexError):
        first = _FIRST_EPHEMERAL
    return first if first > _FIRST + 1_000 else 65_536
