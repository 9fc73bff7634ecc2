"""A cluster's checked settings, from ``[OpenPai]`` or ``[OpenPai:NAME]``. Luigi is not imported."""

from __future__ import annotations

import configparser
import logging
from typing import TYPE_CHECKING, Any

from luigi_pai.config_file import (
    SECTION,
    configuration,
    misspelled_sections,
    unknown_keys,
    unreadable_files,
    unset_variables,
)
from luigi_pai.errors import ConfigError
from luigi_pai.settings import SETTINGS, Settings, tls_verify

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from luigi_pai.api.cluster import Cluster

logger = logging.getLogger("luigi-interface")


def section_values(section: str, given: Container[str] = ()) -> dict[str, Any]:
    """Return the value of each key of a section, except keys in ``given``.

    Raises:
        ConfigError: Some values cannot be read. The message names each key. Unlike parsers' errors, it
            contains no values, because a value may be a password.
        configparser.Error: A configuration file cannot be parsed.
    """
    now = configuration()  # raises errors about files, which do not belong to a key
    values, problems = {}, []
    for key, setting in SETTINGS.items():
        if key in given:
            continue
        source = now.source(section, key)
        try:
            values[key] = now.read(source, key)
        except configparser.Error as error:
            if type(error).__name__ == "InterpolationMissingEnvvarError":
                problems.append(f"{key} needs {unset_variables(source, key)}; set it, or write the value")
            else:
                problems.append(f"{key} contains a single %; write %%")
        except ValueError:
            advice = getattr(setting.check, "advice", "")
            problems.append(f"{key} is not {setting.kind.noun}: use {advice}")
    if problems:  # outside of the except block, because a __context__ might contain a password
        raise _error(section, problems)
    return values


def _error(section: str, problems: list[str]) -> ConfigError:
    return ConfigError(f"[{section}] in luigi.cfg: {'; '.join(_sourced(section, each) for each in problems)}")


def _sourced(section: str, problem: str) -> str:
    """Return a problem. If its key comes from another section, add that section after the key."""
    key, blank, rest = problem.partition(" ")
    is_other = key in SETTINGS and configuration().source(section, key) != section
    return f"{key} of [{SECTION}]{blank}{rest}" if is_other else problem


class ClusterSettings(Settings):
    """The settings of a cluster, from any source.

    Attributes:
        section: The section of luigi.cfg, ``OpenPai`` or ``OpenPai:NAME``.
    """

    section = SECTION

    def cluster(self) -> Cluster:
        """Return the Cluster for these settings, the same object on each call until ``reset_clusters()``.

        Raises:
            ConfigError: A setting is invalid.
        """
        from luigi_pai.api.polling import Polling  # noqa: PLC0415  only runs need luigi_pai.api
        from luigi_pai.api.registry import CLUSTERS  # noqa: PLC0415  as above

        known: tuple[ClusterSettings, Cluster] | None = CLUSTERS.cache.get(type(self))
        if known is not None and known[0] is self:
            return known[1]
        if configuration().kept.get(type(self)) is not self:
            self.check()
        cluster = CLUSTERS.get(
            url=self.pai_url,
            username=self.username,
            password=self.password,
            token=self.token,
            api_version=self.api_version,
            portal_url=self.portal_url,
            fs_uri=self.fs_uri,
            storage=self.storage,
            storage_mount=self.storage_mount,
            expiration=self.expiration,
            verify=tls_verify(self.verify),
            connect_timeout=self.connect_timeout,
            read_timeout=self.read_timeout,
            polling=Polling(self.poll_min, self.poll_max, self.poll_patience),
            retention=self.server_retention,
            section=self.section,
        )
        CLUSTERS.cache.put(type(self), (self, cluster))
        return cluster

    def check(self) -> None:
        """Check all values at once. An unknown key is logged as a warning, once per process.

        Raises:
            ConfigError: Some values are invalid. The message names each key and valid values.
        """
        self._warn_of_unknown_keys()
        now, problems = configuration(), [*unreadable_files(self.section), *misspelled_sections()]
        for key, setting in SETTINGS.items():
            value = getattr(self, key)
            if value is setting.default:
                if setting.required and self.section != SECTION and not now.has_key(self.section, key):
                    problems.append(f"{key} is not set; write {setting.required}")
            elif setting.required and not value:
                problems.append(f"{key} is empty; write {setting.required}")
            elif setting.check is not None:
                problems += setting.check.problems(key, value)
        problems += self._contradictions()
        if problems:
            raise _error(self.section, problems)

    def _contradictions(self) -> Iterator[str]:
        if self.poll_max < self.poll_min:
            yield f"poll_max = {self.poll_max} is less than poll_min = {self.poll_min}"
        if self.storage and bool(self.fs_uri) != bool(self.webhdfs_url):
            yield "storage is set with only one of fs_uri and webhdfs_url; set both for an HDFS, else neither"

    def _warn_of_unknown_keys(self) -> None:
        from luigi_pai.api.registry import CLUSTERS  # noqa: PLC0415  as in cluster()

        for key, advice in unknown_keys(self.section).items():
            once = ("unknown key", self.section, key)
            if not CLUSTERS.cache.get(once):
                CLUSTERS.cache.put(once, value=True)
                logger.warning("[%s] in luigi.cfg: unknown key %r; %s", self.section, key, advice)


class SectionSettings(ClusterSettings):
    """A section's settings, for commands that do not need Luigi.

    Raises:
        ConfigError: Some values cannot be read.
    """

    def __init__(self, section: str) -> None:
        self.section = section
        vars(self).update(section_values(section))
