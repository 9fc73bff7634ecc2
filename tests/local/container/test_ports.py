"""Ports of this machine, reserved for tasks."""

from __future__ import annotations

import socket

import pytest

from luigi_pai.local.container.ports import Ports

WEB = [{"label": "web", "beginAt": 0, "portNumber": 2}]


def numbers(reserved):
    return [port for given in reserved for group in given.values() for port in group]


def test_every_task_has_ports_of_its_own():
    """Those asked for, one http and one ssh; all of them free."""
    reserved = Ports().reserve_all([{"taskNumber": 3, "portList": WEB}, {"taskNumber": 1, "portList": []}])
    assert [list(given) for given in reserved] == [["web", "http", "ssh"]] * 3 + [["http", "ssh"]]
    assert len(set(numbers(reserved))) == 3 * 4 + 2
    for port in numbers(reserved):
        with socket.socket() as free:
            free.bind(("", port))


def test_a_job_gets_all_of_its_ports_or_none():
    """What was reserved for its first tasks is released."""
    some = Ports(11_000)
    first = some.reserve_all([{"taskNumber": 240, "portList": WEB}])
    with pytest.raises(OSError, match="48 ports wanted, and 40 of this machine are left"):
        some.reserve_all([{"taskNumber": 12, "portList": WEB}])
    others = sorted(set(range(10_000, 11_000)) - set(numbers(first)))
    with socket.socket() as program:
        program.bind(("", others[0]))
        with pytest.raises(OSError, match="no free port found"):
            some.reserve_all([{"taskNumber": 10, "portList": WEB}])
    assert len(some) == len(numbers(first))
    for given in first:
        some.release(given)
    assert len(some) == 0


@pytest.mark.parametrize("count", [-3, 0])
def test_less_than_no_ports_are_none(count):
    """1.8 takes the number, and so did earlier files."""
    less = {"label": "web", "beginAt": 0, "portNumber": count}
    odd = [less, {"label": "x", "beginAt": -1, "portNumber": 2}]
    (given,) = Ports().reserve_all([{"taskNumber": 1, "portList": odd}])
    counts = {label: len(group) for label, group in given.items()}
    assert counts == {"web": 0, "x": 2, "http": 1, "ssh": 1}


def test_more_ports_than_there_are_are_refused_at_once():
    """Also where a negative number would make up for them, or the first lies beyond the last port."""
    many = {"label": "many", "beginAt": 70_000, "portNumber": 10**12}
    less = {"label": "less", "beginAt": 0, "portNumber": -(10**12)}
    some = Ports()
    with pytest.raises(OSError, match="1000000000002 ports wanted"):
        some.reserve_all([{"taskNumber": 1, "portList": [many, less]}])
    assert len(some) == 0
