"""A cluster and its server over time: the stories of ``tests/data/api/stories.yaml``."""

from __future__ import annotations

from api_stories import Story, stories


@stories()
def test_a_story(faulty, clock, new_cluster, steps):
    """Each job is submitted once and found with few requests, whatever the server does.

    The sections are about posts, the newest submission of some work, lists for many lookups, a handle,
    watched jobs, and the dialect and cached statuses of a cluster.
    """
    Story(faulty, clock, new_cluster).play(steps)
