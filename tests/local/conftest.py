"""Servers for the tests of the local server."""

from __future__ import annotations

import inspect
import logging

import pytest
from event_loop import in_a_loop
from local_client import LocalClient
from ports import own_port
from protocol_client import ProtocolClient

from luigi_pai.cli import main
from luigi_pai.local import LocalPai


def pytest_pyfunc_call(pyfuncitem):
    """Run a test that is a coroutine function in a loop; close its bench, if it has one, at its end."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}

    async def run():
        try:
            await pyfuncitem.obj(**arguments)
        finally:
            if "bench" in arguments:
                await arguments["bench"].close()

    in_a_loop(run())
    return True


@pytest.fixture(scope="session")
def client(local_pai_v1):
    """The administrator of the session's OpenPAI 0.7.1."""
    return LocalClient(local_pai_v1)


@pytest.fixture(scope="session")
def v2(local_pai_v2):
    """The administrator of the session's OpenPAI 1.8."""
    return ProtocolClient(local_pai_v2)


@pytest.fixture
def own_pai(tmp_path):
    """An OpenPAI 1.8 that a test may stop and kill."""
    with LocalPai(tmp_path / "data", port=own_port()) as server:
        yield server


@pytest.fixture
def refused(monkeypatch, capfd):
    """Run `luigi-pai local` with what it refuses, in this process: a function that returns what it says.

    The exit code has to be 2, and neither the server nor a command that is behind ``--`` may say anything.
    """
    monkeypatch.setattr(logging.getLogger("luigi_pai.local.warnings"), "handlers", [])

    def run(*words, **variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(["local", "--port", "0", *words])
        assert ended.value.code == 2
        said, errors = capfd.readouterr()
        assert said == ""
        assert "Traceback" not in errors
        return errors

    return run
