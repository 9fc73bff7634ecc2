"""Checks a job, and renders it: as the YAML to post, and as redacted output for people to read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from luigi_pai.errors import Problem, SpecError
from luigi_pai.jobspec.dialects.shell_text import repaired
from luigi_pai.jobspec.dialects.yaml_text import write_yaml
from luigi_pai.jobspec.job import PaiJob
from luigi_pai.jobspec.protocol import JobProtocol
from luigi_pai.jobspec.schema_problems import LARGEST_BODY
from luigi_pai.jobspec.templates.commands import entrypoints
from luigi_pai.jobspec.templates.prerequisites import resolve
from luigi_pai.jobspec.templates.secrets import fill_secrets, masked
from luigi_pai.jobspec.validate import check_job
from luigi_pai.jobspec.validate_protocol import check_protocol

if TYPE_CHECKING:
    from collections.abc import Mapping


def check(job: PaiJob | JobProtocol, api_version: str | None = None) -> tuple[str, list[Problem]]:
    """Check a job for either API version. Return the job's name and warnings about the job.

    For ``api_version``, see ``validate_job``.

    Raises:
        SpecError: The job is not valid.
        TypeError: The object is not a job.
    """
    if isinstance(job, PaiJob):
        return job.jobName, check_job(job, api_version=api_version)
    if not isinstance(job, JobProtocol):
        if callable(job) and not isinstance(job, type):
            raise TypeError(
                f"{job!r:.60} is not a job: a function runs as one with call(), such as call(fit, 0.1)"
            )
        message = f"{type(job).__name__} is not a job: give a PaiJob or a JobProtocol"
        raise TypeError(f"{message}, such as task.job(), PaiJob.from_dict() or JobProtocol.from_file()")
    return str(job.name), check_protocol(job)


def submission_text(protocol: JobProtocol, *, is_checked: bool = True) -> str:
    """Return the YAML to post: the YAML that was read, or new YAML if ``resolve`` or a user changed the job.

    Raises:
        SpecError: The YAML is larger than servers accept; ``resolve`` finds problems, such as a missing
            prerequisite or circular requirements; or ``is_checked`` is False and ``check_protocol`` finds
            problems.
    """
    document = protocol.to_dict()
    body = protocol.to_yaml(document)
    if not is_checked:
        check_protocol(protocol, document=document, text=body)
    if (resolved := resolve(document)) != document:
        body = write_yaml(resolved)
    size = len(body.encode("utf-8", "surrogatepass"))
    if size > LARGEST_BODY:
        message = f"has {size:,} bytes as it is sent; servers accept at most {LARGEST_BODY:,}"
        raise SpecError(str(protocol.name), [Problem("", message)])
    return body


def rendered(job: PaiJob | JobProtocol | Mapping[str, Any], *, filled: bool = False) -> str:
    """Return the JSON or YAML to send for a job; with ``filled``, only its roles' rendered commands.

    Secrets in a job protocol are redacted as ``******``. A mapping is read as a v1 job config.

    Raises:
        SpecError: See ``submission_text`` or, with ``filled``, ``filled_commands``.
    """
    if isinstance(job, JobProtocol):
        if not filled:
            return _masked_text(job)
        commands = filled_commands(job)
    else:
        document = job.to_dict() if isinstance(job, PaiJob) else _config_as_sent(job)
        if not filled:
            return json.dumps(document, indent=2) + "\n"
        commands = {role["name"]: role["command"] for role in document["taskRoles"]}
    return "".join(f"# taskRoles.{role}\n{command}\n" for role, command in commands.items())


def _config_as_sent(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a valid v1 job config with the commands that ``PaiJob.to_json`` writes."""
    roles = [{**role, "command": repaired(role["command"])} for role in document["taskRoles"]]
    return {**document, "taskRoles": roles}


def filled_commands(protocol: JobProtocol) -> dict[str, str]:
    """Return each role's command, rendered as on the server, with secrets redacted.

    Raises:
        SpecError: ``resolve`` or ``entrypoints`` raises it.
    """
    document = resolve(protocol.to_dict())
    hidden = masked(document).get("secrets")
    return {role: fill_secrets(command, hidden) for role, command in entrypoints(document).items()}


def _masked_text(protocol: JobProtocol) -> str:
    resolved = resolve(protocol.to_dict())
    shown = masked(resolved)
    return submission_text(protocol) if shown == resolved else write_yaml(shown)
