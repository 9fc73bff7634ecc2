"""Many tasks in forked workers: on 0.15 to 1.0, which look like v1, under request limits, and on nobody."""

from __future__ import annotations

import math

import pytest
from faulty_pai import PASSWORD, FaultyPai
from luigi_process import run_pipeline

pytestmark = pytest.mark.slow

LIST_EVERY = 10.0  # seconds


@pytest.fixture
def server():
    """A rest-server whose jobs run for a moment."""
    pai = FaultyPai()
    pai.plan = {"runs_for": 1.5}
    yield pai
    pai.close()


def openpai(url: str, **more) -> dict:
    """Return the settings of a user who leaves api_version alone and has no HDFS."""
    return {"pai_url": url, "username": "admin", "password": PASSWORD, "poll_min": 0.2, **more}


def test_eight_tasks_in_four_workers(server, tmp_path):
    """All jobs are submitted once, the wrapper succeeds, and it has taken one login and one question."""
    server.release = "1.0.1"
    first = run_pipeline(tmp_path, openpai(server.url), count=8, workers=4)
    assert first.done, first.log[-3000:]
    assert sorted(server.posts()) == sorted(f"train-{number}" for number in range(8))
    asked = {
        "submissions": server.submissions,
        "refused submissions": server.refused_submissions,
        "logins": server.logins,
        "dialect questions": server.dialect_questions,
    }
    assert asked == {"submissions": 8, "refused submissions": 0, "logins": 1, "dialect questions": 1}
    assert server.lists <= 1 + first.took // LIST_EVERY


def test_a_rerun_finds_everything_done(server, tmp_path):
    """A fresh process sees that the wrapper is complete, and submits nothing."""
    server.release = "0.15.0"
    assert run_pipeline(tmp_path, openpai(server.url), count=3, workers=2).done
    assert len(server.jobs) == server.submissions == 3
    again = run_pipeline(tmp_path, openpai(server.url), "complete", count=3, workers=2)
    assert again.complete
    assert again.done
    assert len(server.jobs) == server.submissions == 3


def test_submissions_are_not_spent_on_questions(server, tmp_path):
    """Of six submissions an hour, four tasks take four: on 1.0 a refused one counts as well."""
    server.release = "1.0.1"
    server.limits = {"call": 600, "list": 60, "submit": 6}
    assert run_pipeline(tmp_path, openpai(server.url), count=4, workers=4).done
    assert server.submissions == server.limits.counts["submit"] == 4
    assert server.count_answers(429) == 0


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
