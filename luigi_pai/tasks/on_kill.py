"""OnKill: what becomes of the job of a task when its process is ended."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from luigi_pai.errors import PaiError

if TYPE_CHECKING:
    from luigi_pai.api.rest_api import RestApi
    from luigi_pai.tasks.options import Options

__all__ = ["OnKill", "continues", "submission_unknown"]

logger = logging.getLogger("luigi-interface")


class OnKill:
    """Stops the job that is being submitted or watched if ``on_kill`` says so, and logs what becomes of it.

    Args:
        api: of the cluster.
        options: of the task.
    """

    def __init__(self, api: RestApi, options: Options) -> None:
        self._api = api
        self._options = options
        self._name = ""
        self._is_there = False

    def posting(self, name: str) -> None:
        """Record that a job is being submitted."""
        self._name, self._is_there = name, False

    def watching(self, name: str) -> None:
        """Record that a job is on the server and has not ended."""
        self._name, self._is_there = name, True

    def over(self) -> None:
        """Record that there is no such job any more."""
        self._name = ""

    def act(self) -> None:
        """Stop the job if ``on_kill`` says so, or log that it goes on."""
        if not self._name:
            return
        why = ""
        if self._options["on_kill"] == "stop":
            try:
                self._api.stop_surely(self._name)
            except PaiError as error:
                why = f"job {self._name} could not be stopped ({error}): "
            else:
                logger.warning("Interrupted: job %s was asked to stop", self._name)
                return
        rest = continues(self._api, self._name) if self._is_there else submission_unknown(self._name)
        logger.warning("Interrupted: %s%s", why, rest)


def continues(api: RestApi, name: str) -> str:
    """Return the text about a job that goes on."""
    page = api.page(name)
    return f"job {name} continues ({page}); to take it over, run the task again; to stop it, use its page"


def submission_unknown(name: str) -> str:
    """Return the text about a job whose submission has no reply."""
    return f"job {name} may have been submitted; run the task again: it looks up the job first"
