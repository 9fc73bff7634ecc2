"""The manifest of a folder on HDFS: what uploads have put there.

WebHDFS's own checksum of a file (GETFILECHECKSUM) depends on how it was written, and not every server has
it. So an upload notes the SHA-256 of what it sent, and the length and the time of change that the file has
had on HDFS from then on. An entry is a statement about one version of one file: it does not get wrong when
two uploads write the manifest at once. The one that is lost costs a file sent again.
"""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from luigi_pai.hdfs.errors import HdfsError, HdfsUnreachable
from luigi_pai.hdfs.reader import HdfsReader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from luigi_pai.hdfs.connection import Connection

__all__ = ["MANIFEST", "Entry", "Manifest", "read_manifest"]

logger = logging.getLogger("luigi-interface")

MANIFEST = ".luigi-pai-manifest.json"
_VERSION = 1
_LONGEST = 128 * 1024 * 1024  # bytes; of a million files


@dataclass(frozen=True)
class Entry:
    """What is known of one version of a file on HDFS.

    Attributes:
        length: in bytes.
        modificationTime: in milliseconds since 1970, as HDFS has it.
        sha256: of its content, in hex.
    """

    length: int
    modificationTime: int
    sha256: str

    def is_of(self, status: Mapping[str, Any] | None) -> bool:
        """Return whether it is about the version that a FileStatus shows."""
        return status is not None and self.as_status().items() <= status.items()

    def as_status(self) -> dict[str, Any]:
        """Return the FileStatus of that version, as far as it is known."""
        return {"type": "FILE", "length": self.length, "modificationTime": self.modificationTime}


@dataclass(frozen=True)
class Manifest:
    """What uploads have put into a folder.

    Attributes:
        files: what is known of each, by its name in the folder.
        folders: those that uploads have made.
    """

    files: Mapping[str, Entry]
    folders: frozenset[str] = frozenset()

    @classmethod
    def from_json(cls, text: bytes) -> Manifest:
        """Read a manifest; what cannot be read is empty, so that everything is sent."""
        try:
            document = json.loads(text)
            if document["version"] != _VERSION:
                return cls({})
            files = {str(name): Entry(**entry) for name, entry in document["files"].items()}
            return cls(files, frozenset(map(str, document["folders"])))
        except (ValueError, KeyError, TypeError, AttributeError):
            return cls({})

    def to_json(self) -> bytes:
        """Return it as it lies on HDFS."""
        files = {name: asdict(entry) for name, entry in sorted(self.files.items())}
        document = {"version": _VERSION, "files": files, "folders": sorted(self.folders)}
        return json.dumps(document, ensure_ascii=False, indent=0).encode()


def read_manifest(server: Connection, path: str) -> Manifest:
    """Return the manifest at a path; an empty one where there is none, or none that can be read."""
    try:
        with HdfsReader(server, path) as file:
            text = file.readall() if file.size <= _LONGEST else b""
    except HdfsUnreachable:
        raise
    except HdfsError as error:
        if error.exception != "FileNotFoundException":
            logger.warning("The notes of earlier uploads cannot be read; all is sent again: %s", error)
        return Manifest({})
    return Manifest.from_json(text)
