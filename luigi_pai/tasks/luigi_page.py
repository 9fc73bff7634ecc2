"""A running task on Luigi's web page: the link to the task's job, and the form that can stop the job.

Each task on the page of ``luigid`` (Luigi 3.2, 3.8) has three icons: the eye links to the job's page; the
speech bubble opens the status message and the progress, updated twice a second; the paper plane opens a form
for messages, which shows the response only if "Await response" is ticked. The list of tasks is read only
when the page is loaded. When the task has finished, the link and the status message remain, but the form is
removed. With ``--local-scheduler`` there is no page, and with ``send_messages = false`` in [scheduler] there
is no form.
"""

from __future__ import annotations

import html
import logging
import math
import queue
from typing import TYPE_CHECKING, Any

import luigi
import luigi.configuration
import luigi.scheduler
import luigi.worker
from luigi.task_status import RUNNING

from luigi_pai.config_file import configuration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from luigi_pai.api.clock import Clock

logger = logging.getLogger("luigi-interface")

_QUIET = 600.0  # seconds without reports after a scheduler error


class LuigiPage:
    """A running task's web page. If Luigi's scheduler does not respond, the task continues.

    Luigi repeats a failing request for a minute, so nothing is reported for ten minutes after an error.

    Args:
        task: The task.
        clock: The cluster's clock.
    """

    def __init__(self, task: luigi.Task, clock: Clock) -> None:
        self._task = task
        self._clock = clock
        self._quiet_until = -math.inf

    def link(self, url: str) -> None:
        """Add a link to a job's page."""
        self._reports(lambda: _link_job_page(self._task, url))

    def report(self, callback: str, value: object) -> None:
        """Call one of the callbacks that a Luigi worker sets on a running task.

        Args:
            callback: The callback's name, such as ``set_status_message``.
            value: The callback's argument; a string is escaped for the page.
        """
        report: Callable[[object], None] | None = getattr(self._task, callback, None)
        if report is not None:
            self._reports(lambda: report(escaped(value) if isinstance(value, str) else value))

    def _reports(self, report: Callable[[], object]) -> None:
        if self._clock.monotonic() < self._quiet_until:
            return
        try:
            report()
        except Exception as error:  # noqa: BLE001  Luigi's RPCError, or an error of its HTTP library
            reason = str(error).partition("\n")[0] or type(error).__name__
            message = "The page of %s is not up to date, because Luigi's scheduler is failing: %s"
            logger.warning(message, self._task, reason)
            self._quiet_until = self._clock.monotonic() + _QUIET


def _link_job_page(task: luigi.Task, url: str) -> None:
    """Add a link to a job's page to its task's web page.

    Luigi's callback (3.2 to 3.8) registers the task again as a task that accepts no messages, which removes
    the form for messages. If the callback is Luigi's, the task is therefore registered here instead.
    """
    callback: Callable[[str], None] | None = getattr(task, "set_tracking_url", None)
    if callback is None:
        return
    reporter: Any = getattr(callback, "__self__", None)
    if not (task.accepts_messages and isinstance(reporter, luigi.worker.TaskStatusReporter)):
        callback(url)
        return
    reporter._scheduler.add_task(  # noqa: SLF001  like TaskStatusReporter.update_tracking_url
        task_id=reporter._task_id,  # noqa: SLF001
        worker=reporter._worker_id,  # noqa: SLF001
        status=RUNNING,
        tracking_url=url,
        accepts_messages=True,
    )


def escaped(message: str) -> str:
    """Return a string escaped for the page, which inserts status messages and responses as HTML.

    They may contain a container's output.
    """
    return html.escape(message, quote=False)


def has_page() -> bool:
    """Return whether there is a web page that may send messages; False with ``--local-scheduler``.

    Luigi's worker needs a queue (two open files) for each running task that accepts messages.
    A task cannot detect ``luigi.build(..., local_scheduler=True)``, so the result may be True there.
    """
    kept = configuration().kept
    if has_page not in kept:
        known = getattr(configuration().options, "known_args", None)
        is_local = getattr(known, "core_local_scheduler", None)
        if is_local is None:
            is_local = luigi.configuration.get_config().getboolean("core", "local_scheduler", False)
        kept[has_page] = not is_local
    return bool(kept[has_page])


def may_send_messages(task: luigi.Task) -> bool:
    """Return whether a running task's scheduler has a web page, which may send the task messages."""
    reporter = getattr(getattr(task, "set_status_message", None), "__self__", None)
    is_local = isinstance(getattr(reporter, "_scheduler", None), luigi.scheduler.Scheduler)
    return getattr(task, "scheduler_messages", None) is not None and not is_local


def responding(task: object, seconds: float, clock: Clock, respond: Callable[[str], str]) -> Iterator[str]:
    """Wait for ``seconds``. Meanwhile, answer and yield each message that the scheduler sends to the task.

    Args:
        task: The task.
        seconds: How long to wait.
        clock: The cluster's clock.
        respond: Returns the response to a message.
    """
    messages = getattr(task, "scheduler_messages", None)
    if messages is None:
        clock.sleep(seconds)
        return
    end = clock.monotonic() + seconds
    while (left := end - clock.monotonic()) > 0:
        try:
            message = clock.get(messages, left)
        except queue.Empty:
            return
        command = str(message).strip()
        message.respond(escaped(respond(command)))
        yield command
