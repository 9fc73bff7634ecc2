"""Makes the pictures of the documentation anew: ``PYTHONPATH=. python docs/pictures/make.py [NAME...]``.

Pages are taken with the Chromium that the tests use, terminals as text of 80 columns. Needs the extras
``demo`` and ``test``. Names are those of the pictures without their ending; all of them where none is given.
"""

from __future__ import annotations

import html
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import requests
from PIL import Image

from luigi_pai.local import LocalPai

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "tests" / "support" / folder) for folder in ("", "servers")]
from browser import Browser  # noqa: E402 - its folder had to be found first
from luigid import Luigid  # noqa: E402 - as above
from terminal import ESCAPE, on_terminal  # noqa: E402 - as above

WIDTH = 1100
COLUMNS = 80
TIMEOUT = 30  # seconds
LARGEST = 150_000  # bytes of a picture
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

PIPELINE = """
import luigi
from luigi_pai import PaiTask, TaskRole

REPORT = '''for step in range(40, 100):
    report(step=step, steps=100, loss=0.31)
    time.sleep(9)'''
COMMAND = f'PYTHONPATH={root} {python} -c "import time; from luigi_pai.runtime import report\\n{REPORT}"'


class Train(PaiTask):
    rate = luigi.FloatParameter()
    image = "openpai/standard:python_3.6-pytorch_1.2.0-gpu"

    @property
    def name(self):
        return f"mnist-{self.rate}"

    @property
    def tasks(self):
        return [TaskRole("worker", COMMAND, gpuNumber=4)]


class Study(luigi.WrapperTask):
    def requires(self):
        return [Train(rate=rate) for rate in (0.1, 0.01, 0.001)]
"""


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


def jobs(browser: Browser, _folder: Path) -> None:
    """Take the pages of the local OpenPAI: the list, and a job that failed."""
    with LocalPai(api="v1") as server:
        for name, command, gpus, state in JOBS:
            submit(server, name, command, gpus, state)
        browser.screen(WIDTH, height=680)
        browser.open(server.url)
        browser.screenshot(HERE / "jobs.png")
        browser.screen(WIDTH, height=900)
        browser.open(f"{server.url}/job-detail.html?username=admin&jobName=mnist-0.1")
        browser.wait("document.getElementById('log').textContent.includes('NaN')")
        browser.screenshot(HERE / "job.png")


def demo(browser: Browser, folder: Path) -> None:
    """Run the demo on a terminal as ``make demo`` does, and take its lines and its report."""
    programs = Path(sys.executable).parent
    local = [programs / "luigi-pai", "local", "--api", "v1", "--data", folder / "pai", "--"]
    luigi = [programs / "luigi", "--module", "digits", "Digits", "--folder", folder / "report"]
    code, shown = on_terminal(
        [*local, *luigi, "--workers", "3", "--local-scheduler"],
        columns=COLUMNS,
        cwd=ROOT / "examples" / "digits",
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}."},
    )
    if code != 0:
        raise SystemExit(f"the demo failed:\n{shown}")
    text = ESCAPE.sub("", shown).replace(str(folder), "demo-run")
    (HERE / "demo.svg").write_text(terminal_svg("make demo", text), encoding="utf-8")
    (report,) = (folder / "report").glob("*/report.html")
    browser.screen(WIDTH, height=780)
    browser.open(report.as_uri())
    browser.screenshot(HERE / "report.png")


def terminal_svg(command: str, text: str) -> str:
    """Return a picture of a terminal: a command and what it printed."""
    lines = [f"$ {command}", *text.rstrip("\n").split("\n")]
    height = 20 * len(lines) + 28
    rows = "\n".join(
        f'<text x="16" y="{20 * number + 32}"{" class=" + repr("command") if number == 0 else ""}>'
        f"{html.escape(line)}</text>"
        for number, line in enumerate(lines)
        if line
    )
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 712 {height}" width="712" height="{height}" role="img">
<title>{html.escape(command)}</title>
<style>
text {{ font: 14px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d7dae0;
  white-space: pre; }}
.command {{ fill: #ffffff; font-weight: bold; }}
</style>
<rect width="712" height="{height}" rx="8" fill="#1b1e24"/>
{rows}
</svg>
"""


def sweep(browser: Browser, folder: Path) -> None:
    """Run the study of 30 points, and take the page of its results."""
    luigi_pai = Path(sys.executable).parent / "luigi-pai"
    local = [luigi_pai, "local", "--data", folder / "pai", "--"]
    subprocess.run(  # noqa: S603  of this package
        [*local, luigi_pai, "run", "fit_study", "Study", "--local-scheduler"],
        cwd=ROOT / "examples" / "study",
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}."},
        check=True,
    )
    (page,) = (folder / "pai").rglob("results.html")
    browser.screen(810, height=820)
    browser.open(page.as_uri())
    browser.wait("document.querySelector('#picture svg') !== null")
    browser.screenshot(HERE / "sweep.png")
    with Image.open(HERE / "sweep.png") as picture:  # its lines have hundreds of colours
        picture.convert("RGB").quantize(256).save(HERE / "sweep.png", optimize=True)


def luigi(browser: Browser, folder: Path) -> None:
    """Take Luigi's own page of a study: a job waits, and one shows its status and progress."""
    with LocalPai(api="v1", virtual_clusters=["default:gpu=8"]) as server, Luigid(folder) as scheduler:
        lines = "".join(f"{key} = {value}\n" for key, value in server.luigi_section.items())
        (folder / "luigi.cfg").write_text(f"[OpenPai]\n{lines}", encoding="utf-8")
        pipeline = PIPELINE.replace("{root}", str(ROOT)).replace("{python}", sys.executable)
        (folder / "study.py").write_text(pipeline, encoding="utf-8")
        words = ["--module", "study", "Study", "--workers", "3", "--scheduler-url", scheduler.url]
        running = subprocess.Popen(  # noqa: S603  Luigi
            [sys.executable, "-m", "luigi", *words],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            _take_luigi(browser, scheduler)
        finally:
            running.terminate()
            running.wait()


def _take_luigi(browser: Browser, scheduler: Luigid) -> None:
    running = f'{scheduler.url}/api/task_list?data={{"status":"RUNNING","upstream_status":""}}'
    deadline = time.monotonic() + 3 * TIMEOUT
    reported: list[str] = []
    while not reported:  # a report is read every 10 s
        if time.monotonic() > deadline:
            raise SystemExit("no job has reported its progress")
        time.sleep(0.5)
        tasks = requests.get(running, timeout=TIMEOUT).json()["response"]
        reported = [key for key, task in tasks.items() if "loss" in (task.get("status_message") or "")]
    browser.screen(WIDTH, height=620)
    browser.open(f"{scheduler.url}/static/visualiser/index.html")
    button = f'.statusMessage[data-task-id="{reported[0]}"]'
    browser.wait(f"document.querySelector('{button}') !== null")
    browser.run(f"document.querySelector('{button}').click()")
    browser.wait("document.querySelector('#statusMessageModal.in') !== null")
    time.sleep(1)  # it slides into place
    browser.screenshot(HERE / "luigi.png")


PICTURES: dict[str, Callable[[Browser, Path], None]] = {
    "demo": demo,
    "report": demo,
    "job": jobs,
    "jobs": jobs,
    "luigi": luigi,
    "sweep": sweep,
}


def main(names: list[str]) -> None:
    """Make pictures.

    Args:
        names: of the pictures; all of them where none is given.
    """
    for make in dict.fromkeys(PICTURES[name] for name in names or PICTURES):
        with tempfile.TemporaryDirectory() as profile, tempfile.TemporaryDirectory() as folder:
            browser = Browser(profile)
            browser.call("Emulation.setScrollbarsHidden", hidden=True)
            try:
                make(browser, Path(folder))
            finally:
                browser.close()
    too_large = [path.name for path in HERE.glob("*.*g") if path.stat().st_size > LARGEST]
    if too_large:
        raise SystemExit(f"larger than {LARGEST:,} bytes: {', '.join(too_large)}")


if __name__ == "__main__":
    main(sys.argv[1:])
