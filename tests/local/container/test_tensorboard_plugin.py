"""The runtime plugin tensorboard: started beside the first task where it is installed."""

from __future__ import annotations

import os
import sys

import pytest
from protocol_client import ProtocolClient, plugin, protocol, task_role

from luigi_pai.local import LocalPai

pytestmark = pytest.mark.slow

FAKE = f"""#!/bin/sh
echo "fake tensorboard: $*"
for word; do case $word in --port=*) port=${{word#--port=}};; esac; done
exec {sys.executable} -m http.server --bind 127.0.0.1 "$port"
"""
SERVED = "until (: </dev/tcp/127.0.0.1/$PORT) 2>/dev/null; do sleep 0.1; done"


@pytest.fixture
def with_tensorboard(tmp_path, monkeypatch):
    """A server whose tasks find a tensorboard on the PATH."""
    folder = tmp_path / "tools"
    folder.mkdir()
    (folder / "tensorboard").write_text(FAKE)
    (folder / "tensorboard").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    with LocalPai() as server:
        yield ProtocolClient(server)


def resources(**ports):
    return {"cpu": 1, "memoryMB": 100, "gpu": 0, "ports": ports}


def test_it_serves_on_the_port_that_its_role_reserved(with_tensorboard):
    """Whatever the parameter says: that port may be another program's. It ends with the task."""
    v2 = with_tensorboard
    command = SERVED.replace("$PORT", "${PAI_CONTAINER_HOST_tensorBoard_PORT_LIST}")
    roles = {"main": task_role(command, resourcePerInstance=resources(tensorBoard=1))}
    extras = plugin("tensorboard", {"port": 1, "logdir": {"run": "$PAI_WORK_DIR/logs"}})
    job = v2.wait(v2.submit(protocol(roles=roles, extras=extras)))
    assert job["jobStatus"]["state"] == "SUCCEEDED"
    port = v2.task(job)["containerPorts"]["tensorBoard"]
    said = v2.log(job, name="runtime.log")
    assert f"luigi-pai local: tensorboard is started at http://127.0.0.1:{port}/" in said
    assert f"/work/logs --port={port} --host=127.0.0.1" in said
    assert "--logdir=/" in said


def test_it_runs_beside_the_first_task_of_the_first_role_only(with_tensorboard):
    """Several paths have their names; without a reserved port it has the one of the parameter."""
    v2 = with_tensorboard
    port = "$PAI_PORT_LIST_first_0_http"
    roles = {
        "first": task_role(SERVED.replace("$PORT", port), "sleep 1", instances=2),
        "second": task_role("sleep 1"),
    }
    extras = plugin("tensorboard", {"port": port, "logdir": {"a": "/tmp/a", "b": "/tmp/b"}})
    job = v2.wait(v2.submit(protocol(roles=roles, extras=extras)))
    said = [v2.log(job, *task, name="runtime.log") for task in (("first", 0), ("first", 1), ("second", 0))]
    assert "--logdir_spec=a:/tmp/a,b:/tmp/b" in said[0]
    assert said[1:] == ["", ""]


def test_where_it_is_not_installed_the_log_says_so(v2):
    """And the job goes on."""
    job = v2.run("echo $PATH", extras=plugin("tensorboard", {"port": 6006, "logdir": {"run": "/tmp"}}))
    assert job["jobStatus"]["state"] == "SUCCEEDED"
    assert v2.log(job, name="runtime.log") == (
        "luigi-pai local: tensorboard is not installed here (pip install tensorboard), so it is not started\n"
    )


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"port": 6006}, "needs logdir"),
        ({"logdir": {}, "port": 1}, "needs logdir"),
        ({"logdir": {"a": "/"}}, "a port"),
    ],
)
def test_parameters_that_it_cannot_use_fail_the_task(v2, parameters, said):
    job = v2.run("true", extras=plugin("tensorboard", parameters))
    assert job["jobStatus"]["state"] == "FAILED"
    assert said in v2.log(job, name="stderr")
