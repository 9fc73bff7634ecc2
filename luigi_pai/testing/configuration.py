"""Luigi's configuration during a test: [OpenPai] and every [OpenPai:NAME] lead to one place."""

from __future__ import annotations

import contextlib
import copy
import os
from typing import TYPE_CHECKING, Any
from unittest import mock

import luigi.configuration

from luigi_pai.config_file import CLUSTER_VARIABLE, SECTION
from luigi_pai.local.luigi_config import compose

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

__all__ = ["luigi_configured", "open_pai_settings"]


def open_pai_settings() -> dict[str, str]:
    """Return the user's [OpenPai]."""
    return _sections(luigi.configuration.get_config()).get(SECTION, {})


@contextlib.contextmanager
def luigi_configured(section: Mapping[str, str], file: Path) -> Iterator[None]:
    """Have tasks read these settings, in this process and in Luigis that it starts.

    Args:
        section: the keys of [OpenPai]; a cluster of another name ([OpenPai:NAME]) gets them too, so that
            no test submits to it by mistake.
        file: where the configuration for other processes is written. It has the password, and is deleted
            afterwards.
    """
    config = luigi.configuration.get_config()
    earlier = _sections(config)
    names = [SECTION, *(name for name in earlier if name.startswith(f"{SECTION}:"))]
    file.touch(mode=0o600)
    file.write_text(compose(None, section, names), "utf-8")
    environment = {name: value for name, value in os.environ.items() if name != CLUSTER_VARIABLE}
    environment |= {"LUIGI_CONFIG_PATH": str(file), "LUIGI_CONFIG_PARSER": "cfg"}
    for name in ("no_proxy", "NO_PROXY"):
        environment[name] = ",".join(filter(None, (environment.get(name), "127.0.0.1,localhost")))
    try:
        for name in names:
            _write(config, name, section)
        with mock.patch.dict(os.environ, environment, clear=True):
            yield
    finally:
        file.unlink(missing_ok=True)
        for name in names:
            _write(config, name, earlier.get(name))


def _sections(config: Any) -> dict[str, dict[str, str]]:
    """Return the sections of a configuration, of luigi.cfg or luigi.toml."""
    if hasattr(config, "data"):
        return copy.deepcopy(dict(config.data))
    return {name: dict(config.items(name, raw=True)) for name in config.sections()}


def _write(config: Any, name: str, section: Mapping[str, str] | None) -> None:
    """Replace a section, or remove it."""
    if hasattr(config, "data"):
        config.data.pop(name, None)
        if section is not None:
            config.data[name] = dict(section)
        return
    config.remove_section(name)
    if section is not None:
        config.add_section(name)
        for key, value in section.items():
            config.set(name, key, str(value))
