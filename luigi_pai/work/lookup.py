"""Looks up a piece of work's newest submission, and everything else needed to decide what to do with it."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from luigi_pai.api.book.entries import Entry
from luigi_pai.errors import PaiError, PaiWorkConflict, Problem, SpecError
from luigi_pai.work.decide import Refuse, Situation, decide, is_same_class, other_work
from luigi_pai.work.evidence import Evidence
from luigi_pai.work.record import record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from luigi_pai.work.decide import Decision
    from luigi_pai.work.piece import Origin, Work

logger = logging.getLogger("luigi-interface")

_PATIENCE = 2.0  # how long a lookup outside a run retries transient errors, in seconds


def look_up(
    work: Work,
    evidence: Evidence,
    *,
    max_age: float = 0.0,
    patience: float | None = None,
    sleep: Callable[[float], None] | None = None,
    is_trusted: bool = True,
) -> Situation:
    """Look up a piece of work, and return the situation, from which the next step is decided.

    Args:
        work: The work.
        evidence: The evidence about the work.
        max_age: How old a reused lookup may be, in seconds.
        patience: How long to retry transient errors, in seconds; by default, the cluster's setting.
        sleep: Waits for a number of seconds.
        is_trusted: Whether a response without owner and submission time, as in mocked tests, counts as a
            submission.

    Raises:
        SpecError: Another task of this process has the same name but another job, or the same output folder.
        PaiNameTaken, PaiApiError, HdfsError: See ``Book.latest``.
    """
    check_unique(work)
    found = work.book.latest(work.name, evidence, max_age=max_age, patience=patience, sleep=sleep)
    if found is not None and found.status is not None and not (found.status.identified or is_trusted):
        found = None
    return situation(work, evidence, found)


def situation(work: Work, evidence: Evidence, entry: Entry | None) -> Situation:
    """Return the situation, from which the next step for a piece of work's newest submission is decided.

    Raises:
        PaiError: the claims or the outputs cannot be read.
    """
    api, kind = work.book.api, work.kind
    known = Situation(name=work.name, kind=kind, folder=work.folder, entry=entry)
    if entry is not None and entry.failed:
        return known
    is_known = entry is not None and entry.status is not None
    try:
        claim = evidence.last()
    except PaiError as error:
        if not is_known:
            raise
        claim = None  # success does not depend on the claim
        logger.debug("The claims of %s cannot be read: %s", work.name, error)
    if claim is not None:
        is_same = not claim.task or is_same_class(claim.task, kind)
        known = replace(
            known,
            claim=claim,
            digest=None if is_same else work.digest,
            age=api.clock.time() - claim.claimed_ms / 1000,
        )
    if is_known:
        return replace(known, page="" if entry is None else api.page(entry.job))
    return replace(
        known,
        is_complete=evidence.is_complete(),
        own_name="" if claim is None else work.job_name(claim.number),
        retention=0.0 if claim is None or not evidence.is_durable else api.retention(),
        cluster=api.url,
        section=api.section,
        on_forgotten=work.options["on_forgotten"],
        is_durable=evidence.is_durable,
    )


def decision(work: Work) -> Decision:
    """Return the next step for a run that starts now, retrying transient errors for at most 2 s.

    If the submission has finished, its final state is recorded.

    Raises:
        PaiWorkConflict: other work has used the name.
        PaiNameTaken, PaiOutputElsewhere, PaiApiError, HdfsError: for the reasons given in ``complete()``.
    """
    evidence = Evidence(work)
    known = look_up(work, evidence, patience=min(_PATIENCE, work.book.api.polling.patience))
    decided, entry = decide(known), known.entry
    if isinstance(decided, Refuse) and isinstance(decided.error, PaiWorkConflict):
        raise decided.error
    if entry is not None and entry.status is not None and entry.status.finished:
        record(work, evidence, entry, watched=False)
    return decided


def check_same_work(work: Work) -> None:
    """Check that a name's last submission does not belong to other work, before its result is read.

    Raises:
        PaiWorkConflict: it belongs to another class with another job.
        PaiError: the claims cannot be read.
    """
    claim = Evidence(work).last()
    if claim is not None and claim.task and not is_same_class(claim.task, work.kind):
        entry = Entry(claim.number, claim.job, None)
        known = Situation(work.name, work.kind, work.digest, entry=entry, claim=claim)
        if (conflict := other_work(known)) is not None:
            raise conflict


def check_unique(work: Work) -> None:
    """Check that no other work in this process has this name and a different job, or this output folder.

    The check fails for both pieces of work, so nothing is sent if both are known before the first one is
    submitted. Other work whose last submission failed is not compared, because its next submission may be
    another job.

    Raises:
        SpecError: other work has the name and a different job, or has the output folder.
    """
    for other in _others(work, ("work", work.name)):
        if other.digest != work.digest:
            reason = (
                f"two different tasks have it: {other.origin} and {work.origin}. One of them would get the "
                "result of the other; include the parameter that distinguishes them in the name, such as "
                'name = f"train-{self.rate}"'
            )
            raise SpecError(work.name, [Problem("name", reason)])
    if work.folder is None or work.name in work.folder.split("/"):  # such a folder belongs to the name
        return
    for other in _others(work, ("folder", work.folder)):
        if other.name != work.name:
            reason = (
                f"{work.folder} is the output folder of two tasks, {other.origin} and {work.origin}. One of "
                "them would overwrite the output of the other; give each its own folder, for example "
                "one that contains self.name"
            )
            raise SpecError(work.name, [Problem("output_dir", reason)])


def _others(work: Work, key: tuple[str, str]) -> Iterator[Work]:
    """Yield the other work that used a name or folder before, without work that failed."""
    own = work.origin
    users: tuple[Origin, ...] = work.book.remembered(key, lambda: (own,))
    if all(origin is not own for origin in users):
        users = (*(origin for origin in users if origin.task_id != own.task_id), own)
        work.book.remember(key, users)
    for origin in users:
        if origin is not own:
            other = work.from_origin(origin)
            known = work.book.cached_entry(other.name)
            if known is None or not known.failed:
                yield other
