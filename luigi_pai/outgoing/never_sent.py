"""Finds the files and folders that are never sent, because they may contain credentials.

A cluster's other users can read the commands of jobs and usually also the files on the cluster. Therefore no
rule in .paiignore can include these files.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from luigi_pai.config_file import configuration_files, configured_secrets
from luigi_pai.redaction import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

logger = logging.getLogger("luigi-interface")

_SHOWN = 10  # names in a summary

# A name is listed here if a widely used tool reads credentials from the file or keeps them in the folder, and
# the name has no other use. Users of similar tools expect this: npm never publishes .git, .hg, .svn and
# .npmrc, and vsce rejects .env and files with private keys. Names with many uses (secrets.yaml, config.json,
# x.env) are not listed; use .paiignore for them. Public keys (id_rsa.pub) and certificates are sent. Names
# are compared in lower case, because file names on a Mac are case-insensitive.
_NAMES = {
    *(".git", ".hg", ".svn", ".gitconfig", ".git-credentials"),  # remote URLs can contain a token
    *(".npmrc", ".pypirc", ".netrc", "_netrc"),  # requests reads .netrc
    *("client.cfg", "luigi.cfg", "luigi.toml"),  # Luigi, and therefore this package
    *(".ssh", ".gnupg", "id_rsa", "id_dsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk"),
    *(".aws", ".azure", ".boto", ".s3cfg", ".databrickscfg", "application_default_credentials.json"),
    *(".dockercfg", "kubeconfig", ".htpasswd", ".pgpass", "pgpass.conf", ".my.cnf", ".mylogin.cnf"),
    *(".password-store", ".vault-token", "kaggle.json"),
}
_PLACES = {  # names that indicate credentials only inside a folder with this name
    *(".config/gcloud", ".config/gh", ".docker/config.json", ".kube/config", ".streamlit/secrets.toml"),
    *(".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".huggingface/token"),
}
_FOLDERS = {  # every file in these folders, even if the user passes its path directly
    *(".git", ".hg", ".svn", ".ssh", ".gnupg", ".aws", ".azure", ".password-store"),
    *(".config/gcloud", ".config/gh"),
}
_STARTS = (".env", "krb5cc_")  # .env.local, .envrc and so on; Kerberos tickets
_SUFFIXES = (".keytab", ".kdbx", ".p12", ".pfx", ".ppk")  # Kerberos, KeePass, PKCS #12, PuTTY
_COPIES = ("~", "#", ".bak", ".old", ".orig", ".save", ".swp", ".swo")  # copies that editors and people leave

# This many bytes of every file are read, because a key can have any name; a 16,384-bit key is 13 kB. For
# 10,000 files of 700 bytes, this takes 0.1 s, and the rest of the walk takes 0.3 s.
_READ = 16 * 1024
_KEY = rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY"
_STARTS_AS_KEY = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:%b|---- BEGIN SSH2 [A-Z ]*PRIVATE KEY|PuTTY-User-Key-File-)" % _KEY
)
_HAS_KEY = re.compile(rb'^%b|"private_key"\s*:\s*"%b' % (_KEY, _KEY), re.MULTILINE)
_WITH_KEYS = (".pem", ".key", ".crt", ".cer", ".json")  # a key may follow a certificate, or be inside JSON
_ASSIGNMENT = re.compile(
    rb"^[ \t]*(?:export )?[\"']?[\w.-]*(?:password|passwd|token|secret)[\"']?[ \t]*[=:][ \t]*(.*\S)",
    re.MULTILINE | re.IGNORECASE,
)

_NAMED = "a file or folder with this name may contain credentials"
_ANYWAY = "; to send it anyway, copy it under another name"
_CONFIGURATION = "it is a Luigi configuration file"
_PRIVATE_KEY = "it contains a private key"
_COPIED = "it contains a password or token from Luigi's configuration"
_INSTEAD = (
    "; give credentials to a job as secrets of the job protocol, or as a PRIVATE parameter of a PaiPythonTask"
)


class NeverSent:
    """Recognizes files that are never sent by their name, identity and content.

    It reads Luigi's configuration when it is constructed.
    """

    def __init__(self) -> None:
        self._files: set[tuple[int, int]] = set()
        for path in configuration_files():
            with contextlib.suppress(OSError):  # the file does not exist
                self._files.add(_identity(Path(path).stat()))
        self._secrets = {_unquoted(os.fsencode(secret)) for secret in configured_secrets()} - {b""}

    def problem(self, passed: Path) -> str:
        """Return why a file or folder that the user passed is never sent; empty if it may be sent.

        If ``passed`` is a link, the rules also apply to its target.
        """
        for path in dict.fromkeys((Path(os.path.abspath(passed)), passed.resolve())):  # noqa: PTH100  keeps links
            *above, last = _with_folders(path)
            if is_listed(last) or any(_FOLDERS & {folder, _last(folder)} for folder in above):
                return f"it is never sent: {_NAMED}{_ANYWAY}{_INSTEAD}"
        is_file = os.path.isfile(passed)  # noqa: PTH113  it never raises
        why = self._in_content(passed, passed.stat()) if is_file else ""
        return f"it is never sent: {why}{_INSTEAD}" if why else ""

    def has_credentials(self, entry: os.DirEntry[str]) -> bool:
        """Return whether a file is never sent although its name may be sent."""
        return bool(self._in_content(entry.path, entry.stat()))

    def _in_content(self, path: str | Path, about: os.stat_result) -> str:
        if _identity(about) in self._files:
            return _CONFIGURATION
        try:
            with open(path, "rb", buffering=0) as file:  # noqa: PTH123  half the time of a Path
                start = file.read(_READ)
        except OSError:
            return ""  # sending the file will raise the same error
        if _STARTS_AS_KEY.match(start):
            return _PRIVATE_KEY
        if b"PRIVATE KEY" in start and str(path).lower().endswith(_WITH_KEYS) and _HAS_KEY.search(start):
            return _PRIVATE_KEY
        if any(secret in start for secret in self._secrets):
            values = {_unquoted(match[1]) for match in _ASSIGNMENT.finditer(start)}
            return _COPIED if values & self._secrets else ""
        return ""


def is_listed(path: str) -> bool:
    """Return whether a path FOLDER/NAME ends in a name that is never sent."""
    folder, _, name = path.lower().rpartition("/")
    names = [name]
    for end in _COPIES:
        if name.endswith(end):
            original = name.removesuffix(end)
            names += (original, original[1:])  # also for .NAME.swp and #NAME#
    return any(
        each in _NAMES
        or each.startswith(_STARTS)
        or each.endswith(_SUFFIXES)
        or f"{_last(folder)}/{each}" in _PLACES
        for each in names
    )


def leads_to_listed(path: Path) -> bool:
    """Return whether any name in a relative path is never sent."""
    return any(map(is_listed, _with_folders(path)))


def summary_of_left_out(names: Sequence[str]) -> str:
    """Summarize the files and folders that were not sent; empty if there are none."""
    if not names:
        return ""
    more = len(names) - _SHOWN
    shown = ", ".join(printable(name).replace("\n", " ") for name in names[:_SHOWN])
    return f"left out: {shown}{f' and {more:,} more' if more > 0 else ''} (credentials are never sent)"


def log_left_out(folder: str, names: Sequence[str]) -> None:
    """Log which files and folders in a folder were not sent."""
    logger.info("%s: %s", printable(folder), summary_of_left_out(names))


def _with_folders(path: Path) -> Iterator[str]:
    """Yield each name in a path, in lower case, with its folder's name: FOLDER/NAME."""
    parts = [part.lower() for part in path.parts]
    return (f"{folder}/{name}" for folder, name in zip(["", *parts], parts, strict=False))


def _last(path: str) -> str:
    return path.rpartition("/")[2]


def _identity(about: os.stat_result) -> tuple[int, int]:
    return about.st_dev, about.st_ino


def _unquoted(value: bytes) -> bytes:
    return value.strip(b"\"', \t\r")
