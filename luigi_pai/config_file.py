"""The text of ``[OpenPai]`` in luigi.cfg: sections, keys, environment variables."""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path
from typing import Any

import luigi.configuration
from luigi.cmdline_parser import CmdlineParser

__all__ = [
    "NO_FILE",
    "SECTION",
    "files_read",
    "has_key",
    "misspelled_sections",
    "raw_settings",
    "unknown_keys",
    "unset_variables",
]

SECTION = "OpenPai"
NO_FILE = "no luigi.cfg was found in this folder, in /etc/luigi, or at LUIGI_CONFIG_PATH"

_ENVIRONMENT = re.compile(r"\$\{(\w+)\}")


def files_read() -> list[str]:
    """Return the configuration files of Luigi that exist."""
    parser = luigi.configuration.get_config()
    paths = getattr(parser, "_config_paths", [])
    return [str(path) for path in paths if Path(path).is_file()]


def has_key(name: str) -> bool:
    """Return whether the section has a key."""
    return name in [key.replace("-", "_") for key in _keys().get(SECTION, ())]


def raw_settings() -> tuple[Any, ...]:
    """Return everything that the settings are read from; equal values mean equal settings."""
    parser = luigi.configuration.get_config()
    data = getattr(parser, "data", None)  # of TOML
    if isinstance(data, dict):
        text = repr(data.get("OpenPai"))
    else:
        text = repr(parser.items("OpenPai", raw=True)) if parser.has_section("OpenPai") else ""
    named = tuple(os.environ.get(name) for name in _ENVIRONMENT.findall(text))
    return text, named, CmdlineParser.get_instance()


def _keys() -> dict[str, list[str]]:
    """Return the sections of Luigi's configuration with their keys, as written."""
    config = luigi.configuration.get_config()
    if isinstance(config, luigi.configuration.LuigiTomlParser):
        return {section: list(keys) for section, keys in config.data.items()}
    shared = config.defaults()  # [DEFAULT], which are keys of every section
    return {
        section: [key for key in config.options(section) if key not in shared]
        for section in config.sections()
    }


def misspelled_sections() -> list[str]:
    """Return a problem for each section whose name differs from OpenPai in case only."""
    sections = _keys()
    if SECTION in sections:
        return []
    return [
        f"section names are case-sensitive: rename [{section}] to [{SECTION}]"
        for section in sections
        if section.lower() == SECTION.lower()
    ]


def unknown_keys(known: list[str]) -> dict[str, str]:
    """Return each unknown key of the section, with a hint."""
    found = {}
    for key in _keys().get(SECTION, ()):
        name = key.replace("-", "_")  # Luigi takes both
        if name not in known:
            similar = difflib.get_close_matches(name.lower(), known, n=1)
            found[key] = f"did you mean {similar[0]}?" if similar else "it has no effect"
    return found


def unset_variables(section: str, key: str) -> str:
    """Return which environment variables of a value are not set, without the rest of the value."""
    value = str(luigi.configuration.get_config().get(section, key, raw=True))
    unset = [name for name in re.findall(r"\$\{([^}]+)\}", value) if name not in os.environ]
    if len(unset) == 1 and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", unset[0]):
        return f"the environment variable {unset[0]}, not set"
    return "environment variables, ${...}, not set"
