"""Validation of job protocols.

Problems come from the schema (``schemas/protocol.v2.json``), from rules about several fields
(``rules``), and from references and prerequisites (``templates``). A problem is REFUSED if the
rest-server of 1.8 or LTP refuses the document, STRICTER if it accepts the document and the job
fails later.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from luigi_pai.errors import Level, Problem, SpecError
from luigi_pai.jobspec.dialects.yaml_text import read_yaml
from luigi_pai.jobspec.releases import has_js_yaml_4, release_number
from luigi_pai.jobspec.rules.protocol import rule_findings
from luigi_pai.jobspec.schema_problems import (
    LARGEST_BODY,
    Finding,
    cut,
    problems_in_order,
    schema_findings,
    stricter,
)
from luigi_pai.jobspec.templates.prerequisites import prerequisite_findings
from luigi_pai.jobspec.templates.references import reference_findings
from luigi_pai.redaction import MASK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from luigi_pai.jobspec.paths import Path
    from luigi_pai.jobspec.protocol import JobProtocol

_SECRETS = re.compile(r"^(secrets:)[\s\S]*?^([A-Za-z0-9_])", re.MULTILINE)


def check_protocol(
    protocol: JobProtocol,
    further: Iterable[Problem] = (),
    *,
    document: dict[str, Any] | None = None,
    text: str | None = None,
) -> list[Problem]:
    """Check that a job protocol, as it will be sent, can run on some release of OpenPAI or LTP.

    If the caller has already called ``to_dict`` and ``to_yaml``, their results are given.

    Returns:
        the warnings of the protocol, without the warnings in ``further``.

    Raises:
        SpecError: the protocol or ``further`` has REFUSED or STRICTER problems; the error lists them all.
    """
    document = protocol.to_dict() if document is None else document
    text = protocol.to_yaml(document) if text is None else text
    found = validate_protocol(document, lines=protocol.lines, text=text)
    problems = refused([*found, *further])
    if problems:
        raise SpecError(str(document.get("name")), problems)
    return [*protocol.warnings, *found]


def refused(problems: Iterable[Problem], *, lenient: bool = False) -> list[Problem]:
    """Return the problems that prevent sending: all REFUSED and, if not ``lenient``, all STRICTER."""
    counting = (Level.REFUSED,) if lenient else (Level.REFUSED, Level.STRICTER)
    return [problem for problem in problems if problem.level in counting]


def validate_protocol(
    document: Any,
    *,
    lines: Mapping[Path, int] | None = None,
    text: str | None = None,
    release: str | None = None,
) -> list[Problem]:
    """Return every problem of a job protocol.

    Args:
        document: the protocol, in the types of JSON.
        lines: path -> line, from ``read_yaml``; None if the document was not read from YAML.
        text: the YAML text that will be sent, whose value is ``document``; None if the text is not known.
        release: the cluster's release, such as ``1.5.0`` or ``ltp-1.5``, whose rules apply. If it is None,
            it is enough that some release accepts the document.

    Returns:
        the problems in the order of the document; an empty list if there are no problems.
    """
    number = release_number(release) if release is not None else None
    findings = list(schema_findings(document, "protocol.v2", _shown, number))
    if isinstance(document, dict):
        findings += rule_findings(document, number)
        findings += reference_findings(document)
        findings += prerequisite_findings(document)
        findings += [] if text is None else _bare_secrets(document, text, number)
    size = len((text or "").encode("utf-8", "surrogatepass"))
    if size > LARGEST_BODY:
        findings.append(Finding((), f"has {size:,} bytes; servers accept at most {LARGEST_BODY:,}"))
    return problems_in_order(findings, document, lines or {})


def _bare_secrets(
    document: Mapping[str, Any], text: str, release: tuple[int, ...] | None
) -> Iterator[Finding]:
    """Yield a finding if the server's redaction of a text does not cover the secrets, or covers more.

    The server sends the text to everybody who may read the job. It replaces the first line that begins with
    ``secrets:`` by ``secrets: "******"``. It deletes the lines that follow, and stops before a line that
    begins with a letter, a digit or _.
    """
    if "secrets" not in document:
        return
    kept = _SECRETS.sub(rf'\1 "{MASK}"\n\2', f"{text}\nZ", count=1)[:-2]
    try:
        js_yaml_4 = None if release is None else has_js_yaml_4(release)
        is_hidden = read_yaml(kept, lenient=True, js_yaml_4=js_yaml_4).value == {**document, "secrets": MASK}
    except SpecError:
        is_hidden = False
    if not is_hidden:
        yield stricter(
            ("secrets",),
            "servers accept them, but would show them to everybody who may read the job, or redact more than "
            "them; write secrets: without quotes at the start of a line, its keys "
            "indented below it, and the next field without quotes at the start of a line",
        )


# ---------------------------------------------------------------- how problems are shown


def _shown(value: Any, path: Path) -> str:
    """Return a value as errors show it: cut, and without values that may be secret."""
    if isinstance(value, dict | list):
        kind = "mapping" if isinstance(value, dict) else "list"
        return f"a {kind}" if value else f"an empty {kind}"
    if value is None:
        return "null"
    if not path or path[0] == "secrets" or "auth" in path:
        return f"a value of type {type(value).__name__}"
    return cut(str(value).lower() if isinstance(value, bool) else repr(value))
