"""Luigi's configuration during a test: [OpenPai] and every [OpenPai:NAME] have the same settings."""

from __future__ import annotations

import configparser
import contextlib
import io
import os
from typing import TYPE_CHECKING, Any
from unittest import mock

import luigi.configuration
import pytest

from luigi_pai.config_file import CLUSTER_VARIABLE, SECTION
from luigi_pai.errors import ConfigError
from luigi_pai.local.luigi_config import only_here

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_PATH_VARIABLE = "LUIGI_CONFIG_PATH"
_STATE_VARIABLE = "XDG_STATE_HOME"

Sections = dict[str, dict[str, Any]]


@contextlib.contextmanager
def luigi_configured(section: Mapping[str, Any], folder: Path) -> Iterator[None]:
    """Apply these settings (raw values) to all tasks in this process and in Luigi processes that it starts.

    Files that Luigi reads during the test (``add_config_path``, or a new parser) do not change the settings.
    Each [OpenPai:NAME] also gets them, so that no test submits to a real cluster by mistake. Processes that
    the test starts read them from a file in ``folder``, which contains the password and is deleted
    afterwards. Claims are also stored in ``folder``, so that a test leaves nothing in the user's home folder.

    Raises:
        ConfigError: Luigi's configuration is a luigi.toml.
    """
    config = luigi.configuration.get_config()
    if isinstance(config, luigi.configuration.LuigiTomlParser):
        raise ConfigError("the fixtures need a luigi.cfg; run pytest without LUIGI_CONFIG_PARSER = toml")
    parser, earlier = type(config), _sections(config)
    read = parser.read
    file = folder / "luigi.cfg"

    def point(config: Any) -> None:
        for name in _clusters(config):
            _write(config, name, section)

    def read_others(config: Any, *args: Any, **kwargs: Any) -> Any:
        found = read(config, *args, **kwargs)
        point(config)
        return found

    file.touch(mode=0o600)
    try:
        file.write_text(_file_for_others(_clusters(config), section), "utf-8")
        point(config)
        with mock.patch.object(parser, "read", read_others), pytest.MonkeyPatch.context() as environment:
            environment.setenv(_PATH_VARIABLE, str(file))
            environment.delenv(CLUSTER_VARIABLE, raising=False)
            environment.setenv(_STATE_VARIABLE, str(folder / "state"))
            for name in ("no_proxy", "NO_PROXY"):
                environment.setenv(
                    name, ",".join(filter(None, (os.environ.get(name), "127.0.0.1,localhost")))
                )
            yield
    finally:
        file.unlink(missing_ok=True)
        for each in (config, luigi.configuration.get_config()):
            for name in _clusters(each):
                _write(each, name, earlier.get(name))


def _clusters(config: Any) -> list[str]:
    """Return the names of the cluster sections, [OpenPai] first."""
    return [SECTION, *(name for name in config.sections() if name.startswith(f"{SECTION}:"))]


def _sections(config: Any) -> Sections:
    """Return a configuration's sections."""
    shared = config.defaults().items()
    return {
        name: {key: value for key, value in config.items(name, raw=True) if (key, value) not in shared}
        for name in config.sections()
    }


def _write(config: Any, name: str, section: Mapping[str, Any] | None) -> None:
    """Replace the ``name`` section with ``section``, or remove it if ``section`` is None."""
    config.remove_section(name)
    if section is not None:
        config.read_string(
            _with_sections(_parser(), {name: dict(section)})
        )  # because set() rejects a single %


def _file_for_others(clusters: list[str], section: Mapping[str, Any]) -> str:
    """Return the file at LUIGI_CONFIG_PATH with its clusters replaced, for processes that a test starts.

    These processes also read ./luigi.cfg: see `only_here`.
    """
    parser = _parser()
    parser.read(os.environ.get(_PATH_VARIABLE, ""), "utf-8")
    return _with_sections(parser, {name: only_here(section) for name in clusters})


def _parser() -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser()
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # keys keep their case, as in Luigi
    return parser


def _with_sections(parser: configparser.RawConfigParser, sections: Sections) -> str:
    """Replace some sections of a parser's configuration, and return the configuration as a string."""
    for name in sections:
        parser.remove_section(name)
    parser.read_dict(sections)
    file = io.StringIO()
    parser.write(file)
    return file.getvalue()
