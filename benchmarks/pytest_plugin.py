"""Measure the time that the fixtures of ``luigi_pai.testing`` and ``luigi_pai.runtime`` take.

50 tests each submit a job and wait until it finishes: with the fixture ``pai``, whose jobs are scripted or
run a command, with two processes of pytest-xdist, and with ``pai_mock``. For comparison, each of 10 tests
starts a separate server, as without a fixture. The script also measures the time that the plugin adds to
pytest's start, and the import of ``luigi_pai.runtime``. The ways take turns, and the figures are medians of
the rounds.

Promises: 50 tests with ``pai`` take less than 15 s, including the start of pytest and the server. The
plugin adds less than 20 ms of CPU time to pytest's start. Importing the file takes less than 30 ms. If a
promise is broken, the exit code is 1.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import luigi_pai.runtime

ROUNDS = 3
TESTS = 50
ALONE = 10  # tests that each start a server
MOST_SECONDS, MOST_START_MS, MOST_IMPORT_MS = 15.0, 20.0, 30.0
STARTS = 15

TASK = """
import luigi
import pytest
from luigi_pai import PaiTask, TaskRole

class Train(PaiTask):
    number = luigi.IntParameter()
    image = "python:3"
    tasks = [TaskRole("main", "true")]

    @property
    def name(self):
        return f"train-{self.number}"
"""
RUNS = "    Train(number).run()\n    assert Train(number).complete()\n"
SCRIPTED = "def test_it(pai, number):\n    pai.when('*').succeeds()\n" + RUNS
COMMAND = "def test_it(pai, number):\n" + RUNS
MOCKED = "def test_it(pai_mock, number):\n" + RUNS
OWN_SERVER = """
from luigi.configuration import get_config
from luigi_pai import reset_clusters
from luigi_pai.local import LocalPai

def test_it(number):
    with LocalPai() as server:
        server.script_jobs(job="*", exit_code=0)
        reset_clusters()
        for key, value in {**server.luigi_section, "poll_min": "0.02", "poll_max": "0.2"}.items():
            get_config().set("OpenPai", key, value)
        Train(number).run()
        assert Train(number).complete()
"""
WAYS = {
    "pai, jobs are scripted": (SCRIPTED, TESTS, ("-n0",)),
    "the same, with pytest-xdist -n2": (SCRIPTED, TESTS, ("-n2",)),
    "pai, jobs run a command": (COMMAND, TESTS, ("-n0",)),
    "pai_mock": (MOCKED, TESTS, ("-n0",)),
    "a server for each test": (OWN_SERVER, ALONE, ("-n0",)),
}
OURS = "pai, jobs are scripted"
BASE = "a server for each test"
PLUGIN = ("-p", "luigi_pai.testing")


def pytest(folder: Path, *words: str) -> str:
    """Run pytest in a folder, in a separate process, and return its output."""
    command = [sys.executable, "-W", "ignore", "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode not in (0, 5):  # 5: no tests
        sys.exit(f"pytest exited with {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done.stdout


def seconds(folder: Path, body: str, tests: int, words: tuple[str, ...]) -> float:
    """Return the seconds of a pytest run with a number of tests."""
    decorated = f"@pytest.mark.parametrize('number', range({tests}))\ndef test_it("
    (folder / "test_it.py").write_text(TASK + body.replace("def test_it(", decorated))
    begin = time.perf_counter()
    out = pytest(folder, *PLUGIN, *words)
    taken = time.perf_counter() - begin
    if f"{tests} passed" not in out:
        sys.exit(f"not all of {tests} tests passed:\n{out}")
    return taken


def cpu_ms(folder: Path, *words: str) -> float:
    """Return the CPU time of a pytest run without tests, in milliseconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    pytest(folder, *words)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def import_ms() -> float:
    """Return the CPU time of importing the file, in milliseconds."""
    code = (
        "import sys, time; sys.path.insert(0, sys.argv[1]); begin = time.process_time(); import runtime; "
        "print(1000 * (time.process_time() - begin))"
    )
    command = [sys.executable, "-c", code, str(Path(luigi_pai.runtime.__file__).parent)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout)


def measure_tests(folder: Path, rounds: int) -> float:
    """Print the time of each way, and return the seconds of the promised one."""
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(rounds):
        for way, (body, tests, words) in WAYS.items():
            times[way].append(seconds(folder, body, tests, words))
    (folder / "test_it.py").unlink()
    base = statistics.median(times[BASE]) / WAYS[BASE][1]
    print(f"{'tests':>5} {'s':>6} {'s each':>7} {'ratio':>6}   medians of {rounds}, with pytest's own start")
    for way, taken in times.items():
        whole, tests = statistics.median(taken), WAYS[way][1]
        print(f"{tests:5} {whole:6.2f} {whole / tests:7.3f} {whole / tests / base:6.3f}   {way}")
    return statistics.median(times[OURS])


def measure_start(folder: Path) -> float:
    """Print and return the CPU milliseconds that the plugin adds to pytest's start."""
    without = ("-p", "no:luigi_pai.testing")
    pairs = [(cpu_ms(folder, *without), cpu_ms(folder, *PLUGIN)) for _ in range(STARTS)]
    added = statistics.median(own - plain for plain, own in pairs)
    plain = statistics.median(plain for plain, _ in pairs)
    print(f"pytest's start: {plain:.0f} ms of CPU time, {added:+.1f} ms with the plugin")
    return added


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds per way (default: %(default)s)")
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pytest.ini").write_text("[pytest]\n")
        whole = measure_tests(folder, rounds)
        added = measure_start(folder)
    imported = statistics.median(import_ms() for _ in range(STARTS))
    print(f"import of luigi_pai.runtime: {imported:.1f} ms of CPU time")
    broken = []
    if whole >= MOST_SECONDS:
        broken.append(f"{TESTS} tests with pai take {whole:.1f} s, not less than {MOST_SECONDS:g}")
    if added >= MOST_START_MS:
        broken.append(f"the plugin adds {added:.1f} ms to pytest's start, not less than {MOST_START_MS:g}")
    if imported >= MOST_IMPORT_MS:
        broken.append(f"importing the runtime takes {imported:.1f} ms, not less than {MOST_IMPORT_MS:g}")
    for line in broken:
        print(f"broken: {line}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
