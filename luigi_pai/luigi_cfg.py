"""Reads luigi.cfg or luigi.toml exactly like Luigi, without importing Luigi.

tests/package/test_luigi_cfg.py compares the two.
"""

from __future__ import annotations

import configparser
import functools
import os
import re
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from luigi_pai.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

_TOML = "toml"
_PATHS = {
    "cfg": ("/etc/luigi/client.cfg", "/etc/luigi/luigi.cfg", "client.cfg", "luigi.cfg"),
    _TOML: ("/etc/luigi/luigi.toml", "luigi.toml"),
}
_FORMATS = ("cfg", "conf", "ini", _TOML)
_VARIABLE = re.compile(r"\$\{([^}]+)\}")


class InterpolationMissingEnvvarError(configparser.InterpolationError):
    """A value contains an environment variable that is not set."""


class _Interpolation(configparser.BasicInterpolation):
    """Replaces ``%(key)s``, then ``${NAME}`` with the value of the environment variable."""

    def before_get(self, parser: Any, section: Any, option: str, value: str, defaults: Any) -> str:
        def variable(found: re.Match[str]) -> str:
            if found[1] not in os.environ:
                raise InterpolationMissingEnvvarError(option, section, f"{found[1]} is not set")
            return os.environ[found[1]]

        return _VARIABLE.sub(variable, super().before_get(parser, section, option, value, defaults))


class _CfgParser(configparser.ConfigParser):
    optionxform = str  # type: ignore[assignment]

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__(interpolation=_Interpolation())
        self._config_paths = paths
        self.read(paths)

    def get(self, section: str, option: str, **options: Any) -> Any:  # type: ignore[override]
        """Return a value. Dashes and underscores in a key are equivalent."""
        try:
            return super().get(section, option.replace("-", "_"), **options)
        except (configparser.NoOptionError, configparser.NoSectionError):
            return super().get(section, option.replace("_", "-"), **options)


class _TomlParser:
    def __init__(self, paths: Sequence[str]) -> None:
        try:
            toml = import_module("toml")  # Luigi does not require it
        except ImportError:
            raise ConfigError("LUIGI_CONFIG_PARSER = toml needs a package: pip install toml") from None
        self._config_paths = paths
        self.data: dict[str, Any] = {}
        for path in filter(os.path.isfile, paths):
            for section, keys in toml.load(path).items():
                self.data.setdefault(section, {}).update(keys)

    def get(self, section: str, option: str, **_options: Any) -> Any:
        """Return a value.

        Raises:
            KeyError: There is no such key.
        """
        return self.data[section][option]


@functools.cache
def parser() -> Any:
    """Return a parser that has read the files that Luigi reads. Later calls return the same parser.

    Raises:
        ConfigError: The configuration is a luigi.toml, but the package to read it is not installed.
        configparser.Error: A file cannot be parsed.
    """
    default = os.environ.get("LUIGI_CONFIG_PARSER", "cfg")
    is_toml, path = default == _TOML, os.environ.get("LUIGI_CONFIG_PATH", "")
    ending = Path(path).suffix[1:]
    paths = list(_PATHS[_TOML if is_toml else "cfg"])
    if os.path.isfile(path) and ((ending == _TOML) == is_toml or ending not in _FORMATS):  # noqa: PTH113
        paths.append(path)
    return _TomlParser(paths) if is_toml else _CfgParser(paths)
