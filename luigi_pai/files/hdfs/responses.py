"""Parses and checks a NameNode's responses."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests

from luigi_pai.files.errors import TOO_LARGE, failed, malformed
from luigi_pai.json_bodies import TooLarge, parse_json

if TYPE_CHECKING:
    from collections.abc import Callable

_CONTENT = (requests.codes.ok, requests.codes.partial_content)
_TYPES = ("DIRECTORY", "FILE", "SYMLINK")
_LAST_TIME = 60_000_000_000_000  # limit for times, in ms from 1970 (years 69 to 3871), which Python supports
_IN_NO_NAME = re.compile("[/\0\ud800-\udfff]")  # never in a file name; surrogates cannot be encoded as UTF-8
_MODE = re.compile("[0-7]{1,4}")
_LISTED = ("pathSuffix", "type", "length", "modificationTime", "owner", "group", "permission")
_COUNTS = ("length", "directoryCount", "fileCount")  # of a ContentSummary


@dataclass(frozen=True)
class Result:
    """The response to an operation.

    Attributes:
        response: The HTTP response. For OPEN, its body has not been read yet.
        value: The operation's result, from a field of the JSON response (MKDIRS: ``boolean``). For APPEND and
            CREATE, the URL for the data. None if the operation has no field, or RENAME's response is empty.
        leads_to: The URL of a redirect; None for a final response.
    """

    response: requests.Response
    value: Any = None
    leads_to: str | None = None


def parse_response(operation: str, path: str, response: requests.Response) -> Result:
    """Parse a response with a status below 400.

    Raises:
        HdfsError: WebHDFS never sends such a response to this operation.
    """
    status, location = response.status_code, response.headers.get("Location")
    if location is not None and operation in ("APPEND", "CREATE"):  # the data is sent there later
        return Result(response, location)
    if location is not None and response.is_redirect:
        return Result(response, leads_to=location)
    if status >= requests.codes.multiple_choices or (operation == "OPEN" and status not in _CONTENT):
        raise malformed(operation, path, response)
    if operation == "OPEN":
        return Result(response)
    field, is_valid = _FIELDS.get(operation, ("", bool))
    if not response.content and (not field or operation == "RENAME"):
        return Result(response)
    try:
        document = parse_json(response.content, _used if operation == "LISTSTATUS" else None)
    except TooLarge as error:
        reason, server = f"the response is invalid: {error}", urlsplit(response.url).netloc
        raise failed(operation, path, server, reason, next_step=TOO_LARGE) from None
    except ValueError:
        document = None
    if isinstance(document, dict) and not field:
        return Result(response)
    if isinstance(document, dict) and is_valid(document.get(field)):
        return Result(response, document[field])
    reason = f"the response has no {field}" if field else "the response is neither empty nor JSON"
    raise malformed(operation, path, response, f"{reason}: not a valid WebHDFS response")


def _used(status: Any) -> Any:
    """Return the FileStatus of a folder's entry, with only the fields that are used."""
    return {name: status[name] for name in _LISTED if name in status} if isinstance(status, dict) else None


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_status(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.get("type") in _TYPES
        and _is_count(value.get("length"))
        and type(value.get("modificationTime")) is int
        and abs(value["modificationTime"]) < _LAST_TIME
        and isinstance(value.get("owner"), str)
        and isinstance(value.get("group"), str)
        and isinstance(value.get("permission"), str)
        and _MODE.fullmatch(value["permission"]) is not None
    )


def _is_summary(value: Any) -> bool:
    return isinstance(value, dict) and all(_is_count(value.get(count)) for count in _COUNTS)


def _is_listing(value: Any) -> bool:
    """Return whether a value is a valid listing. A file's listing has one entry with an empty name."""
    entries = value.get("FileStatus") if isinstance(value, dict) else None
    if not isinstance(entries, list) or not all(map(_is_status, entries)):
        return False
    names = [entry.get("pathSuffix") for entry in entries]
    is_file = names == [""] and entries[0]["type"] != "DIRECTORY"
    return is_file or (all(map(_is_name, names)) and len({*names}) == len(names))


def _is_name(value: Any) -> bool:
    """Return whether a value is a valid file name on HDFS and on this machine."""
    return isinstance(value, str) and value not in ("", ".", "..") and not _IN_NO_NAME.search(value)


def _is(kind: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kind)


_FIELDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "CREATE": ("Location", _is(str)),
    "DELETE": ("boolean", _is(bool)),
    "GETCONTENTSUMMARY": ("ContentSummary", _is_summary),
    "GETFILESTATUS": ("FileStatus", _is_status),
    "GETHOMEDIRECTORY": ("Path", _is(str)),
    "LISTSTATUS": ("FileStatuses", _is_listing),
    "MKDIRS": ("boolean", _is(bool)),
    "RENAME": ("boolean", _is(bool)),
}
"""Operation -> its response field and the check for the field's value."""
