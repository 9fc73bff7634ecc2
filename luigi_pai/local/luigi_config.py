"""The luigi.cfg that points Luigi to the local server and keeps the user's other settings."""

from __future__ import annotations

import configparser
import contextlib
import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

from luigi_pai.errors import ConfigError
from luigi_pai.local.config.settings import DEFAULT_PASSWORD, FIRST_STORAGE, PASSWORD_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from luigi_pai.local.config.settings import Address, HdfsAddress, Settings

_CLUSTER_KEYS = ("token", "fs_uri", "webhdfs_url", "storage", "storage_path", "storage_mount")
_FILES = ("/etc/luigi/client.cfg", "/etc/luigi/luigi.cfg", "client.cfg", "luigi.cfg")
"""The files that Luigi reads before the file named by LUIGI_CONFIG_PATH."""


def open_pai_section(address: Address, hdfs: HdfsAddress, settings: Settings) -> dict[str, str]:
    """Return the ``[OpenPai]`` keys for a local server, including its HDFS and storage, if any."""
    on_hdfs = {"fs_uri": hdfs.fs_uri, "webhdfs_url": hdfs.webhdfs_url, "hdfs_user": settings.user}
    return {
        "pai_url": address.url,
        "username": settings.user,
        "password": settings.password,
        **(on_hdfs if hdfs.webhdfs_url else {}),
        **({} if settings.api == "v1" else {"storage": FIRST_STORAGE}),
        "portal_url": address.url,
        "api_version": "v1" if settings.api == "v1" else "v2",
    }


def only_here(section: Mapping[str, str]) -> dict[str, str]:
    """Return ``section`` with all other cluster keys set to empty, which overrides them in other files.

    Otherwise, they could lead to another cluster's files, or send another cluster's application token.
    """
    return {**dict.fromkeys(_CLUSTER_KEYS, ""), **section}


def shown_section(address: Address, hdfs: HdfsAddress, settings: Settings) -> str:
    """Return the lines to copy into luigi.cfg. A hint replaces any password other than the default."""
    section = open_pai_section(address, hdfs, settings)
    if settings.password != DEFAULT_PASSWORD:
        section["password"] = f"(the one in {PASSWORD_VARIABLE})"
    section.pop("hdfs_user", None)  # it defaults to ``username``
    return "\n".join(["[OpenPai]", *(f"{key} = {value}" for key, value in section.items())])


def earlier_config() -> Path | None:
    """Return the file named by LUIGI_CONFIG_PATH, or None; raises ConfigError if Luigi reads TOML."""
    parser = os.environ.get("LUIGI_CONFIG_PARSER", "cfg")
    if parser == "toml":
        raise ConfigError(
            "LUIGI_CONFIG_PARSER is toml, but `luigi-pai local -- COMMAND` writes its settings as luigi.cfg; "
            "run `luigi-pai local` by itself and put the lines it prints into your luigi.toml"
        )
    path = os.environ.get("LUIGI_CONFIG_PATH")
    return Path(path) if path and Path(path).is_file() else None


def configured_api() -> str | None:
    """Return the user's ``api_version`` if it is v1 or v2, else None. Raises what `earlier_config` raises."""
    found = None
    for path in (*_FILES, str(earlier_config() or "")):
        found = _content(path).get("OpenPai", "api_version", fallback=found)
    return found if found in ("v1", "v2") else None


def further_sections() -> list[str]:
    """Return the names of the ``[OpenPai:NAME]`` sections in the files that Luigi reads by default."""
    names = [name for path in _FILES for name in _content(path).sections() if _is_further(name)]
    return list(dict.fromkeys(names))


def _content(path: str) -> configparser.RawConfigParser:
    """Return a parser with everything that could be parsed, or an empty one if the file is unreadable."""
    parser = configparser.RawConfigParser()
    with contextlib.suppress(OSError, UnicodeDecodeError, configparser.Error):  # Luigi reports the error
        parser.read(path, encoding="utf-8")
    return parser


def compose(earlier: Path | None, section: Mapping[str, str], further: Iterable[str] = ()) -> str:
    """Return the earlier luigi.cfg with all its clusters replaced by this server.

    To keep tasks from running on another cluster, set the keys of ``section`` in ``[OpenPai]``, in each
    ``[OpenPai:NAME]`` section of the earlier file, and in the ``further`` sections, which are in other files
    such as ./luigi.cfg. LUIGI_CONFIG_PATH will name the new file, so Luigi reads it last, and its keys
    override the same keys in other files. See `only_here` for the other keys, which are emptied.

    Raises:
        ConfigError: the earlier file cannot be read.
    """
    parser = configparser.RawConfigParser()
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # keys keep their case, as in Luigi
    if earlier is not None:
        try:
            with earlier.open(encoding="utf-8") as file:
                parser.read_file(file)
        except (OSError, UnicodeDecodeError, configparser.Error) as error:
            raise ConfigError(f"cannot read {earlier}, which LUIGI_CONFIG_PATH names: {error}") from None
    for name in dict.fromkeys(["OpenPai", *further, *filter(_is_further, parser.sections())]):
        if not parser.has_section(name):
            parser.add_section(name)
        for key, value in only_here(section).items():
            parser.set(name, key, value.replace("%", "%%"))
    contents = io.StringIO()
    parser.write(contents)
    return contents.getvalue()


def _is_further(section: str) -> bool:
    return section.startswith("OpenPai:")
