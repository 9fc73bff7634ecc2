"""The [OpenPai] section: what holds without it, and what is refused in it."""

from __future__ import annotations

import copy
import inspect
import logging
import pickle

import luigi.configuration
import luigi.contrib.pai as contrib
import pytest
import yaml
from luigi.parameter import ParameterVisibility
from places import DATA

from luigi_pai.config import OpenPai
from luigi_pai.config_file import FIRST_FILE, addressed, ignored_files, no_file
from luigi_pai.errors import AuthenticationError, ClusterUnreachable, ConfigError, InvalidReply
from luigi_pai.settings import OF_TASKS, SETTINGS
from luigi_pai.tasks.job_task import JobTask

OLD_KEYS = ("pai_url", "username", "password", "expiration")


def values(kind: str) -> list[tuple[str, object, str]]:
    """Return a key, a value and a message for each case of tests/data/settings.yaml."""
    cases = yaml.safe_load((DATA / "settings.yaml").read_text("utf-8"))[kind]
    return [
        (key, value, case.get("text", ""))
        for case in cases
        for key in case["keys"]
        for value in case["values"]
    ]


def refused(**keys: object) -> str:
    """Return the text of the error that these settings give."""
    with pytest.raises(ConfigError) as caught:
        OpenPai(**keys).check()
    text = str(caught.value)
    assert text.startswith("[OpenPai] in luigi.cfg: ")
    assert "\n" not in text
    return text.removeprefix("[OpenPai] in luigi.cfg: ")


# ---------------------------------------------------------------- defaults


def test_the_old_keys_have_the_defaults_of_contrib():
    """The four keys of luigi.contrib.pai come first, and mean without a luigi.cfg what they meant there."""
    with pytest.warns(UserWarning, match='Parameter "password"'):  # contrib's own, about its None
        theirs = contrib.OpenPai()
    ours = OpenPai()
    assert {key: getattr(ours, key) for key in OLD_KEYS} == {key: getattr(theirs, key) for key in OLD_KEYS}
    assert [name for name, _ in OpenPai.get_params()][:4] == list(OLD_KEYS)
    assert OpenPai.get_task_family() == contrib.OpenPai.get_task_family() == "OpenPai"


@pytest.mark.parametrize("key", SETTINGS)
def test_a_default_is_valid(key):
    """Defaults are not checked when the settings are read. Each key says what it is for."""
    setting, parameter = SETTINGS[key], dict(OpenPai.get_params())[key]
    assert setting.default is parameter.task_value("NoSection", key)
    assert parameter.description
    if setting.default is not None and setting.check is not None:
        assert setting.check.problems(key, setting.default) == []


def test_only_keys_that_tasks_override_are_attributes_of_tasks():
    """Their documentation has the description of the key; None leaves the key as it is."""
    attributes = {name: value for name, value in vars(JobTask).items() if name in SETTINGS}
    assert set(attributes) == set(OF_TASKS)
    for name, value in attributes.items():
        assert isinstance(value, property)
        assert value.fget(None) is None
        assert inspect.getdoc(value) == (
            f"{SETTINGS[name].description}\n\nIf None, the setting of the same name in luigi.cfg applies."
        )


def test_a_section_written_for_contrib_is_read(settings):
    """Old settings go on working, with their types."""
    settings(pai_url="http://pai:9186", username="bob", password="hunter2", expiration=600)
    read = OpenPai()
    assert [getattr(read, key) for key in OLD_KEYS] == ["http://pai:9186", "bob", "hunter2", 600]
    read.check()


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(("key", "value", "text"), values("invalid"))
def test_an_invalid_value_names_its_key(key, value, text):
    """Each is one line with the key and what is valid."""
    assert refused(**{key: value}) == text.replace("KEY", key).replace("VALUE", str(value))


@pytest.mark.parametrize(("key", "value", "_text"), values("valid"))
def test_a_valid_value_is_accepted(key, value, _text):
    OpenPai(**{key: value}).check()


def test_all_wrong_values_are_in_one_error():
    """Nobody has to correct a luigi.cfg one error at a time."""
    text = refused(pai_url="h", portal_url="ftp://h", username="", fs_uri="x", expiration=1, poll_min=0.0)
    named = [part.split()[0] for part in text.split("; ") if not part.startswith(("use ", "write "))]
    assert named == ["pai_url", "username", "expiration", "fs_uri", "portal_url", "poll_min"]


def test_a_percent_sign_in_a_secret_is_written_twice(settings):
    settings(password="hun%%ter2")
    assert OpenPai().password == "hun%ter2"


# ---------------------------------------------------------------- names of section and keys


@pytest.fixture
def section():
    """Write sections of luigi.cfg that are gone after the test."""
    config = luigi.configuration.get_config()
    before = set(config.sections())
    yield config.read_string
    for name in set(config.sections()) - before:
        config.remove_section(name)


@pytest.mark.parametrize("name", ["openpai", "OpenPAI", "OPENPAI", "Open-PAI", "open_pai", "OpenPai "])
def test_a_section_with_a_similar_name_is_named(section, name):
    """Its settings would have no effect, and the defaults would be taken without a word."""
    section(f"[{name}]\npai_url = http://pai:9186\n")
    assert refused() == f"section names must match exactly: rename [{name}] to [OpenPai]"


def test_a_section_in_another_case_beside_the_right_one_is_no_error(section, settings):
    """It may be another program's."""
    section("[openpai]\npai_url = http://pai:9186\n")
    settings(username="bob")
    OpenPai().check()


def test_an_unknown_key_is_a_warning_with_the_most_similar_one(settings, caplog):
    """Each is logged once; no value is shown."""
    settings(pai_ulr="http://pai:9186", passwd="hunter2", frobnicate="1", username="bob")
    for _ in range(2):
        OpenPai().check()
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "[OpenPai] in luigi.cfg: unknown key 'pai_ulr'; did you mean pai_url?",
        "[OpenPai] in luigi.cfg: unknown key 'passwd'; did you mean password?",
        "[OpenPai] in luigi.cfg: unknown key 'frobnicate'; it has no effect",
    ]


@pytest.mark.filterwarnings("ignore:.*with dashes:DeprecationWarning")
def test_keys_with_dashes_and_of_default_are_no_unknown_keys(section, caplog, monkeypatch):
    """Luigi takes a dash for an underscore, and [DEFAULT] is part of every section."""
    monkeypatch.setitem(luigi.configuration.get_config().defaults(), "home", "/home/bob")
    section("[OpenPai]\nfs-uri = hdfs://h:9000\n")
    read = OpenPai()
    read.check()
    assert read.fs_uri == "hdfs://h:9000"
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


def test_a_toml_configuration_is_read_too(caplog, monkeypatch):
    """Luigi's other parser keeps its sections elsewhere."""
    toml = luigi.configuration.LuigiTomlParser()
    toml.data = {"OpenPai": {"pai_ulr": "http://pai:9186"}}
    read = OpenPai()
    monkeypatch.setattr("luigi.configuration.get_config", lambda: toml)
    read.check()
    assert "unknown key 'pai_ulr'; did you mean pai_url?" in caplog.text
    toml.data = {"openpai": {"pai_url": "http://pai:9186"}}
    with pytest.raises(ConfigError, match=r"rename \[openpai\] to \[OpenPai\]"):
        read.check()


# ---------------------------------------------------------------- verify


@pytest.mark.parametrize(
    ("word", "value"),
    [
        *[(word, True) for word in ("true", "True", "yes", "1", "")],
        *[(word, False) for word in ("false", "False", "no", "0", " false ")],
    ],
)
def test_verify_is_true_or_false(word, value):
    """The usual words for both are taken."""
    assert OpenPai(verify=word).tls_verify() is value
    OpenPai(verify=word).check()


def test_verify_is_a_file_of_certificates(tmp_path, monkeypatch):
    """Any other word is a path, in which ~ and $VARS are resolved."""
    (tmp_path / "ca.pem").write_text("")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CERTS", str(tmp_path))
    for word in (str(tmp_path / "ca.pem"), "~/ca.pem", "$CERTS/ca.pem"):
        read = OpenPai(verify=word)
        assert read.tls_verify() == str(tmp_path / "ca.pem")
        read.check()


# ---------------------------------------------------------------- secrets


def test_neither_repr_nor_task_id_holds_a_secret(settings, caplog):
    """What Luigi prints, logs, sends to its scheduler or names the section by holds no password or token."""
    caplog.set_level(logging.DEBUG)
    settings(password="hunter2", token="secret-token")
    read = OpenPai()
    assert (read.password, read.token) == ("hunter2", "secret-token")
    public = [repr(read), str(read), read.task_id, caplog.text, str(read.to_str_params(only_public=True))]
    assert not any("hunter2" in text or "secret-token" in text for text in public)
    visibility = {name: parameter.visibility for name, parameter in OpenPai.get_params()}
    hidden = {name: value for name, value in visibility.items() if value is not ParameterVisibility.PUBLIC}
    assert hidden == dict.fromkeys(("password", "token"), ParameterVisibility.PRIVATE)
    assert OpenPai(password="a", token="b").task_id == read.task_id, "a hash that anybody could guess against"


def test_a_pickle_has_no_secret(settings):
    """Password and token are read from luigi.cfg where it is loaded; a copy has them."""
    settings(username="anna", password="the-password", token="the-token")
    ours = OpenPai()
    data = pickle.dumps(ours)
    assert b"the-" not in data
    assert copy.deepcopy(ours).password == copy.copy(ours).password == "the-password"
    settings(password="another")
    theirs = pickle.loads(data)
    assert (theirs.username, theirs.password, theirs.token) == ("anna", "another", "the-token")


# ---------------------------------------------------------------- files that Luigi does not read


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A folder without a luigi.cfg, in which the process is, and a home without one."""
    folder = tmp_path / "project" / "code"
    folder.mkdir(parents=True)
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(folder)
    monkeypatch.setattr("luigi_pai.config_file.files_read", list)
    return tmp_path


@pytest.mark.parametrize(
    ("file", "further"),
    [
        ("project/code/luigi.toml", " and LUIGI_CONFIG_PARSER=toml (needs: pip install toml)"),
        ("project/code/Luigi.cfg", ""),
        ("project/code/luigi.cfg.txt", ""),
        ("project/luigi.cfg", ""),
        ("home/luigi.cfg", ""),
    ],
)
def test_a_file_that_luigi_does_not_read_is_named(places, file, further):
    (places / file).write_text("")
    assert ignored_files() == [f"{places / file} is not read: set LUIGI_CONFIG_PATH={places / file}{further}"]


def test_beside_a_luigi_cfg_only_files_of_its_folder_are_named(places, monkeypatch):
    for file in ("project/code/luigi.cfg", "project/luigi.cfg", "home/luigi.cfg"):
        (places / file).write_text("")
    monkeypatch.setattr("luigi_pai.config_file.files_read", lambda: ["luigi.cfg"])
    assert ignored_files() == []


@pytest.mark.parametrize(
    "error", [ClusterUnreachable("cannot reach"), AuthenticationError("refused"), InvalidReply("a page")]
)
def test_an_error_of_the_default_address_begins_with_the_missing_file(places, error):
    """Whatever answers there, it may be another cluster than the user's."""
    assert str(addressed(error)) == (
        f"pai_url is not set: {no_file()}; {FIRST_FILE}. At the default address: {error}"
    )
    (places / "home" / "luigi.cfg").write_text("")
    explained = addressed(error)
    assert f"{no_file()}; {places}/home/luigi.cfg is not read: " in str(explained)
    assert addressed(explained) is explained


def test_an_error_of_the_default_address_names_the_sections_that_there_are(section, monkeypatch, tmp_path):
    (tmp_path / "luigi.cfg").write_text("")
    monkeypatch.setattr("luigi_pai.config_file.files_read", lambda: [str(tmp_path / "luigi.cfg")])
    section("[pai]\npai_url = http://pai:9186\n")
    text = str(addressed(ClusterUnreachable("cannot reach")))
    file = f"{tmp_path}/luigi.cfg"
    assert text.startswith(f"pai_url is not set: {file} has no section [OpenPai]; sections there: ")
    assert "pai" in text.partition("sections there: ")[2].partition(". At")[0].split(", ")
    section("[OpenPai]\nusername = anna\n")
    text = str(addressed(ClusterUnreachable("cannot reach")))
    assert text.startswith(
        f"pai_url is not set: [OpenPai] of {file} does not have it. At the default address"
    )
