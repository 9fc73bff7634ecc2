"""What of a job protocol goes to the server, and what of it may be shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from luigi_pai.spec.prerequisites import resolve
from luigi_pai.spec.template import entrypoints, fill_secrets
from luigi_pai.spec.yaml_text import write_yaml

if TYPE_CHECKING:
    from luigi_pai.spec.protocol import JobProtocol

__all__ = ["filled_commands", "masked_text", "submission_text"]

_MASK = "******"  # as the servers show secrets


def submission_text(protocol: JobProtocol) -> str:
    """Return the YAML that is posted: as the user wrote it, unless it was changed or needs resolving.

    Raises:
        SpecError: its prerequisites require each other in a circle, or one that is not there.
    """
    document = protocol.to_dict()
    resolved = resolve(document)
    return protocol.to_yaml() if resolved == document else write_yaml(resolved)


def masked_text(protocol: JobProtocol) -> str:
    """Return the YAML that is posted, with its secrets as ``******``.

    Raises:
        SpecError: as ``submission_text``.
    """
    resolved = resolve(protocol.to_dict())
    masked = _masked(resolved)
    return submission_text(protocol) if masked == resolved else write_yaml(masked)


def filled_commands(protocol: JobProtocol) -> dict[str, str]:
    """Return the command of each role as the server renders it, with secrets as ``******``.

    Raises:
        SpecError: as ``submission_text``.
    """
    document = resolve(protocol.to_dict())
    hidden = dict.fromkeys(document.get("secrets") or {}, _MASK)
    return {role: fill_secrets(command, hidden) for role, command in entrypoints(document).items()}


def _masked(document: dict[str, Any]) -> dict[str, Any]:
    shown = dict(document)
    if "secrets" in shown:
        shown["secrets"] = dict.fromkeys(shown["secrets"] or {}, _MASK)
    shown["prerequisites"] = [
        {**each, "auth": dict.fromkeys(each["auth"], _MASK)} if isinstance(each.get("auth"), dict) else each
        for each in document.get("prerequisites", ())
    ]
    if not shown["prerequisites"]:
        del shown["prerequisites"]
    return shown
