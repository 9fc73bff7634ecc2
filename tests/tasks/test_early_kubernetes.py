"""Many tasks in forked workers: on 0.15 to 1.0, which look like v1, under request limits, and on nobody."""

from __future__ import annotations

import contextlib
import math

import pytest
from faulty_pai import PASSWORD, FaultyPai
from luigi_process import run_pipeline

pytestmark = pytest.mark.slow

LIST_EVERY = 10.0  # seconds


@pytest.fixture
def server():
    """A rest-server whose jobs run for a moment."""
    with contextlib.closing(FaultyPai()) as pai:
        pai.plan = {"runs_for": 1.5}
        yield pai


def openpai(url: str, **more) -> dict:
    """Return the settings of a user who leaves api_version alone and has no HDFS."""
    return {"pai_url": url, "username": "admin", "password": PASSWORD, "poll_min": 0.2, **more}


def test_eight_tasks_in_four_workers(server, tmp_path):
    """All jobs are submitted once, with one login and one question, and a fresh process submits nothing.

    Of nine submissions an hour, eight tasks take eight: on 1.0 a refused one counts as well.
    """
    server.release, server.limits = "1.0.1", {"call": 600, "list": 60, "submit": 9}
    first = run_pipeline(tmp_path, openpai(server.url), count=8, workers=4)
    assert first.done, first.log[-3000:]
    assert sorted(server.posts()) == sorted(f"train-{number}" for number in range(8))
    asked = {
        "submissions": server.submissions,
        "submissions that count": server.limits.counts["submit"],
        "refused submissions": server.refused_submissions,
        "refusals": server.count_answers(429),
        "logins": server.logins,
        "dialect questions": server.dialect_questions,
    }
    assert list(asked.values()) == [8, 8, 0, 0, 1, 1], asked
    assert server.lists <= 1 + first.took // LIST_EVERY
    again = run_pipeline(tmp_path, openpai(server.url), "complete", count=8, workers=2)
    assert (again.complete, again.done) == (True, True)
    assert len(server.jobs) == server.submissions == 8


def test_six_workers_share_the_request_limit(server, tmp_path):
    """Six processes keep one limit of 24 calls and meet no 429; its minute lasts six seconds here."""
    server.release = "1.8.0"
    server.plan = {"runs_for": 4.0}
    server.limits = {"call": (24, 6.0), "list": 60, "submit": 60}
    result = run_pipeline(tmp_path, openpai(server.url), count=6, workers=6)
    assert result.done, result.log[-3000:]
    assert len(server.jobs) == 6
    assert server.count_answers(429) == 0


def test_an_address_without_a_server_is_not_asked_fifty_times(server, tmp_path):
    """Where nobody answers, the first tasks find out and the others are told."""
    server.fail("*", "", "reset", times=math.inf)
    result = run_pipeline(tmp_path, openpai(server.url), "apart", count=50, workers=1)
    assert not result.done
    assert 1 <= server.connections <= 5
