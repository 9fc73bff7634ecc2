"""The progress line of ``luigi-pai run``: the bar of a sweep, and the pipe through which it is told."""

from __future__ import annotations

import importlib
import json
import os

import pytest

from luigi_pai.console import PROGRESS_FD, note_progress, progress_pipe

command = importlib.import_module("luigi_pai.cli.run")  # the package has the command of that name


@pytest.fixture
def shown(monkeypatch, capsys):
    """Draw what is noted; return the line."""
    monkeypatch.setattr(command, "is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "120")

    def draw(*events):
        progress = command._Progress()
        for event in events:
            progress.note(json.dumps(event).encode())
        progress.draw()
        return capsys.readouterr().out

    return draw


COUNTS = {"done": 30, "running": 8, "waiting": 0, "failed": 10, "pruned": 0}


def test_a_sweep_has_a_bar(shown):
    """Of the points that have ended, with what waits, runs and failed, and the best."""
    event = {"sweep": "Study", "total": 100, "best": "best accuracy 0.97 (rate=0.1)", **COUNTS}
    assert shown(event).endswith(
        "Study [########------------] 40/100, 8 running, 10 failed, best accuracy 0.97 (rate=0.1)"
    )


def test_a_search_has_counts_and_no_bar(shown):
    """The number of its points is not known."""
    assert shown({"sweep": "Search", "total": None, "best": "", **COUNTS}).endswith(
        "Search 40 ended, 8 running, 10 failed"
    )


def test_single_jobs_stand_before_it(shown):
    events = [{"job": "a", "state": "SUCCEEDED"}, {"sweep": "Study", "total": 40, "best": "", **COUNTS}]
    assert "1 done, Study [####################] 40/40" in shown(*events)


def test_an_event_is_a_line_in_the_pipe(monkeypatch):
    reading, writing = os.pipe()
    monkeypatch.setenv(PROGRESS_FD, progress_pipe(writing))
    note_progress({"job": "a", "state": "RUNNING"})
    assert os.read(reading, 1000) == b'{"job": "a", "state": "RUNNING"}\n'
    os.close(reading)
    note_progress({"job": "a", "state": "FAILED"})
    assert PROGRESS_FD not in os.environ
    os.close(writing)


def test_another_file_of_the_same_number_stays_as_it_is(monkeypatch, tmp_path):
    """A program that a task starts has the variable, and files of its own."""
    reading, writing = os.pipe()
    monkeypatch.setenv(PROGRESS_FD, progress_pipe(writing))
    path = tmp_path / "results"
    with path.open("w") as file:
        os.dup2(file.fileno(), writing)
        note_progress({"job": "a", "state": "RUNNING"})
    os.close(writing)
    note_progress({"job": "a", "state": "RUNNING"})
    os.close(reading)
    assert path.read_text() == ""
