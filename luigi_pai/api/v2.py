"""The v2 dialect, of OpenPAI 0.15 to 1.8: paths and bodies."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from luigi_pai.api.job_replies import job_status, listed_jobs
from luigi_pai.api.limits import Kind
from luigi_pai.errors import InvalidReply, PaiHttpError

if TYPE_CHECKING:
    import builtins
    from collections.abc import Iterable, Mapping

    from luigi_pai.api.session import Session
    from luigi_pai.api.status import JobStatus

__all__ = ["LogFile", "V2Dialect"]

_API = "/api/v2"
_JOBS = f"{_API}/jobs"
_PAGE = 5000  # the servers' default; they take up to 50,000
_MOST_PAGES = 200


@dataclass(frozen=True)
class LogFile:
    """A log of a task.

    Attributes:
        name: ``stdout``, ``stderr``, ``all``, ``runtime.log``.
        uri: where it is, relative to the cluster's site; it carries what is
            needed to read it, and is not shown.
    """

    name: str
    uri: str = field(repr=False)


class V2Dialect:
    """The calls of the v2 dialect. Errors are those of ``Session.request``.

    A job's full name is ``USER~NAME``; every method takes the NAME of a job of the
    session's user.

    Args:
        session: the connection to the rest-server.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._user = session.account.username

    # jobs

    def submit(self, protocol: str) -> None:
        """Post a job protocol, YAML text; the server has taken it when this returns (202).

        Raises:
            PaiHttpError: with what the server finds wrong, as one line each.
        """
        try:
            self._session.request("POST", _JOBS, body=protocol, content_type="text/yaml", kind=Kind.SUBMIT)
        except PaiHttpError as error:
            findings = _findings(error.server_message) if error.code == "InvalidProtocolError" else ""
            if not findings:
                raise
            raise type(error)(
                f"POST {self._session.url(_JOBS)}: {error.status} {error.code}: {findings}",
                status=error.status,
                code=error.code,
                server_message=error.server_message,
            ) from None

    def status(self, name: str) -> JobStatus:
        """Return what the server says of a job now."""
        return job_status(name, self._session.request("GET", self._path(name)))

    def attempt(self, name: str, number: int) -> JobStatus:
        """Return what the server says of a start of a job by the cluster, counted from 0 (1.1 and later)."""
        return job_status(name, self._session.request("GET", f"{self._path(name)}/attempts/{number}"))

    def list(
        self,
        username: str | None = None,
        *,
        keyword: str | None = None,
        states: Iterable[str] = (),
        virtual_clusters: Iterable[str] = (),
        tags: Iterable[str] = (),
        order: str | None = None,
        limit: int | None = None,
    ) -> list[JobStatus]:
        """Return jobs that the server still knows, in its order, page after page.

        Releases before 1.2 know no filter but ``username`` (0.16 and later), and those
        before 1.3 no tags: they answer with more.

        Args:
            username: their owner; all users' where not given.
            keyword: text that is part of their name, owner or virtual cluster.
            states: ``WAITING``, ``RUNNING``, ...
            virtual_clusters: where they run.
            tags: of which they have one.
            order: ``FIELD,ASC`` or ``FIELD,DESC``, FIELD of jobName, submissionTime,
                username, vc, retries, totalTaskNumber, totalGpuNumber, state,
                completionTime; newest first where not given.
            limit: how many at most; all where not given.
        """
        several = {"state": states, "vc": virtual_clusters, "tagsContain": tags}
        query = {key: ",".join(values) for key, values in several.items()}
        query |= {"username": username or "", "keyword": keyword or "", "order": order or ""}
        query = {key: value for key, value in query.items() if value}
        jobs: dict[tuple[str | None, str], JobStatus] = {}
        for page in range(_MOST_PAGES):
            size = _PAGE if limit is None else min(_PAGE, limit - len(jobs))
            shown = urlencode({**query, "offset": page * _PAGE, "limit": size})
            rows = listed_jobs(self._session.request("GET", f"{_JOBS}?{shown}", kind=Kind.LIST))
            known = len(jobs)
            for job in rows:
                jobs.setdefault((job.username, job.name), job)
            enough = limit is not None and len(jobs) >= limit
            if len(rows) != size or len(jobs) == known or enough:  # the last page, or a server without pages
                break
        mine = [job for job in jobs.values() if username is None or job.username in (None, username)]
        return mine[:limit]

    def stop(self, name: str) -> None:
        """Ask the server to stop a job."""
        self._session.request("PUT", f"{self._path(name)}/executionType", body={"value": "STOP"})

    def config(self, name: str) -> dict[str, Any]:
        """Return the job protocol that a job was submitted with, its secrets as ``******``."""
        return self._object(f"{self._path(name)}/config")

    # what a job has

    def logs(
        self,
        name: str,
        role: str,
        index: int = 0,
        *,
        job_attempt: int = 0,
        task_attempt: int = 0,
        tail: bool = False,
    ) -> tuple[LogFile, ...]:
        """Return the logs of a task (1.4 and later; before, ``TaskStatus.log_url`` is a page).

        Args:
            name: of the job.
            role: of the task, as the server shows it.
            index: of the task in its role.
            job_attempt: which start of the job.
            task_attempt: which start of the task in it.
            tail: only the end of them.
        """
        task = f"attempts/{job_attempt}/taskRoles/{quote(role, safe='')}/taskIndex/{index}"
        path = f"{self._path(name)}/{task}/attempts/{task_attempt}/logs{'?tail-mode=true' if tail else ''}"
        locations = self._object(path).get("locations")
        return tuple(
            LogFile(str(place.get("name")), place["uri"])
            for place in (locations if isinstance(locations, list) else ())
            if isinstance(place, dict) and isinstance(place.get("uri"), str)
        )

    def task_attempts(self, name: str, role: str, index: int = 0, *, job_attempt: int = 0) -> dict[str, Any]:
        """Return a task with all its starts, as the server says it (1.4 and later)."""
        task = f"attempts/{job_attempt}/taskRoles/{quote(role, safe='')}/taskIndex/{index}/attempts"
        return self._object(f"{self._path(name)}/{task}")

    def job_attempts(self, name: str) -> builtins.list[Any]:
        """Return the earlier starts of a job by the cluster, as the server's history has them.

        Raises:
            ServerFault: the cluster keeps no history.
        """
        return self._list(f"{self._path(name)}/job-attempts")

    def events(self, name: str, kind: str | None = None) -> builtins.list[dict[str, Any]]:
        """Return what Kubernetes noted of a job (1.3 and later); ``kind`` is ``Warning`` or ``Normal``."""
        query = f"?{urlencode({'type': kind})}" if kind else ""
        rows = self._object(f"{self._path(name)}/events{query}").get("data")
        return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []

    def add_tag(self, name: str, tag: str) -> None:
        """Put a tag on a job (1.3 and later)."""
        self._session.request("PUT", f"{self._path(name)}/tag", body={"value": tag})

    def remove_tag(self, name: str, tag: str) -> None:
        """Take a tag off a job (1.3 and later)."""
        self._session.request("DELETE", f"{self._path(name)}/tag", body={"value": tag})

    # the cluster

    def info(self) -> dict[str, Any]:
        """Return the server's ``name``, ``version``, ``launcherType`` and ``authnMethod`` (1.0 and later)."""
        return self._object(f"{_API}/info")

    def virtual_clusters(self) -> dict[str, Any]:
        """Return the virtual clusters by name, with what they have and what of it is in use."""
        return self._object(f"{_API}/virtual-clusters")

    def virtual_cluster(self, name: str) -> dict[str, Any]:
        """Return one virtual cluster."""
        return self._object(f"{_API}/virtual-clusters/{quote(name, safe='')}")

    def storages(self, *, default: bool = False) -> builtins.list[dict[str, Any]]:
        """Return the storages that the user may mount (1.0 and later); only the default ones if asked."""
        rows = self._object(f"{_API}/storages{'?default=true' if default else ''}").get("storages")
        return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []

    def storage(self, name: str) -> dict[str, Any]:
        """Return one storage, with its server and path."""
        return self._object(f"{_API}/storages/{quote(name, safe='')}")

    def _path(self, name: str) -> str:
        return f"{_JOBS}/{quote(self._user, safe='')}~{quote(name, safe='')}"

    def _object(self, path: str) -> dict[str, Any]:
        reply = self._session.request("GET", path)
        if not isinstance(reply, dict):
            raise InvalidReply(
                f"the server answered {path} with {type(reply).__name__} in place of an object"
            )
        return reply

    def _list(self, path: str) -> builtins.list[Any]:
        reply = self._session.request("GET", path)
        if not isinstance(reply, list):
            raise InvalidReply(f"the server answered {path} with {type(reply).__name__} in place of a list")
        return reply


def _findings(message: str) -> str:
    """Return the schema errors of a refusal, a JSON array, as ``path: message`` each; "" if it is none."""
    try:
        errors = json.loads(message)
    except ValueError:
        return ""
    if not isinstance(errors, list):
        return ""
    found: Iterable[Mapping[str, Any]] = (error for error in errors if isinstance(error, dict))
    return "; ".join(
        f"{str(each.get('dataPath', '')).lstrip('.')}: {each.get('message')}".lstrip(": ") for each in found
    )
