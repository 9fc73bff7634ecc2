"""The text of the progress line of ``luigi-pai run``."""

from __future__ import annotations

from luigi_pai.cli.run import Progress


def shown(*events):
    """Return the line after some events."""
    progress = Progress()
    for event in events:
        progress.record(event)
    return progress.line()


COUNTS = {"done": 30, "running": 8, "waiting": 0, "failed": 10, "pruned": 0}


def test_a_sweep_has_a_bar():
    """Of the points that have ended, with what waits, runs and failed, and the best."""
    event = {"sweep": "Study", "total": 100, "best": "best accuracy 0.97 (rate=0.1)", **COUNTS}
    assert shown(event).endswith(
        "Study [########------------] 40/100, 8 running, 10 failed, best accuracy 0.97 (rate=0.1)"
    )


def test_a_search_has_counts_and_no_bar():
    """The number of its points is not known."""
    assert shown({"sweep": "Search", "total": None, "best": "", **COUNTS}).endswith(
        "Search 40 ended, 8 running, 10 failed"
    )


def test_single_jobs_stand_before_it():
    events = [{"job": "a", "state": "SUCCEEDED"}, {"sweep": "Study", "total": 40, "best": "", **COUNTS}]
    assert "1 done, Study [####################] 40/40" in shown(*events)
