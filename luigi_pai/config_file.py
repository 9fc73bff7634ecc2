"""Reads the ``[OpenPai...]`` sections of luigi.cfg, and finds mistakes in them.

If Luigi is loaded, its configuration is used, because a program may have changed it. Otherwise ``luigi_cfg``
reads the same files, because importing Luigi takes longer than a short command.
"""

from __future__ import annotations

import configparser
import contextlib
import copy
import difflib
import os
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from luigi_pai import luigi_cfg
from luigi_pai.errors import ConfigError, JobNotFound, PaiApiError
from luigi_pai.settings import SETTINGS, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from luigi.cmdline_parser import CmdlineParser

SECTION = "OpenPai"
CLUSTER_VARIABLE = "LUIGI_PAI_CLUSTER"
"""Environment variable with the NAME in ``[OpenPai:NAME]``, used if a task or command names no cluster."""
FIRST_FILE = "copy luigi.cfg.example to luigi.cfg and fill it in, or write luigi-pai local -- COMMAND"

_Written = tuple[Mapping[str, Any], Mapping[str, Any]]
_PREFIX = f"{SECTION}:"
_ENVIRONMENT = re.compile(r"\$\{([^}]+)\}")
_SECRET_OF_OTHERS = re.compile(r".*(?:password|passwd|secret)", re.IGNORECASE)
_SIMILAR_FILES = ("luigi.cfg", "luigi.toml", "Luigi.cfg", "luigi.cfg.txt", "luigi.ini", "luigi.conf")
_SIMILAR = re.compile(rf"{SECTION}\s*[-:._/ ]\s*(.+)", re.IGNORECASE)  # may be meant as [OpenPai:NAME]


try:
    _STARTED_IN = str(Path.cwd())  # Luigi has read its configuration here
except OSError:  # the folder was removed
    _STARTED_IN = ""


class Configuration:
    """Luigi's configuration at one moment.

    Attributes:
        sections: Section -> key -> value as written, without the keys of [DEFAULT].
        shared: The keys in [DEFAULT], which every section inherits.
        options: The options of Luigi's command line; None if Luigi was not started from it.
        parser, written: Luigi's parser, and a copy of its data.
        variables: The environment variables in values, as (name, value or None).
        kept: Objects created from the configuration. They are dropped when it changes.
    """

    def __init__(self, parser: Any, options: CmdlineParser | None, written: _Written) -> None:
        self.options = options
        self._given = {} if options is None else vars(options.known_args)  # OpenPai_KEY -> value
        self.written = copy.deepcopy(written)
        self.parser = parser
        sections, self.shared = self.written
        self.sections = {name: keys if isinstance(keys, Mapping) else {} for name, keys in sections.items()}
        names = _ENVIRONMENT.findall(repr(self.written))
        self.variables = [(name, os.environ.get(name)) for name in names]
        self.kept: dict[Any, Any] = {}

    def has_key(self, section: str, key: str) -> bool:
        """Return whether a section itself has a key; keys of [DEFAULT] do not count."""
        keys = self.sections.get(section, {})
        return key in keys or key.replace("_", "-") in keys

    def source(self, section: str, key: str) -> str:
        """Return the section that a section's key is read from, which may be ``OpenPai`` instead."""
        is_own = section == SECTION or SETTINGS[key].scope is Scope.CLUSTER
        is_own = is_own or (self.has_key(section, key) and not self._given.get(f"{SECTION}_{key}"))
        return section if is_own else SECTION

    def read(self, section: str, key: str) -> Any:
        """Read a setting as Luigi does: from its command line, luigi.cfg, or else the default.

        Raises:
            ValueError: The value cannot be parsed; the message may contain it.
            configparser.Error: The value contains a single ``%`` or an unset environment variable.
        """
        setting, given = SETTINGS[key], self._given.get(f"{section}_{key}")
        try:
            return setting.kind.parse(given or self.parser.get(section, key))
        except (configparser.NoSectionError, configparser.NoOptionError, KeyError):
            return setting.default


_latest: Configuration | None = None


def configuration() -> Configuration:
    """Return Luigi's configuration, the same object on each call until something in it changes.

    That may be the parser, a key in any section, the command line, or a variable in a ``${...}``.
    """
    global _latest  # noqa: PLW0603  a cache; if two threads fill it at once, one of them reads again later
    parser, cmdline = _parser(), sys.modules.get("luigi.cmdline_parser")
    options = cmdline.CmdlineParser.get_instance() if cmdline else None
    # The public methods of ConfigParser copy and interpolate, but this runs several times for each task
    is_toml = hasattr(parser, "data")
    written = (parser.data, {}) if is_toml else (parser._sections, parser._defaults)  # noqa: SLF001
    latest = _latest
    if (
        latest is None
        or parser is not latest.parser
        or options is not latest.options
        or written != latest.written
        or any(os.environ.get(name) != value for name, value in latest.variables)
    ):
        latest = _latest = Configuration(parser, options, written)
    return latest


def _parser() -> Any:
    """Return Luigi's parser if Luigi is loaded; otherwise a parser that has read the same files."""
    luigis = sys.modules.get("luigi.configuration")
    return luigi_cfg.parser() if luigis is None else luigis.get_config()


def files_read() -> list[str]:
    """Return Luigi's configuration files that exist."""
    return [str(path) for path in getattr(_parser(), "_config_paths", []) if Path(path).is_file()]


def configuration_files() -> list[str]:
    """Return the paths from which Luigi may have read its configuration, with any of its parsers.

    A relative path is returned twice: for the folder where the process started, and for the current one.
    """
    import luigi.configuration  # noqa: PLC0415  slow to load; only what sends files needs it

    paths = [os.environ.get("LUIGI_CONFIG_PATH", "")]
    for parser in (luigi.configuration.LuigiConfigParser, luigi.configuration.LuigiTomlParser):
        paths += map(str, parser._config_paths)  # noqa: SLF001  Luigi tells it nowhere else
    return [place for path in paths if path for place in (path, os.path.join(_STARTED_IN, path))]  # noqa: PTH118


def configured_secrets() -> set[str]:
    """Return the passwords and tokens in Luigi's configuration, with ``${...}`` replaced by its value.

    In sections other than the clusters', only passwords count: a task's ``pad_token`` is not a secret.
    """
    found = set[str]()
    now = configuration()
    for section, keys in now.sections.items():
        is_cluster = section == SECTION or section.startswith(_PREFIX)
        for key, value in {**now.shared, **keys}.items():
            is_secret = is_cluster and key in SETTINGS and SETTINGS[key].is_secret
            if is_secret or _SECRET_OF_OTHERS.fullmatch(key):
                filled = _ENVIRONMENT.sub(lambda match: os.environ.get(match[1], ""), str(value))
                found |= {filled, filled.replace("%%", "%")}
    return found - {""}


def unreadable_files(section: str) -> list[str]:
    """Return a problem for each unreadable file if a section lacks ``pai_url``, which may be in the file."""
    files = [] if configuration().has_key(section, "pai_url") else files_read()
    return [
        f"pai_url is not set: {file} may not be read by you; change its mode with chmod u+r"
        for file in files
        if not os.access(file, os.R_OK)
    ]


def no_file() -> str:
    """Return the message that there is no luigi.cfg, with the places that were searched."""
    path = os.environ.get("LUIGI_CONFIG_PATH")
    variable = f"LUIGI_CONFIG_PATH ({path})" if path else "LUIGI_CONFIG_PATH"
    return f"no luigi.cfg was found in this folder, in /etc/luigi, or at {variable}"


def ignored_files() -> list[str]:
    """Return a message for each file that is named like a configuration file but not read by Luigi."""
    try:
        folders = [Path.cwd()] if files_read() else [Path.cwd(), *Path.cwd().parents, Path.home()]
    except (OSError, RuntimeError):  # this folder is gone, or there is no home
        return []
    files = [folder / name for folder in dict.fromkeys(folders) for name in _SIMILAR_FILES]
    return [
        f"{file} is not read: set LUIGI_CONFIG_PATH={file}"
        + (" and LUIGI_CONFIG_PARSER=toml (needs: pip install toml)" if file.suffix == ".toml" else "")
        for file in files
        if file.is_file() and not any(file.samefile(each) for each in files_read())
    ]


@contextlib.contextmanager
def with_address(cluster: str | None = None) -> Iterator[None]:
    """Make errors from a server at the default address start with why ``pai_url`` is not set."""
    try:
        yield
    except PaiApiError as error:
        raise addressed(error, cluster) from None


def addressed(error: PaiApiError, cluster: str | None = None) -> PaiApiError:
    """Return an error that starts with why ``pai_url`` is not set, if that may be its cause."""
    if isinstance(error, JobNotFound) or error.mocked or str(error).startswith("pai_url is not set"):
        return error
    section, files = chosen_section(cluster), files_read()
    if configuration().has_key(section, "pai_url"):
        return error
    there = missing_section(section) or f"[{section}] of {', '.join(files)} does not have it"
    unset = f"pai_url is not set: {there}"
    if not files:
        unset = "; ".join([f"pai_url is not set: {no_file()}", *(ignored_files() or [FIRST_FILE])])
    unset = next(iter(unreadable_files(section)), unset)
    return error.reworded(f"{unset}. At the default address: {error}")


def missing_section(section: str) -> str:
    """Return a message if none of the files read has a section; empty if one has, or without files."""
    sections, files = configuration().sections, ", ".join(files_read())
    if section in sections or not files:
        return ""
    return f"{files} has no section [{section}]; sections there: {', '.join(sections) or 'none'}"


def chosen_section(cluster: str | None) -> str:
    """Return a cluster's section: ``OpenPai:NAME``, or ``OpenPai`` if no cluster is named.

    If ``cluster`` is None or empty, the ``LUIGI_PAI_CLUSTER`` environment variable can name the cluster.

    Raises:
        ConfigError: luigi.cfg has no such section. The message lists the clusters' sections.
    """
    name = cluster or os.environ.get(CLUSTER_VARIABLE)
    if not name:
        return SECTION
    section, sections = f"{_PREFIX}{name}", configuration().sections
    if section in sections:
        return section
    where = "" if cluster else f", which {CLUSTER_VARIABLE} names,"
    known = [name for name in sections if name == SECTION or name.startswith(_PREFIX)] or sections
    there = f"it has {', '.join(f'[{name}]' for name in known)}" if known else no_file()
    hint = f"; {advice}" if (advice := misspelled_clusters().get(section)) else ""
    raise ConfigError(
        f"cluster {str(name)!r}{where} is not in luigi.cfg: there is no section [{section}]; {there}{hint}"
    )


def clusters() -> list[str]:
    """Return the NAME of each ``[OpenPai:NAME]`` section, in the order of the sections."""
    return [name.removeprefix(_PREFIX) for name in configuration().sections if name.startswith(_PREFIX)]


def cluster_option(section: str) -> str:
    """Return ``--cluster NAME`` for a section, with a leading space; empty for [OpenPai]."""
    name = section.partition(":")[2]
    return f" --cluster {shlex.quote(name)}" if name else ""


def misspelled_sections() -> list[str]:
    """Return a problem for each section similar to [OpenPai], such as [openpai]; none if [OpenPai] exists."""
    sections = () if SECTION in configuration().sections else configuration().sections
    similar = [name for name in sections if re.sub(r"[\W_]", "", name).lower() == SECTION.lower()]
    return [f"section names must match exactly: rename [{name}] to [{SECTION}]" for name in similar]


def misspelled_clusters() -> dict[str, str]:
    """Return a dict from the correct name of each misspelled [OpenPai:NAME] section to advice."""
    advice = {}
    for section in configuration().sections:
        match = _SIMILAR.fullmatch(section)
        right = f"{_PREFIX}{match[1].strip()}" if match else section
        if section != right:
            advice[right] = f"rename [{section}] to [{right}]"
    return advice


def unknown_keys(section: str) -> dict[str, str]:
    """Return a dict from each unknown key in a section to a hint."""
    found = {}
    for key in configuration().sections.get(section, ()):
        name = key.replace("-", "_")  # Luigi accepts both
        if name not in SETTINGS:
            similar = difflib.get_close_matches(name.lower(), SETTINGS, n=1)
            found[key] = f"did you mean {similar[0]}?" if similar else "it has no effect"
    return found


def unset_variables(section: str, key: str) -> str:
    """Return a message about the unset environment variables in a value, without the rest of the value."""
    value = str(_parser().get(section, key, raw=True))
    unset = [name for name in _ENVIRONMENT.findall(value) if name not in os.environ]
    if len(unset) == 1 and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", unset[0]):
        return f"the environment variable {unset[0]}, not set"
    return "environment variables, ${...}, not set"
