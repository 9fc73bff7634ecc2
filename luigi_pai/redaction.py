"""Redacts secrets in messages and in urllib3's log, and removes unprintable characters.

A URL may contain a secret: ``delegation=`` for a DataNode of a kerberized HDFS, ``token=`` for a
task's log, ``sig=`` for a log in Azure. urllib3 logs the URLs of its requests, and includes them in its
warnings about broken connections.
"""

from __future__ import annotations

import html
import io
import itertools
import logging
import re
import shutil
import textwrap
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MASK: Final = "******"
"""The replacement of a secret; OpenPAI's servers use the same string."""

_SHORTEST = 4  # characters; shorter secrets are not redacted, because they occur in ordinary words
_URL_TOKEN = re.compile(r"\b((?:delegation|token|sig)=)[^&\s'\"]+")
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
)
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROL = re.compile(
    r"[^\S\n\t ]|[\x00-\x08\x0e-\x1f\x7f-\x9f"  # C0, C1
    r"\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # bidi, zero-width characters
    r"\ud800-\udfff\U000e0000-\U000e0fff]"  # surrogates, which cannot be encoded; tag characters
)
_IN_LUIGI_CFG = {  # pattern in a value that luigi.cfg does not interpret -> how to correct it
    r"\A[^\n]+\n\Z": "the value ends with a line break: remove it, also in the environment variable",
    r"\n": "the value includes the next line, which is indented: start each key at the beginning of a line",
    r"\s[#;]": "put a comment on a separate line",
    r"^(['\"]).*\1$": "luigi.cfg does not remove quotation marks: leave them out",
    r"(^|//)\$[\w(]": "write an environment variable as ${NAME}",
}


def printable(string: str, *, of_log: bool = False) -> str:
    """Remove unprintable characters from a string.

    These are escape sequences, surrogates, control characters, bidi controls, invisible characters and tag
    characters. Every external string passes through this function before it is displayed. With ``of_log``,
    only the text after a line's last carriage return is kept, such as a progress bar's final state.
    """
    if string.isprintable():
        return string
    lines = _ESCAPE.sub("", string).split("\n")
    if of_log:
        lines = [line.rstrip("\r").rpartition("\r")[2] for line in lines]
    return "\n".join(_CONTROL.sub("", line.rstrip("\r").replace("\r", " ")) for line in lines)


def wrapped(message: str, stream: TextIO) -> str:
    """Wrap long lines between words if the stream is a terminal.

    Words that are longer than a line, such as URLs and paths, are not broken.
    """
    if not stream.isatty():
        return message
    width = shutil.get_terminal_size().columns
    wrapper = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False)
    lines = message.split("\n")
    for number, line in enumerate(lines):
        if len(_ESCAPE.sub("", line)) > width:
            wrapper.initial_indent = wrapper.subsequent_indent = " " * (len(line) - len(line.lstrip()))
            lines[number] = wrapper.fill(line.strip())
    return "\n".join(lines)


def with_hint(message: str, hint: str) -> str:
    """Append a hint, if any, to a message (often a server's), after removing its full stop."""
    return f"{message.rstrip().removesuffix('.')}; {hint}" if hint else message


def layout_hint(value: str) -> str:
    """Return how to fix a luigi.cfg value that contains quotes, a comment or the like; else empty."""
    return next((hint for pattern, hint in _IN_LUIGI_CFG.items() if re.search(pattern, value)), "")


def escape_what_is_not_encodable(stream: TextIO) -> None:
    """Make a stream escape characters that its encoding lacks, like stderr, instead of failing.

    Containers may print any language, but a terminal's encoding may be ISO 8859.
    """
    if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
        stream.reconfigure(errors="backslashreplace")


def redact(message: str) -> str:
    """Replace each token in a URL and each private key with ``******``."""
    return _PRIVATE_KEY.sub(MASK, _URL_TOKEN.sub(rf"\1{MASK}", message))


def check_no_login(url: str, setting: str = "url") -> None:
    """Raise ValueError, without the URL, if a URL contains a user or password, which errors would show."""
    if "@" in url:
        raise ValueError(f"{setting} must not contain a user or password; use the arguments for them")


def redact_values(output: str, secrets: Iterable[str | None]) -> str:
    """Replace secrets with ``******``. None and secrets with fewer than 4 characters are ignored."""
    for secret in _known(secrets):
        output = output.replace(secret, MASK)
    return output


def redacted_parts(parts: Iterable[bytes], secrets: Iterable[str | None]) -> Iterator[bytes]:
    """Yield a file's parts with secrets redacted as in ``redact_values``, even across two parts."""
    known = [secret.encode("utf-8", "surrogatepass") for secret in _known(secrets)]
    if not known:
        yield from parts
        return
    pattern, longest = re.compile(b"|".join(map(re.escape, known))), len(known[0])
    rest = b""
    for part in itertools.chain(parts, (None,)):
        rest += part or b""
        # a secret that starts before this is in `rest` to its end
        decided = len(rest) if part is None else max(0, len(rest) - longest + 1)
        shown, start = [], 0
        for found in pattern.finditer(rest):
            if found.start() >= decided:
                break
            shown += [rest[start : found.start()], MASK.encode()]
            start = found.end()
        decided = max(start, decided)
        yield b"".join((*shown, rest[start:decided]))
        rest = rest[decided:]


def _known(secrets: Iterable[str | None]) -> list[str]:
    """Return the secrets to redact, longest first, because a secret may contain another one."""
    return sorted({each for each in secrets if each and len(each) >= _SHORTEST}, key=len, reverse=True)


def logged_forms(secrets: Iterable[str]) -> Iterator[str]:
    """Yield each secret and each of its lines, stripped, in the forms that OpenPAI logs: plain and HTML."""
    for secret in secrets:
        for part in {secret, html.escape(secret), *secret.splitlines(), *html.escape(secret).splitlines()}:
            if part.strip():
                yield part.strip()


def _redact_record(record: logging.LogRecord) -> bool:
    """Redact a log record; return True, so that it is logged."""
    message = record.getMessage()
    redacted = redact(message)
    if redacted != message:
        record.msg, record.args = redacted, None
    return True


def redact_urllib3_logs() -> None:
    """Redact urllib3's log in this process. You can call this more than once."""
    for name in ("urllib3.connectionpool", "urllib3.util.retry"):
        logging.getLogger(name).addFilter(_redact_record)  # adding it again has no effect
