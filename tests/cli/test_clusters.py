"""luigi-pai clusters: what virtual clusters have, what is free, and how many jobs wait."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from waiting import wait_until

from luigi_pai.local import LocalPai

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module", params=["v1", "v2", "ltp"])
def small(request: pytest.FixtureRequest) -> Iterator[tuple[str, LocalPai]]:
    """A local OpenPAI of each API with a small virtual cluster."""
    with LocalPai(api=request.param, virtual_clusters=["small:cpu=2,memory=2048,gpu=1"]) as server:
        yield request.param, server


@pytest.mark.slow
def test_used_free_and_waiting(small, as_settings, settings, pai_command, tmp_path, name):
    api, server = small
    as_settings(server)
    settings(api_version="v1" if api == "v1" else "v2")
    for index in (1, 2):
        path = tmp_path / f"{index}.json"
        role = {"name": "main", "cpuNumber": 1, "memoryMB": 512, "gpuNumber": 1, "command": "sleep 60"}
        job = {"jobName": f"{name}-{index}", "image": "x", "virtualCluster": "small", "taskRoles": [role]}
        path.write_text(json.dumps(job))
        pai_command("submit", str(path))

    def one_runs_and_one_waits():
        found = {each["name"]: each for each in json.loads(pai_command("clusters", "--json").stdout)}
        of = found["small"]
        return of if of["gpus"]["used"] == 1 and of["jobs_waiting"] == 1 else None

    of = wait_until(one_runs_and_one_waits)
    assert (of["gpus"]["used"], of["cpus"]["used"], of["jobs_waiting"]) == (1, 1, 1)
    shown = pai_command("clusters").stdout.splitlines()
    (row,) = (line.split() for line in shown if line.startswith("small "))
    if api == "v1":
        assert shown[0].endswith("OF THE CLUSTER")
        assert of["gpus"] == {"total": None, "used": 1, "free": None}
        assert row[:7] == ["small", "1", "in", "use", "1", "in", "use"]
    else:
        assert shown[0].split() == ["NAME", "GPUS", "CPUS", "MEMORY", "WAITING"]
        assert of["gpus"] == {"total": 1, "used": 1, "free": 0}
        assert " ".join(row) == "small 0 of 1 free 1 of 2 free 1.5 of 2 GiB free 1"
    for index in (1, 2):
        pai_command("stop", f"{name}-{index}")
