"""Reads the names and keys of the sections ``[OpenPai...]`` of luigi.cfg, and finds mistakes in them."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import functools
import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import luigi
import luigi.configuration
from luigi.cmdline_parser import CmdlineParser
from luigi.parameter import ParameterVisibility

from luigi_pai.errors import ClusterUnreachable, ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import NoReturn

SECTION = "OpenPai"
CLUSTER_VARIABLE = "LUIGI_PAI_CLUSTER"
"""Environment variable with the NAME of ``[OpenPai:NAME]`` for tasks and commands that name no cluster."""
NO_FILE = "no luigi.cfg was found in this folder, in /etc/luigi, or at LUIGI_CONFIG_PATH"

_PREFIX = f"{SECTION}:"
_SECRETS = ("password", "token")
_ENVIRONMENT = re.compile(r"\$\{(\w+)\}")
_SECRET_OF_OTHERS = re.compile(r".*(?:password|passwd|secret)", re.IGNORECASE)
_SIMILAR = re.compile(rf"{SECTION}\s*[-:._/ ]\s*(.+)", re.IGNORECASE)  # may be meant as [OpenPai:NAME]


try:
    _STARTED_IN = str(Path.cwd())  # Luigi, which is imported above, has read its configuration here
except OSError:  # the folder was removed
    _STARTED_IN = ""


class _RefusedOption(argparse.Action):
    """An option that ends the command: every account of the machine can read a command line."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,  # noqa: ARG002
        values: object,  # noqa: ARG002  the secret
        option_string: str | None = None,
    ) -> NoReturn:
        key = str(option_string).rpartition("-")[2]
        parser.exit(
            2,
            f"{parser.prog}: {option_string} is not accepted, because other users can read command lines; "
            f"nothing was run. Write {key} = ${{PAI_{key.upper()}}} into luigi.cfg, and set this environment "
            "variable\n",
        )


class SecretParameter(luigi.OptionalParameter):
    """A setting that is in no log, task ID or message to the scheduler, and refused on a command line."""

    def __init__(self, description: str) -> None:
        super().__init__(
            default=None,
            significant=False,
            visibility=ParameterVisibility.PRIVATE,
            description=description,
        )

    @classmethod
    def _parser_kwargs(cls, *names: Any) -> dict[str, Any]:
        """Return the arguments of ``add_argument`` for the option that Luigi makes of each parameter."""
        return {**super()._parser_kwargs(*names), "action": _RefusedOption}  # type: ignore[no-untyped-call]


class PickledSettings:
    """Settings that are pickled without secrets; unpickling reads the secrets from luigi.cfg."""

    param_kwargs: dict[str, Any]

    def __reduce__(self) -> tuple[Any, ...]:
        given = {name: value for name, value in self.param_kwargs.items() if name not in _SECRETS}
        return functools.partial(type(self), **given), ()

    def __copy__(self) -> PickledSettings:
        return self  # settings never change

    def __deepcopy__(self, _memory: object) -> PickledSettings:
        return self


def files_read() -> list[str]:
    """Return the configuration files of Luigi that exist."""
    parser = luigi.configuration.get_config()
    paths = getattr(parser, "_config_paths", [])
    return [str(path) for path in paths if Path(path).is_file()]


def configuration_files() -> list[str]:
    """Return the paths from which Luigi may have read configurations, with any of its parsers.

    A relative path stands for two: in the folder in which the process was, and in which it is.
    """
    paths = [os.environ.get("LUIGI_CONFIG_PATH", "")]
    for parser in (luigi.configuration.LuigiConfigParser, luigi.configuration.LuigiTomlParser):
        paths += map(str, parser._config_paths)  # noqa: SLF001  Luigi tells it nowhere else
    return [place for path in paths if path for place in (path, os.path.join(_STARTED_IN, path))]  # noqa: PTH118


def configured_secrets() -> set[str]:
    """Return the passwords and tokens in Luigi's configuration, with the values of ``${...}``.

    In other sections than those of clusters, only passwords count: the ``pad_token`` of a task is no secret.
    """
    found = set[str]()
    for section in _sections():
        is_cluster = section == SECTION or section.startswith(_PREFIX)
        for key, value in _values(section):
            if (is_cluster and key in _SECRETS) or _SECRET_OF_OTHERS.fullmatch(key):
                filled = _ENVIRONMENT.sub(lambda match: os.environ.get(match[1], ""), str(value))
                found |= {filled, filled.replace("%%", "%")}
    return found - {""}


def unreadable_files(section: str) -> list[str]:
    """Return a problem for each unreadable file if a section lacks ``pai_url``, which may be in that file."""
    files = [] if has_key(section, "pai_url") else files_read()
    return [
        f"pai_url is not set: {file} may not be read by you; change its mode with chmod u+r"
        for file in files
        if not os.access(file, os.R_OK)
    ]


def unset_address(section: str) -> str:
    """Return why ``pai_url`` of a section is not set; empty if it is set."""
    if has_key(section, "pai_url"):
        return ""
    why = "" if files_read() else f": {NO_FILE}"
    return next(iter(unreadable_files(section)), f"pai_url is not set{why}")


@contextlib.contextmanager
def with_address(cluster: str | None = None) -> Iterator[None]:
    """In this context, the text of a ClusterUnreachable also says if ``pai_url`` is not set."""
    try:
        yield
    except ClusterUnreachable as error:
        unset = unset_address(chosen_section(cluster))
        if not unset or error.mocked or unset in str(error):
            raise
        raise error.extended(unset) from None


def chosen_section(cluster: str | None) -> str:
    """Return the section of a cluster: ``OpenPai:NAME``, or ``OpenPai`` if no cluster is named.

    If ``cluster`` is None or empty, the environment variable ``LUIGI_PAI_CLUSTER`` can name the cluster.

    Raises:
        ConfigError: luigi.cfg has no such section; the text of the error lists the sections of clusters.
    """
    name = cluster or os.environ.get(CLUSTER_VARIABLE)
    if not name:
        return SECTION
    section = f"{_PREFIX}{name}"
    if section in _sections():
        return section
    where = "" if cluster else f", which {CLUSTER_VARIABLE} names,"
    known = [section for section in _sections() if section == SECTION or section.startswith(_PREFIX)]
    there = f"it has {', '.join(f'[{section}]' for section in known)}" if known else "it has no clusters"
    hint = f"; {advice}" if (advice := misspelled_clusters().get(section)) else ""
    raise ConfigError(
        f"cluster {str(name)!r}{where} is not in luigi.cfg: there is no section [{section}]; {there}{hint}"
    )


def clusters() -> list[str]:
    """Return the NAME of each section ``[OpenPai:NAME]``, in the order of the sections."""
    return [section.removeprefix(_PREFIX) for section in _sections() if section.startswith(_PREFIX)]


def cluster_option(section: str) -> str:
    """Return ``--cluster NAME`` for a section, with a blank in front; empty for [OpenPai]."""
    name = section.partition(":")[2]
    return f" --cluster {shlex.quote(name)}" if name else ""


def raw_settings(section: str) -> tuple[Any, ...]:
    """Return what the settings are read from. If it has not changed, the settings have not changed either."""
    parser = luigi.configuration.get_config()
    data = getattr(parser, "data", None)  # only a TOML parser has it
    text = ""
    for one in dict.fromkeys((SECTION, section)):  # [OpenPai:NAME] takes keys from [OpenPai]
        if isinstance(data, dict):
            text += repr(data.get(one))
        elif parser.has_section(one):
            text += repr(parser.items(one, raw=True))
    named = tuple(os.environ.get(name) for name in _ENVIRONMENT.findall(text))
    return text, named, CmdlineParser.get_instance()


def is_given_to_luigi(key: str) -> bool:
    """Return whether Luigi's command line has ``--OpenPai-KEY``."""
    parser = CmdlineParser.get_instance()
    return parser is not None and bool(getattr(parser.known_args, f"{SECTION}_{key}", None))


def _sections() -> list[str]:
    config = luigi.configuration.get_config()
    data = config.data if isinstance(config, luigi.configuration.LuigiTomlParser) else config.sections()
    return list(data)


def _keys(section: str) -> list[str]:
    """Return the keys of a section, as written."""
    config = luigi.configuration.get_config()
    if section not in _sections():
        return []
    if isinstance(config, luigi.configuration.LuigiTomlParser):
        return list(config.data[section])
    shared = config.defaults()  # keys of [DEFAULT], which every section has
    return [key for key in config.options(section) if key not in shared]


def _values(section: str) -> list[tuple[str, Any]]:
    """Return the keys of a section, those of [DEFAULT] included, and their values as written."""
    config = luigi.configuration.get_config()
    if isinstance(config, luigi.configuration.LuigiTomlParser):
        content = config.data[section]
        return list(content.items()) if isinstance(content, Mapping) else []
    return list(config.items(section, raw=True))


def misspelled_sections() -> list[str]:
    """Return a problem for each section named [OpenPai] in other letter case; none if [OpenPai] exists."""
    sections = _sections()
    if SECTION in sections:
        return []
    return [
        f"section names are case-sensitive: rename [{section}] to [{SECTION}]"
        for section in sections
        if section.lower() == SECTION.lower()
    ]


def misspelled_clusters() -> dict[str, str]:
    """Return a dict from the correct name of each misspelled section [OpenPai:NAME] to an advice."""
    wrong = {}
    for section in _sections():
        match = _SIMILAR.fullmatch(section)
        right = f"{_PREFIX}{match[1].strip()}" if match else section
        if section != right:
            wrong[right] = f"rename [{section}] to [{right}]"
    return wrong


def unknown_keys(section: str, known: list[str]) -> dict[str, str]:
    """Return a dict from each unknown key of a section to a hint."""
    found = {}
    for key in _keys(section):
        name = key.replace("-", "_")  # Luigi accepts both
        if name not in known:
            similar = difflib.get_close_matches(name.lower(), known, n=1)
            found[key] = f"did you mean {similar[0]}?" if similar else "it has no effect"
    return found


def has_key(section: str, key: str) -> bool:
    """Return whether a section itself has a key; keys of [DEFAULT] do not count."""
    return key in (found.replace("-", "_") for found in _keys(section))


def unset_variables(section: str, key: str) -> str:
    """Return a text about the unset environment variables of a value. It shows no other part of the value."""
    value = str(luigi.configuration.get_config().get(section, key, raw=True))
    unset = [name for name in re.findall(r"\$\{([^}]+)\}", value) if name not in os.environ]
    if len(unset) == 1 and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", unset[0]):
        return f"the environment variable {unset[0]}, not set"
    return "environment variables, ${...}, not set"
