"""Runs of a PaiTask that find an earlier submission, and submissions whose reply is lost."""

from __future__ import annotations

import pytest
from lives import Life, lives
from train_task import Train


@lives("resume")
def test_a_life(pai, settings, caplog, steps):
    Life(pai, settings, caplog).play(steps)


def test_a_next_attempt_that_another_process_submits_meanwhile_is_taken_over(pai):
    """Its name is in use when this process posts it."""
    pai.add("train", ends_as="FAILED")
    pai.fail("POST", "/jobs$", "nothing", when=lambda _: not pai.add("train__attempt2", runs_for=0.3))
    Train().run()
    assert pai.posts() == ["train", "train__attempt2"]
    assert pai.count("POST", "/jobs$") == 1
    assert Train().complete()


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("release", ["0.7.1", "1.8.0"])
@pytest.mark.parametrize("after", [True, False])
@pytest.mark.parametrize("kind", ["hang", "reset", 500, 503])
def test_a_post_without_an_answer_leaves_exactly_one_job(pai, kind, after, release):
    """Timeout, reset or 5xx, before or after the server took the job: one job is there, and is followed."""
    pai.release = release
    assert not Train().complete()
    pai.fail("POST", "/jobs", kind, after=after)
    Train().run()
    assert pai.posts() == ["train"]
    assert pai.count("POST", "/jobs") == (1 if after else 2)
    assert Train().complete()
