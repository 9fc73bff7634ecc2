"""Tags of a task's job, by which lists and ``luigi-pai stop`` find it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from luigi_pai.errors import PaiApiError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from luigi_pai.api.rest_api import RestApi
    from luigi_pai.api.status import JobStatus

__all__ = ["add_tags"]

logger = logging.getLogger("luigi-interface")


def add_tags(api: RestApi, status: JobStatus, tags: Sequence[str]) -> None:
    """Add the tags that a job lacks, by one request each; none if its server has no tags.

    An error is logged, and ends it: the job is there and runs, whatever its tags.

    Args:
        api: of the cluster.
        status: of the job, which shows the tags that it has.
        tags: that it is to have.
    """
    if not status.takes_tags:
        return
    for tag in tags:
        if tag in status.tags:
            continue
        try:
            api.add_tag(status.name, tag)
        except PaiApiError as error:
            logger.warning("Job %s runs without the tag %s: %s", status.name, tag, error)
            return
