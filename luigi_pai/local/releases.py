"""The releases that the local server can emulate; each `Release` describes its REST API and launcher.

OpenPAI 0.7 uses FrameworkLauncher on YARN. FrameworkLauncher's rules come from its RetryPolicyDescriptor and
its user manual. OpenPAI 1.x and LTP use FrameworkController on Kubernetes. Whether FrameworkController
retries a failure depends on the exit code, as defined by the exit specification (v1.8.0,
src/k8s-job-exit-spec). The explanations of the exit codes were written for luigi_pai; they are not OpenPAI's.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

EXIT_LOST = -101
"""The task's process vanished without an exit code."""

EXIT_STOPPED = -210
"""The user stopped the job."""

EXIT_JOB_ENDED = -220
"""The task was stopped because its job attempt was over."""

_EXIT_NO_PORTS = 253
"""No port was free for the task."""

EXIT_UNRECOGNISED = 255
"""The command failed for an unknown reason."""

_OTHER_POSITIVE, _OTHER_NEGATIVE = 256, -8000
_REACTIONS = {
    "TRANSIENT": "ALWAYS_RETRY",
    "TRANSIENT_CONFLICT": "ALWAYS_BACKOFF_RETRY",
    "PERMANENT": "NEVER_RETRY",
    "UNKNOWN": "RETRY_TO_MAX",
}
_KEYS = ("issuer", "causer", "type", "stage", "behavior")


def _parse(table: str) -> tuple[dict[int, dict[str, str]], dict[int, list[str]]]:
    """Return each exit code's specification, and the log patterns that lead to the code.

    A line without indentation has a value for each of `_KEYS`, which applies to the exit codes below it.
    An indented line has an exit code, its phrase, and a sentence that explains it. The lines below it, with
    more indentation, are the patterns.
    """
    specs: dict[int, dict[str, str]] = {}
    patterns: dict[int, list[str]] = {}
    shared: dict[str, str] = {}
    code = 0
    for line in table.splitlines():
        if line.startswith(" " * 4):
            patterns.setdefault(code, []).append(line.strip())
        elif line.startswith(" "):
            number, phrase, *reason = line.split(maxsplit=2)
            code = int(number)
            specs[code] = {**shared, "phrase": phrase, **({"reason": reason[0]} if reason else {})}
        else:
            shared = dict(zip(_KEYS, line.split(), strict=True))
    return specs, patterns


_SPECS, EXIT_PATTERNS = _parse(Path(__file__).with_name("exit_codes.txt").read_text("utf-8"))
"""``EXIT_PATTERNS`` maps exit codes to lower-case regular expressions; ``.*`` does not match line breaks."""


def reaction(code: int) -> str:
    """Return ALWAYS_RETRY, ALWAYS_BACKOFF_RETRY, RETRY_TO_MAX (up to a limit) or NEVER_RETRY for a code."""
    return "NEVER_RETRY" if code == 0 else _REACTIONS[_spec(code)["behavior"]]


def exit_spec(code: int | None) -> dict[str, Any] | None:
    """Return the API's description of an exit code, with keys in alphabetical order; None for None."""
    if code is None:
        return None
    shown: dict[str, Any] = {**_spec(code), "code": code, "reaction": reaction(code)}
    shown["repro"] = [f"A task ends with exit code {code}"]
    if shown["type"] not in ("USER_SUCCESS", "USER_STOP"):
        shown["solution"] = ["Read the log of the task that failed"]
    return dict(sorted(shown.items()))


def _spec(code: int) -> dict[str, str]:
    return _SPECS.get(code) or _SPECS[_OTHER_POSITIVE if code > 0 else _OTHER_NEGATIVE]


_RETRY_ALWAYS = -2
"""With this limit, every attempt is retried, even if it succeeds; 1.x and LTP exclude permanent failures."""
_RETRY_FAILURES = -1
"""With this limit, every failure that is not permanent is retried; a success is not."""


@dataclass(frozen=True)
class RetryDecision:
    """Whether an ended attempt is retried, and whether the retry counts against the limit."""

    retry: bool
    counted: bool = False


_EXIT_STOPPED = 214
_EXITS_TRANSIENT = (137, 143, 154, 205)
"""Exit codes for failures that are always retried. For 137 (SIGKILL), 143 (SIGTERM) and 154, the launcher
assumes that a machine failed; with 205, the command itself requests a retry."""
_EXIT_PERMANENT = 206

_FIRST_CONTAINER = 2  # number of the first task's container; number 1 is the application master

_EXIT_TYPES = {
    0: "SUCCEEDED",
    **dict.fromkeys(_EXITS_TRANSIENT, "TRANSIENT_NORMAL"),
    _EXIT_PERMANENT: "NON_TRANSIENT",
    _EXIT_STOPPED: "NON_TRANSIENT",
}


def _exit_type_on_yarn(exit_code: int) -> str:
    return _EXIT_TYPES.get(exit_code, "UNKNOWN")


def _decide_by_type(retry_count: int, exit_code: int, counted_retries: int) -> RetryDecision:
    """Decide by exit type whether to retry. A retryCount of -1 means no limit, -2 also retries successes."""
    if retry_count == _RETRY_ALWAYS:
        return RetryDecision(retry=True, counted=True)
    kind = _exit_type_on_yarn(exit_code)
    if kind == "TRANSIENT_NORMAL":
        return RetryDecision(retry=True)
    if kind != "UNKNOWN":
        return RetryDecision(retry=False)
    retry = retry_count == _RETRY_FAILURES or counted_retries < retry_count
    return RetryDecision(retry=retry, counted=True)


def _yarn_id(application_id: str, number: int) -> str:
    container = application_id.replace("application", "container")
    return f"{container}_01_{number + _FIRST_CONTAINER:06d}"


def _decide_by_spec(retry_count: int, exit_code: int, counted_retries: int) -> RetryDecision:
    """Decide by the exit specification.

    With a limit of -1, failures are retried forever; with -2, successes are also retried. Only taskRetryCount
    can be negative. A permanent failure is never retried, whatever the limit.
    """
    if not exit_code:
        always = retry_count == _RETRY_ALWAYS
        return RetryDecision(retry=always, counted=always)
    kind = reaction(exit_code)
    if kind != "RETRY_TO_MAX":
        return RetryDecision(retry=kind != "NEVER_RETRY")
    unlimited = retry_count in (_RETRY_ALWAYS, _RETRY_FAILURES)
    return RetryDecision(retry=unlimited or counted_retries < retry_count, counted=True)


def _exit_type_on_kubernetes(exit_code: int) -> str:
    return "Failed" if exit_code else "Succeeded"


STOPPED_MESSAGE = "User has requested to stop the Framework"
"""FrameworkController's diagnostics for a job that a user stopped."""


@dataclass(frozen=True, kw_only=True)
class Release:
    """A release of OpenPAI, or of its successor LTP.

    The functions that prepare and show jobs are in other modules, which choose them by ``api``.

    Attributes:
        name: its usual name.
        api: ``v1`` or ``v2``, the API that its jobs are submitted to.
        log_streams: the names of a task's logs.
        spec_release: the release whose rules ``luigi_pai.jobspec`` uses to check a job.
        exit_stopped: exit code of a job that a user stopped.
        stopped_message: diagnostics of a job that a user stopped.
        stopped_codes: the exit codes for which a job's state is STOPPED (not FAILED).
        exit_type: returns the launcher's type for an exit code, such as ``NON_TRANSIENT`` or ``Failed``.
        decide_retry: decides whether to retry, given the retry limit, the exit code, and the number of
            retries that have counted against the limit.
        container_id: returns a task's container id, given the attempt's application id and the task's
            number within the attempt, from 0.
        shows_stopping: whether a job that is being stopped is shown as STOPPING; if False, as RUNNING.
        exit_lost: exit code of an attempt whose processes vanished without exit codes; None if it gets none.
        exit_attempt_over: exit code of a task that was running when its attempt ended; None if it gets none.
        exit_no_ports: exit code of an attempt that got no ports; None if the job waits for ports instead.
        has_events: whether job events are recorded.
        window_per_key: whether a rate limit's window starts with the first request from an address or
            user, and ``Retry-After`` is the rest of the window; if False, the first window starts with the
            server, and ``Retry-After`` is a whole window.
        has_hdfs: whether the release's clusters have an HDFS; if False, they have storages.
        version: the version in ``GET /api/v2/info``.
        failed_lookup: message of the 500 UnknownError for a job or attempt that does not exist; if None,
            the response is another error, which names the missing job or attempt.
        private_jobs: whether only a job's owner and administrators may get the job, its config, events and
            logs. Even then, lists show all users' jobs, and anyone may get a task's attempts.
        own_virtual_clusters: whether virtual clusters, and the jobs in them, are listed only for users who
            may use the virtual cluster.
        job_types: whether a job has a type, which is added to its tags and can be used to filter lists.
        started_by_site: runtime plugins that a real cluster implements itself; the local server ignores them.
    """

    name: str
    api: str
    log_streams: tuple[str, ...]
    spec_release: str
    exit_stopped: int
    stopped_message: str
    stopped_codes: tuple[int, ...]
    exit_type: Callable[[int], str]
    decide_retry: Callable[[int, int, int], RetryDecision]
    container_id: Callable[[str, int], str]
    shows_stopping: bool = False
    exit_lost: int | None = None
    exit_attempt_over: int | None = None
    exit_no_ports: int | None = None
    has_events: bool = False
    window_per_key: bool = False
    has_hdfs: bool = False
    version: str = ""
    failed_lookup: str | None = None
    private_jobs: bool = False
    own_virtual_clusters: bool = False
    job_types: bool = False
    started_by_site: frozenset[str] = frozenset()

    def ended_state(self, exit_code: int | None) -> str:
        """Return the state of an ended job, attempt or task: SUCCEEDED, STOPPED or FAILED."""
        if exit_code == 0:
            return "SUCCEEDED"
        return "STOPPED" if exit_code in self.stopped_codes else "FAILED"


OPENPAI_0_7_1 = Release(
    name="OpenPAI 0.7.1",
    api="v1",
    log_streams=("stdout", "stderr"),
    spec_release="0.7.1",
    exit_stopped=_EXIT_STOPPED,
    stopped_message="UserApplication killed due to StopFrameworkRequest",
    stopped_codes=(_EXIT_STOPPED,),
    exit_type=_exit_type_on_yarn,
    decide_retry=_decide_by_type,
    container_id=_yarn_id,
    has_hdfs=True,
)

OPENPAI_1_8 = Release(
    name="OpenPAI 1.8",
    api="v2",
    log_streams=("stdout", "stderr", "runtime"),
    spec_release="1.8.0",
    version="v1.8.0",
    exit_stopped=EXIT_STOPPED,
    stopped_message=STOPPED_MESSAGE,
    stopped_codes=(EXIT_STOPPED, EXIT_JOB_ENDED),
    exit_type=_exit_type_on_kubernetes,
    decide_retry=_decide_by_spec,
    container_id=lambda _application_id, _number: str(uuid.uuid4()),
    shows_stopping=True,
    exit_lost=EXIT_LOST,
    exit_attempt_over=EXIT_JOB_ENDED,
    exit_no_ports=_EXIT_NO_PORTS,
    has_events=True,
)

LTP_1_5 = replace(
    OPENPAI_1_8,
    name="LTP 1.5",
    version="v1.8.1",
    spec_release="ltp-1.5",
    failed_lookup="Failed to retrieve job {}.",
    private_jobs=True,
    own_virtual_clusters=True,
    job_types=True,
    started_by_site=frozenset({"dind"}),
    window_per_key=True,
)


RELEASES: Mapping[str, Release] = {"v1": OPENPAI_0_7_1, "v2": OPENPAI_1_8, "ltp": LTP_1_5}
"""The release for each value of ``--api``."""
