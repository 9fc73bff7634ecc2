"""LTP's own rules about a job protocol, which a schema cannot express."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from luigi_pai.errors import Level
from luigi_pai.jobspec.paths import item_of, list_of, mapping_of
from luigi_pai.jobspec.releases import is_ltp, release_number
from luigi_pai.jobspec.schema_problems import Finding
from luigi_pai.jobspec.templates.callbacks import PLUGIN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_JOB_TYPE = release_number("ltp-1.4")
_DIND = release_number("ltp-1.2")
_FOR_INFERENCE = ("INTERNAL_SERVER_IP", "INTERNAL_SERVER_PORT", "API_KEY")
_FOLDER = re.compile(r"(?:/[a-zA-Z0-9._-]+)+/?")


def ltp_findings(document: Mapping[str, Any], release: tuple[int, ...] | None) -> Iterator[Finding]:
    """Yield the violations, in no order.

    Args:
        document: the protocol; parts that the schema refuses are ignored.
        release: the release that it is for; None for any.
    """
    if release is None or release >= _JOB_TYPE:
        yield from _inference(document)
    yield from _docker_in_docker(document, release)
    if release is None or is_ltp(release):
        # OpenPAI takes anything there, so for any release nothing of it is refused by all
        level = Level.STRICTER if release is None else Level.REFUSED
        extras = mapping_of(document, "extras")
        yield from _local_storage(mapping_of(extras, "enableLocalStorage"), level)
        nodes = extras.get("forceNodes")
        if nodes and not isinstance(nodes, str):
            yield Finding(
                ("extras", "forceNodes"),
                "is not a text: names of nodes, separated by ','; LTP answers 500",
                level,
            )


def _inference(document: Mapping[str, Any]) -> Iterator[Finding]:
    if document.get("jobType") != "inference":
        return
    given = mapping_of(document, "parameters")
    for name in _FOR_INFERENCE:
        if name not in given:
            yield Finding(("parameters", name), "is missing; a job of the jobType inference needs it")


def _docker_in_docker(document: Mapping[str, Any], release: tuple[int, ...] | None) -> Iterator[Finding]:
    if release is not None and release >= _DIND:
        return
    message = "dind is a plugin of LTP 1.2 and later; on others every task fails when it starts"
    level = Level.WARNING if release is None else Level.STRICTER
    for index, item in enumerate(list_of(mapping_of(document, "extras"), PLUGIN)):
        if item_of(item, "plugin") == "dind":
            yield Finding(("extras", PLUGIN, index, "plugin"), message, level)


def _local_storage(storage: Mapping[str, Any], level: Level) -> Iterator[Finding]:
    """Yield the violations in ``enableLocalStorage``."""
    for field, message in _storage_refusals(storage):
        yield Finding(("extras", "enableLocalStorage", field), message, level)


def _storage_refusals(storage: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the field, and what is wrong there, for which LTP refuses an ``enableLocalStorage``."""
    if storage.get("enabled") is not True:
        return
    folders: dict[str, list[str]] = {}
    for field in ("hostpath", "mntpath"):
        given = storage.get(field)
        if not given:
            yield field, "is missing; LTP refuses enableLocalStorage without paths"
        elif not isinstance(given, str):
            yield field, "is not a text: paths, separated by ':'; LTP answers 500"
        else:
            folders[field] = given.split(":")
    if len({len(paths) for paths in folders.values()}) > 1:
        yield (
            "mntpath",
            f"has {len(folders['mntpath'])} paths and hostpath {len(folders['hostpath'])}; LTP refuses that",
        )
    for field, paths in folders.items():
        for path in paths:
            if not _FOLDER.fullmatch(path):
                yield (
                    field,
                    f"{path!r} is not a path from the root, of letters, digits, '.', '_' and '-'",
                )
