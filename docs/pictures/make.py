"""Takes the pictures of the documentation: ``python docs/pictures/make.py``.

Starts a local server, runs jobs on it, and photographs its pages with the
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

WIDTH, HEIGHT = 1100, 560
TRAIN = "for epoch in 1 2 3; do echo epoch $epoch: loss 0.$((90 / epoch)); done"
JOBS = (
    ("mnist-prepare", "echo 60000 images", 0),
    ("mnist-0.1", "echo 'loss is NaN after 40 steps' >&2; exit 1", 1),
    ("mnist-0.1__attempt2", TRAIN, 1),
    ("mnist-0.01", TRAIN, 1),
    ("mnist-0.001", f"{TRAIN}; sleep 600", 4),
    ("mnist-ensemble", "sleep 600", 2),
    ("mnist-large", "sleep 600", 6),
)


def submit(server: LocalPai, name: str, command: str, gpus: int) -> None:
    """Submit a job of one task, and wait until it has begun, or ended."""
    api = f"{server.url}/api/v1"
    login = {"username": server.username, "password": server.password}
    token = requests.post(f"{api}/token", json=login, timeout=20).json()["token"]
    role = {"name": "worker", "command": command, "cpuNumber": 4, "memoryMB": 8192, "gpuNumber": gpus}
    job = {"jobName": name, "image": "python:3", "taskRoles": [role]}
    headers = {"Authorization": f"Bearer {token}"}
    requests.post(f"{api}/jobs", json=job, headers=headers, timeout=20).raise_for_status()
    deadline = time.monotonic() + 20
    ends = "sleep" not in command
    while time.monotonic() < deadline:
        state = requests.get(f"{api}/jobs/{name}", timeout=20).json()["jobStatus"]["state"]
        if state not in ("WAITING", "RUNNING") or (not ends and state == "RUNNING"):
            return
        time.sleep(0.1)


def main() -> None:
    """Take the pictures."""
    with tempfile.TemporaryDirectory() as profile, LocalPai() as server:
        for name, command, gpus in JOBS[:-1]:
            submit(server, name, command, gpus)
        submit(server, JOBS[-1][0], "true # waits", JOBS[-1][2]) if False else None
        browser = Browser(profile)
        try:
            browser.screen(WIDTH)
            browser.open(server.url)
            browser.screenshot(HERE / "jobs.png")
        finally:
            browser.close()


if __name__ == "__main__":
    main()
