"""Takes the pictures of the documentation: ``PYTHONPATH=. python docs/pictures/make.py``.

Starts a local server, runs jobs on it, and takes pictures of its pages with the
Chromium that the tests use.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import requests

from luigi_pai.local import LocalPai

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "tests" / "support"))
from browser import Browser  # noqa: E402 - its folder had to be found first

WIDTH = 1100
TIMEOUT = 30  # seconds
TRAIN = "for epoch in 1 2 3; do echo epoch $epoch, loss 0.$((90 / epoch)); done"
LONG = f"{TRAIN}; sleep 600"
JOBS = (
    ("mnist-prepare", "echo 60000 images", 0, "SUCCEEDED"),
    ("mnist-0.1", "echo 'RuntimeError: loss is NaN after 40 steps' >&2; exit 1", 1, "FAILED"),
    ("mnist-0.1__attempt2", TRAIN, 1, "SUCCEEDED"),
    ("mnist-0.01", TRAIN, 1, "SUCCEEDED"),
    ("mnist-0.001", LONG, 4, "RUNNING"),
    ("mnist-ensemble", LONG, 2, "RUNNING"),
    ("mnist-large", LONG, 6, "WAITING"),
)
"""Names, commands, GPUs, and the states that are waited for."""


def submit(server: LocalPai, name: str, command: str, gpus: int, state: str) -> None:
    """Submit a job of one task and wait for a state.

    Raises:
        SystemExit: the job is not in that state in time.
    """
    api = f"{server.url}/api/v1"
    login = {"username": server.username, "password": server.password}
    token = requests.post(f"{api}/token", json=login, timeout=TIMEOUT).json()["token"]
    role = {"name": "worker", "command": command, "cpuNumber": 4, "memoryMB": 8192, "gpuNumber": gpus}
    job = {"jobName": name, "image": "python:3", "taskRoles": [role]}
    headers = {"Authorization": f"Bearer {token}"}
    requests.post(f"{api}/jobs", json=job, headers=headers, timeout=TIMEOUT).raise_for_status()
    deadline = time.monotonic() + TIMEOUT
    while requests.get(f"{api}/jobs/{name}", timeout=TIMEOUT).json()["jobStatus"]["state"] != state:
        if time.monotonic() > deadline:
            raise SystemExit(f"job {name} is not {state} after {TIMEOUT} s")
        time.sleep(0.1)


def main() -> None:
    """Take the pictures."""
    with tempfile.TemporaryDirectory() as profile, LocalPai() as server:
        for name, command, gpus, state in JOBS:
            submit(server, name, command, gpus, state)
        browser = Browser(profile)
        try:
            pages = {
                "jobs": (server.url, 680),
                "job": (f"{server.url}/job-detail.html?username=admin&jobName=mnist-0.1", 900),
            }
            for picture, (address, height) in pages.items():
                browser.screen(WIDTH, height=height)
                browser.open(address)
                if picture == "job":
                    browser.wait("document.getElementById('log').textContent.includes('NaN')")
                browser.screenshot(HERE / f"{picture}.png")
        finally:
            browser.close()


if __name__ == "__main__":
    main()
