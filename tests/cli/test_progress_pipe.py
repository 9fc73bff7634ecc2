"""The pipe to the progress line of ``luigi-pai run``."""

from __future__ import annotations

import os

from luigi_pai.console import PROGRESS_FD, note_progress, progress_pipe


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
