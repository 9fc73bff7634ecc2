"""Files with credentials are not sent, whatever .paiignore says; a user who names one gets an error."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import luigi.configuration
import pytest
from job_cases import cases

from luigi_pai.files import TransferError
from luigi_pai.files.trees import folder_tree, local_tree
from luigi_pai.outgoing.folder import folder_contents

if TYPE_CHECKING:
    from pathlib import Path

CASES = cases("never_sent")
ANYWAY = (
    "it is never sent: a file or folder with this name may contain credentials; to send it anyway, copy it"
)


def write(folder: Path, *names: str, text: str = "x") -> Path:
    for name in names:
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with one file that is sent."""
    return write(tmp_path / "project", "train.py")


@pytest.mark.parametrize("name", CASES["listed"])
def test_names_of_credentials(project, name):
    """They are left out, .paiignore does not bring them back, and the summary names them."""
    write(project, name)
    write(project, ".paiignore", text=f"!{name}\n!**\n!*\n")
    tree = folder_tree(project)
    assert set(tree.files) == {"train.py"}
    assert len(tree.left_out) == 1
    assert name.startswith(tree.left_out[0])


@pytest.mark.parametrize("name", CASES["sent"])
def test_names_that_are_sent(project, name):
    assert set(folder_tree(write(project, name)).files) == {"train.py", name}


@pytest.mark.parametrize("name", CASES["key_files"])
@pytest.mark.parametrize("text", [*CASES["keys"], f"-----BEGIN PRIVATE KEY-----\n{'A' * 100_000}"])
def test_a_private_key_has_any_name(project, name, text):
    assert folder_tree(write(project, name, text=text)).left_out == (name,)


@pytest.mark.parametrize("case", CASES["trees"].values(), ids=CASES["trees"])
def test_what_is_left_out_of_a_folder(project, case):
    """Keys below certificates and in JSON, and links to what is never sent; caches are another list."""
    for name, text in case["files"].items():
        write(project, name, text=text)
    for name, goal in case.get("links", {}).items():
        (project / name).symlink_to(goal)
    tree = folder_tree(project)
    assert list(tree.left_out) == case["left_out"]
    assert set(tree.files) == {"train.py", *case["sent"]}


@pytest.mark.parametrize("name", ["conf/prod.ini", "settings.conf", "x.toml"])
@pytest.mark.parametrize("relative", [True, False])
def test_the_file_of_luigi_config_path(project, monkeypatch, name, relative):
    """It is known by its identity, also through hard links and links inside the folder."""
    write(project, name, text="[smtp]\nhost = x\n")
    os.link(project / name, project / "hard")
    (project / "soft").symlink_to(name)
    monkeypatch.chdir(project)
    monkeypatch.setenv("LUIGI_CONFIG_PATH", name if relative else str(project / name))
    tree = folder_tree(project)
    assert set(tree.files) == {"train.py"}
    assert set(tree.left_out) == {name, "hard", "soft"}


@pytest.mark.parametrize("parser", ["LuigiConfigParser", "LuigiTomlParser"])
def test_a_configuration_that_a_program_has_added(project, monkeypatch, parser):
    write(project, "added.txt")
    kind = getattr(luigi.configuration, parser)
    monkeypatch.setattr(kind, "_config_paths", [*kind._config_paths, str(project / "added.txt")])
    assert folder_tree(project).left_out == ("added.txt",)


@pytest.mark.parametrize(("text", "sent"), CASES["copies"])
def test_a_copy_of_the_configured_password(project, settings, text, sent):
    """A file that sets a password or a token to the configured value is not sent, under any name."""
    settings(password="hunter22", token="t0ken-1")
    tree = folder_tree(write(project, "copied.txt", text=text))
    assert ("copied.txt" in tree.files) is sent
    assert tree.left_out == (() if sent else ("copied.txt",))


def test_secrets_of_other_sections(project, settings, monkeypatch):
    """A password of any section counts, with its variable; pad_token of a task is no secret."""
    monkeypatch.setenv("PAI_PASSWORD", "hunter24")
    settings(password="${PAI_PASSWORD}")
    luigi.configuration.get_config().set("smtp", "smtp_password", "mail%%24")
    luigi.configuration.get_config().set("Train", "pad_token", "[PAD]")
    write(project, "pai", text="password=hunter24")
    write(project, "mail", text="password=mail%24")
    write(project, "tokenizer.json", text='{\n"pad_token": "[PAD]"\n}')
    tree = folder_tree(project)
    assert tree.left_out == ("mail", "pai")
    assert "tokenizer.json" in tree.files


@pytest.mark.parametrize("name", CASES["named"])
@pytest.mark.parametrize("through_link", [True, False])
def test_a_file_or_folder_that_is_named(project, name, through_link):
    """It is an error that tells what to do, also through a link."""
    write(project, f"{name}known_hosts" if name.endswith("/") else name)
    place = project / name
    if through_link:
        (project / "plain").symlink_to(place)
        place = project / "plain"
    with pytest.raises(
        TransferError, match=f"{re.escape(str(place))}: {ANYWAY} under another name; give creden"
    ):
        local_tree(place, "plain")


@pytest.mark.parametrize(("text", "why"), CASES["named_content"])
def test_a_named_file_with_credentials_in_it(project, settings, text, why):
    settings(password="hunter22")
    with pytest.raises(TransferError, match=f"plain: it is never sent: {why}; give credentials to a job"):
        local_tree(write(project, "plain", text=text) / "plain", "plain")


def test_a_configuration_that_is_named(project, monkeypatch):
    monkeypatch.setenv("LUIGI_CONFIG_PATH", str(project / "train.py"))
    with pytest.raises(TransferError, match=r"train\.py: it is never sent: it is a Luigi configuration file"):
        local_tree(project / "train.py", "train.py")


def test_a_project_in_a_virtual_environment_is_sent(tmp_path):
    """Only folders that contain nothing but credentials count above the named folder."""
    folder = write(tmp_path / ".env" / "lib" / "pkg", "a.py")
    assert set(folder_tree(folder).files) == {"a.py"}


def test_names_that_only_hdfs_refuses(project):
    """A colon is no problem where the files do not go to HDFS."""
    contents = folder_contents(write(project, "12:30"))
    assert set(contents.files) == {"12:30", "train.py"}
    assert contents.problems == []
