"""Luigi's configuration during a test: [OpenPai] and every [OpenPai:NAME] lead to one place."""

from __future__ import annotations

import configparser
import contextlib
import copy
import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import luigi.configuration
import pytest

from luigi_pai.config_file import CLUSTER_VARIABLE, SECTION

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["luigi_configured", "open_pai_settings"]

_PATH_VARIABLE = "LUIGI_CONFIG_PATH"

Sections = dict[str, dict[str, Any]]


def open_pai_settings() -> dict[str, Any]:
    """Return the user's [OpenPai], its values as they are written."""
    return _sections(luigi.configuration.get_config()).get(SECTION, {})


@contextlib.contextmanager
def luigi_configured(section: Mapping[str, Any], folder: Path) -> Iterator[None]:
    """Have tasks read these settings, in this process and in Luigis that it starts.

    Files that the test has Luigi read (``add_config_path``, or a new parser) do not change them.

    Args:
        section: the keys of [OpenPai], their values as they are written; a cluster of another name
            ([OpenPai:NAME]) gets them too, so that no test submits to it by mistake.
        folder: where the configuration for other processes is written. It has the password, and is
            deleted afterwards.
    """
    config = luigi.configuration.get_config()
    parser, earlier = type(config), _sections(config)
    read = parser.read
    file = folder / ("luigi.toml" if _is_toml(config) else "luigi.cfg")

    def point(config: Any) -> None:
        for name in _clusters(_sections(config)):
            _write(config, name, section)

    def read_others(config: Any, *args: Any, **kwargs: Any) -> Any:
        found = read(config, *args, **kwargs)
        point(config)
        return found

    file.touch(mode=0o600)
    try:
        file.write_text(_text_for_others(config, section), "utf-8")
        point(config)
        with mock.patch.object(parser, "read", read_others), pytest.MonkeyPatch.context() as environment:
            environment.setenv(_PATH_VARIABLE, str(file))
            environment.delenv(CLUSTER_VARIABLE, raising=False)
            for name in ("no_proxy", "NO_PROXY"):
                environment.setenv(
                    name, ",".join(filter(None, (os.environ.get(name), "127.0.0.1,localhost")))
                )
            yield
    finally:
        file.unlink(missing_ok=True)
        for each in (config, luigi.configuration.get_config()):
            for name in _clusters(_sections(each)):
                _write(each, name, earlier.get(name))


def _is_toml(config: Any) -> bool:
    return isinstance(config, luigi.configuration.LuigiTomlParser)


def _clusters(sections: Sections) -> list[str]:
    """Return the names of the sections of clusters, [OpenPai] first."""
    return [SECTION, *(name for name in sections if name.startswith(f"{SECTION}:"))]


def _sections(config: Any) -> Sections:
    """Return the sections of a configuration, of luigi.cfg or luigi.toml."""
    if _is_toml(config):
        return copy.deepcopy(dict(config.data))
    shared = config.defaults().items()
    return {
        name: {key: value for key, value in config.items(name, raw=True) if (key, value) not in shared}
        for name in config.sections()
    }


def _write(config: Any, name: str, section: Mapping[str, Any] | None) -> None:
    """Replace a section, or remove it."""
    if _is_toml(config):
        config.data.pop(name, None)
        if section is not None:
            config.data[name] = dict(section)
        return
    config.remove_section(name)
    if section is not None:
        config.read_string(_text(_parser(), {name: dict(section)}))  # set() would refuse a value with one %


def _text_for_others(config: Any, section: Mapping[str, Any]) -> str:
    """Return the configuration of other processes: the file of LUIGI_CONFIG_PATH, but for its clusters.

    A token in ./luigi.cfg, which they read as well, belongs to another cluster, and is emptied.
    """
    path = os.environ.get(_PATH_VARIABLE, "")
    clusters = {name: {"token": "", **section} for name in _clusters(_sections(config))}
    if _is_toml(config):
        import toml  # type: ignore[import-untyped]  # noqa: PLC0415  what Luigi reads it with

        found = toml.load(path) if path.endswith(".toml") and Path(path).is_file() else {}
        return str(toml.dumps({**found, **clusters}))
    parser = _parser()
    if not path.endswith(".toml"):
        parser.read(path, "utf-8")
    return _text(parser, clusters)


def _parser() -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser()
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # keys keep their case, as in Luigi
    return parser


def _text(parser: configparser.RawConfigParser, sections: Sections) -> str:
    """Return what a parser has read, with some sections in place of those of their names."""
    for name in sections:
        parser.remove_section(name)
    parser.read_dict(sections)
    text = io.StringIO()
    parser.write(text)
    return text.getvalue()
