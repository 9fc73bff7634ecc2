"""A cluster and its server over time: the stories of ``tests/data/api/stories.yaml``."""

from __future__ import annotations

import pytest
from api_stories import Story, stories


@pytest.fixture
def story(faulty, clock, new_cluster):
    return Story(faulty, clock, new_cluster)


@stories("submitting")
def test_submissions(story, steps):
    """Each job is submitted once, whatever the server does."""
    story.play(steps)


@stories("newest")
def test_the_newest_submission(story, steps):
    """The newest submission of a piece of work is found with few requests."""
    story.play(steps)


@stories("many")
def test_many_jobs(story, steps):
    """Many jobs looked up one by one are answered by one list."""
    story.play(steps)


@stories("job")
def test_a_job(story, steps):
    """A handle waits for its job, and tells how it ended."""
    story.play(steps)


@pytest.mark.slow
@stories("watching")
def test_watched_jobs(story, steps):
    """Many jobs are watched by lists, and few lookups of single jobs."""
    story.play(steps)


@stories("cluster")
def test_a_cluster(story, steps):
    """The dialect, the cached statuses, and the repeated requests of a cluster."""
    story.play(steps)
