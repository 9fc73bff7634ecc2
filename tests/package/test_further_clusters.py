"""The sections [OpenPai:NAME]: what they take from [OpenPai], how one is chosen, and what is refused."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

import luigi.configuration
import pytest
import yaml
from luigi.cmdline_parser import CmdlineParser
from luigi.configuration import LuigiTomlParser
from places import DATA

from luigi_pai.config import HdfsAccount, OpenPai
from luigi_pai.config_file import clusters, misspelled_clusters
from luigi_pai.errors import ConfigError
from luigi_pai.tasks.luigi_page import has_page

if TYPE_CHECKING:
    from collections.abc import Iterator

ERRORS = yaml.safe_load((DATA / "config_errors.yaml").read_text("utf-8"))
EU = {"pai_url": "http://eu:1", "username": "eva"}


@contextlib.contextmanager
def configured(cfg: str) -> Iterator[None]:
    """Add lines to luigi.cfg for a time."""
    config = luigi.configuration.get_config()
    before = {name: dict(config._sections[name]) for name in config.sections()}
    config.read_string(cfg)
    try:
        yield
    finally:
        for name in config.sections():
            config.remove_section(name)
        config.read_dict(before)


def refused(name: str | None = "eu") -> str:
    """Return the text of the error that the settings of a cluster give."""
    with pytest.raises(ConfigError) as caught:
        OpenPai.current(name)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# ---------------------------------------------------------------- which section


def test_a_cluster_is_chosen_by_its_name(settings, further):
    """Each section has its own settings and its own Cluster, which are read once."""
    settings(pai_url="http://first:1", username="anna")
    further("eu", **EU, password="hunter2")
    eu, first = OpenPai.current("eu"), OpenPai.current()
    assert [eu.section, eu.pai_url, eu.username, eu.password] == [
        "OpenPai:eu",
        "http://eu:1",
        "eva",
        "hunter2",
    ]
    assert [first.section, first.pai_url, first.username, first.password] == [
        *("OpenPai", "http://first:1", "anna", None)
    ]
    assert OpenPai.current("eu") is eu
    there = eu.cluster()
    assert there is eu.cluster() is not first.cluster()
    assert (there.url, there.username, there.section) == ("http://eu:1", "eva", "OpenPai:eu")
    assert clusters() == ["eu"]


def test_the_variable_chooses_one_for_what_names_none(settings, further, monkeypatch):
    """LUIGI_PAI_CLUSTER comes after a name that is given, and before [OpenPai]; empty, it names none."""
    settings(username="anna")
    further("eu", **EU)
    further("us", pai_url="http://us:1", username="uma")
    monkeypatch.setenv("LUIGI_PAI_CLUSTER", "eu")
    assert OpenPai.current().section == OpenPai.current("").section == "OpenPai:eu"
    assert OpenPai.current("us").section == "OpenPai:us"
    monkeypatch.setenv("LUIGI_PAI_CLUSTER", "")
    assert OpenPai.current().section == "OpenPai"


def test_a_name_without_a_section(settings, further, monkeypatch):
    """The error has the sections that there are, and says where the name comes from."""
    none = "cluster 'eu' is not in luigi.cfg: there is no section [OpenPai:eu]; "
    assert refused().startswith(f"{none}no luigi.cfg was found in this folder")
    settings(username="anna")
    further("us", **EU)
    assert refused() == (
        "cluster 'eu' is not in luigi.cfg: there is no section [OpenPai:eu]; it has [OpenPai], [OpenPai:us]"
    )
    monkeypatch.setenv("LUIGI_PAI_CLUSTER", "eu")
    assert refused(None).startswith("cluster 'eu', which LUIGI_PAI_CLUSTER names, is not in luigi.cfg: ")


@pytest.mark.parametrize(
    "written", ["openpai:eu", "OpenPAI:eu", "OpenPai: eu", "OpenPai.eu", "OpenPai-eu", "OpenPai eu"]
)
def test_a_misspelled_section_is_named(written):
    """Its name differs in case, or in what stands before NAME."""
    with configured(f"[{written}]\npai_url = http://eu:1\n"):
        assert refused().endswith(f"; rename [{written}] to [OpenPai:eu]")
        assert list(misspelled_clusters().values()) == [f"rename [{written}] to [OpenPai:eu]"]


def test_toml(monkeypatch):
    """Luigi's other parser has the same sections."""
    toml = LuigiTomlParser()
    toml.data = {"OpenPai": {"poll_max": 7.0}, "OpenPai:eu": {**EU, "pasword": "x"}}
    monkeypatch.setattr("luigi.configuration.get_config", lambda: toml)
    monkeypatch.setattr("luigi.parameter.configuration.get_config", lambda: toml)
    monkeypatch.setattr("luigi.task.configuration.get_config", lambda: toml, raising=False)
    eu = OpenPai.current("eu")
    assert (eu.username, eu.poll_max) == ("eva", 7.0)
    assert clusters() == ["eu"]


def test_a_namespace_of_luigi_does_not_rename_the_section(further):
    """Tasks that are defined after luigi.namespace() have its name before theirs."""
    further("later", **EU)
    luigi.namespace("mine")
    try:
        assert OpenPai.current("later").username == "eva"
    finally:
        luigi.namespace()


# ---------------------------------------------------------------- what is taken from [OpenPai]


def test_what_is_taken_from_openpai(settings, further):
    """How one works with a cluster, unless the section says it itself; never where it is, and who one is."""
    shared = {
        "connect_timeout": 3.0,
        "read_timeout": 4.0,
        "poll_min": 0.5,
        "poll_max": 6.0,
        "poll_patience": 7.0,
        "queue_timeout": 8.0,
        "run_timeout": 9.0,
        "on_forgotten": "submit",
        "on_kill": "stop",
        "logs": "stream",
        "keep_logs": True,
        "max_attempts": 3,
        "retry_exit_codes": "1,137",
        "tags": "night",
        "notify": "failed",
        "console": "luigi",
    }
    own = {
        "pai_url": "http://first:1",
        "username": "anna",
        "password": "hunter2",
        "token": "secret-token",
        "expiration": 600,
        "api_version": "v1",
        "verify": "false",
        "server_retention": 60.0,
        "fs_uri": "hdfs://first:9000",
        "webhdfs_url": "http://first:5070",
        "hdfs_user": "hanna",
        "webhdfs_redirect": "http://proxy/{host}",
        "hdfs_auth": "kerberos",
        "storage": "nfs1",
        "storage_path": "/mnt/nfs1",
        "storage_mount": "/data",
        "portal_url": "http://portal",
    }
    assert {*shared, *own} == {name for name, _ in OpenPai.get_params()}
    defaults = {name: getattr(OpenPai(), name) for name in own}
    settings(**shared, **own)
    further("eu", **EU)
    eu = OpenPai.current("eu")
    assert {name: getattr(eu, name) for name in shared} == shared
    assert {name: getattr(eu, name) for name in own} == defaults | EU
    further("eu", poll_max=1, on_kill="leave")
    eu = OpenPai.current("eu")
    assert (eu.poll_max, eu.on_kill, eu.poll_min) == (1.0, "leave", 0.5)


@pytest.mark.filterwarnings("ignore:.*with dashes:DeprecationWarning")
def test_a_key_with_a_dash_is_the_sections_own(settings, further):
    """Luigi takes both spellings."""
    settings(poll_max=6)
    further("eu", **EU, **{"poll-max": 5})
    assert OpenPai.current("eu").poll_max == 5.0


def test_what_luigis_command_line_says_holds_for_all(further, monkeypatch):
    """--OpenPai-on-forgotten submit, which an error advises, comes before every section."""
    if (contrib := sys.modules.get("luigi.contrib.pai")) is not None:  # loaded by another test
        monkeypatch.setattr(contrib.OpenPai, "_visible_in_registry", False)
    further("eu", **EU, on_forgotten="fail")
    assert OpenPai.current("eu").on_forgotten == "fail"
    words = ["OpenPai", "--OpenPai-on-forgotten", "submit", "--OpenPai-username", "anna"]
    with CmdlineParser.global_instance(words, allow_override=True):
        eu = OpenPai.current("eu")
        assert (eu.on_forgotten, eu.username) == ("submit", "eva")
    assert OpenPai.current("eu").on_forgotten == "fail"


def test_luigis_own_hdfs_is_that_of_openpai_only(further):
    """[hdfs] of Luigi is one HDFS, and a further cluster has another."""
    luigi.configuration.get_config().set("hdfs", "namenode_host", "nn")
    further("eu", **EU)
    assert OpenPai.current("eu").hdfs_account() is None
    assert OpenPai.current().hdfs_account() is not None
    further("eu", webhdfs_url="http://eu:5070")
    assert OpenPai.current("eu").hdfs_account() == HdfsAccount(("http://eu:5070",), "eva", "simple")


@pytest.mark.parametrize("changed", ["OpenPai", "OpenPai:eu", "environment"])
def test_a_changed_configuration_is_read_again(changed, further, monkeypatch):
    """That of the section, of what it takes from [OpenPai], and of environment variables in it."""
    monkeypatch.setenv("EU_PASSWORD", "hunter2")
    further("eu", **EU, password="${EU_PASSWORD}")
    before = OpenPai.current("eu")
    assert before.password == "hunter2"
    if changed == "environment":
        monkeypatch.setenv("EU_PASSWORD", "hunter3")
    else:
        luigi.configuration.get_config().set(changed, "poll_max", "9")
    after = OpenPai.current("eu")
    assert after is not before
    assert after.cluster() is not before.cluster()
    assert (after.password, after.poll_max) == (
        ("hunter3", 30.0) if changed == "environment" else ("hunter2", 9.0)
    )


def _set(section, key, value):
    return lambda _patch: luigi.configuration.get_config().set(section, key, value)


def _read_toml(patch):
    toml = LuigiTomlParser()
    toml.data = {"OpenPai": {"webhdfs_url": "http://b:1"}}
    patch.setattr("luigi.configuration.get_config", lambda: toml)
    patch.setattr("luigi.parameter.configuration.get_config", lambda: toml)
    return toml


@pytest.mark.parametrize(
    "change",
    {
        "another section": _set("webhdfs", "port", "1"),
        "the variable of another section": lambda patch: patch.setenv("NAMENODE", "b"),
        "a new key": _set("OpenPai", "webhdfs_url", "http://b:1"),
        "[DEFAULT]": lambda patch: patch.setitem(
            luigi.configuration.get_config().defaults(), "webhdfs_url", "http://b:1"
        ),
        "the parser": _read_toml,
    }.items(),
    ids=lambda change: change[0],
)
def test_hdfs_follows_each_change_of_the_configuration(change, settings, monkeypatch):
    """Also without a new call of OpenPai.current(), and for settings that were read before."""
    settings(username="anna")
    monkeypatch.setenv("NAMENODE", "a")
    _set("hdfs", "namenode_host", "${NAMENODE}")(monkeypatch)
    before = OpenPai.current()
    assert before.hdfs_account() == HdfsAccount(("http://a:50070",), "anna", "simple")
    change[1](monkeypatch)
    after = OpenPai.current().hdfs_account()
    assert after is not None
    assert after.urls in {("http://a:1",), ("http://b:50070",), ("http://b:1",)}


def test_a_section_that_changes_in_a_toml_file_is_read_again(monkeypatch):
    """Luigi changes the dict of a section in place."""
    toml = _read_toml(monkeypatch)
    assert OpenPai.current().hdfs_account() == HdfsAccount(("http://b:1",), "admin", "simple")
    toml.set("OpenPai", "webhdfs_url", "http://c:1")
    assert OpenPai.current().hdfs_account() == HdfsAccount(("http://c:1",), "admin", "simple")


def test_what_has_not_changed_is_not_read_again(further, monkeypatch):
    """Neither the settings, nor Luigi's own keys of HDFS, nor whether there is a web page."""
    further("eu", **EU)
    eu, first = OpenPai.current("eu"), OpenPai.current()
    account, page = first.hdfs_account(), has_page()
    for name in ("get", "getboolean", "items", "options"):
        monkeypatch.setattr(luigi.configuration.LuigiConfigParser, name, None, raising=False)
    assert OpenPai.current("eu") is eu
    assert OpenPai.current() is first
    assert first.hdfs_account() is account
    assert has_page() is page


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize("case", ERRORS.values(), ids=list(ERRORS))
def test_a_mistake_names_its_section_and_key(case):
    """All at once, and no value that may be a secret; tests/data/config_errors.yaml has the cases."""
    eu = "[OpenPai:eu]\npai_url = http://eu:1\nusername = eva"
    with pytest.raises(ConfigError) as caught, configured(case["cfg"].replace("EU", eu)):
        OpenPai.current(case.get("cluster", "eu"))
    assert str(caught.value) == case["error"]
    assert caught.value.__context__ is None


def test_an_unknown_key_is_a_warning_of_its_section(settings, further, caplog):
    """The same key in two sections is two warnings."""
    settings(passwd="hunter2")
    further("eu", **EU, passwd="hunter2")
    for name in (None, "eu", "eu"):
        OpenPai.current(name)
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "[OpenPai] in luigi.cfg: unknown key 'passwd'; did you mean password?",
        "[OpenPai:eu] in luigi.cfg: unknown key 'passwd'; did you mean password?",
    ]


def test_neither_repr_nor_task_id_holds_a_secret(further):
    """The settings of a further cluster keep theirs as those of [OpenPai] do."""
    further("eu", **EU, password="hunter2", token="secret-token")
    eu = OpenPai.current("eu")
    public = [repr(eu), eu.task_id, str(eu.to_str_params(only_public=True)), repr(eu.cluster())]
    assert not any("hunter2" in text or "secret-token" in text for text in public)
