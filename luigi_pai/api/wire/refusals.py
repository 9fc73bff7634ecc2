"""Explanations of refused jobs: schema errors as text, and what to change."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from luigi_pai.errors import PaiApiError
from luigi_pai.jobspec.rules.refusals import HINTS, schema_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from luigi_pai.errors import PaiHttpError

_EXCERPT = re.compile(r"\n\n *\d+ \|.*", re.DOTALL)  # of js-yaml 4
_NO_RIGHT_IN = re.compile(r"is not allowed to do operation in \S+$")  # of OpenPAI 1.x: a virtual cluster
_INFERENCE = "add it to parameters, or change jobType"


def with_explanation(error: PaiHttpError, request: str) -> PaiHttpError:
    """Return the refusal of a job with its schema errors as text, and with what to change.

    LTP repeats lines of the document in a YAML error. They may contain a secret and are left out;
    the text before them has the line number.

    Args:
        error: the reply to the submission.
        request: method and URL of the submission.
    """
    if error.code == "InvalidProtocolError":
        findings = schema_errors(error.server_message)
        if findings:
            return error.reworded(f"{request}: {error.status} {error.code}: {findings}")
        return error.extended(_INFERENCE) if "for inference job" in error.server_message else error
    if error.code is None:
        new = error.reworded(_EXCERPT.sub("", str(error)))
        new.server_message = _EXCERPT.sub("", error.server_message)
        return new
    hint = HINTS.get(error.code)
    return error.extended(hint) if hint else error


def with_virtual_clusters(
    error: PaiHttpError, setting: str, virtual_clusters: Callable[[], Iterable[str]]
) -> PaiHttpError:
    """Return the refusal of a job; if its virtual cluster is the reason, with the names of all.

    Args:
        error: the reply to the submission.
        setting: where the job names its virtual cluster.
        virtual_clusters: requests the names.
    """
    is_about_it = error.code not in HINTS and (
        error.code in ("NoVirtualClusterError", "NoRightAccessVCError")
        or "virtual cluster" in error.server_message.lower()
        or _NO_RIGHT_IN.search(error.server_message)
    )
    if not is_about_it:
        return error
    try:
        names = ", ".join(sorted(virtual_clusters()))
    except PaiApiError:
        names = ""
    return error.extended(f"check {setting}" + (f"; this cluster has: {names}" if names else ""))
