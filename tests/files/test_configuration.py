"""Where HDFS is: in [OpenPai], in Luigi's own sections, or nowhere."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from urllib.parse import urlsplit

import luigi
import luigi.configuration
import pytest
from file_cases import table
from hdfs_backend import ON_HDFS, content, written

from luigi_pai import HdfsTarget, PaiTask, TaskRole, reset_clusters
from luigi_pai.config import HdfsAccount, OpenPai
from luigi_pai.errors import ConfigError
from luigi_pai.files import WebHdfs


class Train(PaiTask):
    """A job without an output folder of its own."""

    name = luigi.Parameter(default="train")
    image = "python:3"
    tasks = [TaskRole("main", "python train.py", memoryMB=512, shmMB=64)]


def luigis(section, **keys):
    """Set keys of one of Luigi's own sections, as luigi.cfg would."""
    for key, value in keys.items():
        luigi.configuration.get_config().set(section, key, str(value))


def test_without_settings_there_is_no_hdfs():
    """Without any configuration there is no HDFS, and the error of the first request names the setting."""
    assert OpenPai().hdfs_account() is None
    with pytest.raises(ConfigError, match=r"webhdfs_url is not set in \[OpenPai\]"):
        WebHdfs.from_config().exists("/p")


@pytest.mark.parametrize(
    "urls", ["http://a:1;http://b:2", "http://a:1, http://b:2", " http://a:1 ;;http://b:2; "]
)
def test_several_namenodes(urls, settings):
    """webhdfs_url names several NameNodes, with ; or , between them."""
    settings(webhdfs_url=urls)
    OpenPai().check()
    assert OpenPai().hdfs_account() == HdfsAccount(("http://a:1", "http://b:2"), "admin", "simple")
    assert WebHdfs.from_config().url == "http://a:1;http://b:2"


def test_all_settings_reach_the_client(settings):
    """Every key that is about HDFS is used."""
    settings(
        webhdfs_url="https://a:1/webhdfs/api/v1",
        webhdfs_redirect="http://proxy/{host}:{port}",
        hdfs_user="anna",
        hdfs_auth="kerberos",
        fs_uri="hdfs://a:9000",
        verify="false",
        connect_timeout=3,
        read_timeout=4,
    )
    fs = WebHdfs.from_config()
    assert (fs.url, fs.user, fs.fs_uri) == ("https://a:1/webhdfs/api/v1", "anna", "hdfs://a:9000")
    account = fs.account
    assert (account.auth, account.redirect, account.verify) == (
        "kerberos",
        "http://proxy/{host}:{port}",
        False,
    )
    assert (account.connect_timeout, account.read_timeout) == (3.0, 4.0)
    settings(hdfs_user="", username="someone", webhdfs_url="https://a:1/webhdfs/v1/")
    assert (WebHdfs.from_config().url, WebHdfs.from_config().user) == ("https://a:1", "someone")


@table("settings that are refused", "keys message")
def test_what_cannot_work_is_refused(keys, message, settings):
    """The error of an invalid setting names its key, also for a target without a job."""
    settings(**keys)
    with pytest.raises(ConfigError) as caught:
        HdfsTarget("/p").exists()
    assert message in str(caught.value)
    assert "p@" not in str(caught.value)


@table("Luigi's sections", "hdfs webhdfs keys account")
def test_luigis_own_configuration(hdfs, webhdfs, keys, account, settings):
    """It says where HDFS is and who one is there, unless [OpenPai] does."""
    luigis("hdfs", **hdfs)
    luigis("webhdfs", **webhdfs)
    settings(**keys)
    urls, user, auth = account.split()
    assert OpenPai().hdfs_account() == HdfsAccount(tuple(urls.split(";")), user, auth)


@ON_HDFS
def test_a_target_with_luigis_configuration(backend, fs, home):
    """A target without fs is found over Luigi's sections alone."""
    parts = urlsplit(backend.url)
    luigis("hdfs", client="webhdfs", namenode_host=parts.hostname)
    luigis("webhdfs", port=parts.port, user=backend.user)
    written(fs, f"{home}/f", "found")
    assert HdfsTarget(f"{home}/f").open().read() == "found"


@ON_HDFS
def test_the_completion_flag_with_luigis_configuration(pai, settings, backend, home):
    """A job's end is noted on the HDFS of Luigi's sections, and is known when the server has forgotten it."""

    class Stored(Train):
        output_dir = f"{home}/out"

    parts = urlsplit(backend.url)
    luigis("hdfs", client="webhdfs", namenode_host=parts.hostname)
    luigis("webhdfs", port=parts.port, user=backend.user)
    settings(read_timeout=20)
    Stored().run()
    assert content(backend.fs(), f"{home}/out/_SUCCESS") == "train\n"
    pai.jobs.clear()
    reset_clusters()
    assert Stored().complete()


class Kept(Train):
    """One whose results somebody has given a place."""

    @property
    def output_dir(self):
        return f"$PAI_DEFAULT_FS_URI/results/{self.name}"


def run(kind, caplog):
    """Run two tasks; return the log messages about folders and flags."""
    with caplog.at_level(logging.INFO, "luigi-interface"):
        for name in ("a", "b"):
            kind(name=name).run()
    return [message for message in caplog.messages if "flag" in message or "outputDir" in message]


@pytest.mark.parametrize(
    ("kind", "release", "flags", "folders"),
    [
        *((Train, release, 0, 0) for release in ("0.7.1", "1.0.1", "1.8.0")),
        (Kept, "0.7.1", 1, 0),
        (Kept, "1.8.0", 1, 1),
    ],
)
def test_a_folder_that_was_set_is_mentioned_once(pai, caplog, kind, release, flags, folders):
    """However many jobs there are: that it has no flag, and on v2 that it is nowhere."""
    pai.release = release
    messages = run(kind, caplog)
    assert sum("gets no completion flag: luigi.cfg names no" in message for message in messages) == flags
    assert sum("outputDir: " in each and "is unchanged, but" in each for each in messages) == folders
    assert len(messages) == flags + folders


RUN = """
import json, sys
import luigi.configuration, responses
from luigi_pai import PaiTask, TaskRole

class Train(PaiTask):
    name, image, tasks = "train", "python:3", [TaskRole("main", "true", memoryMB=512)]

for key, value in {"pai_url": "http://pai", "username": "admin", "password": "secret-1"}.items():
    luigi.configuration.get_config().set("OpenPai", key, value)
with responses.RequestsMock() as rest:
    rest.get("http://pai/api/v1/jobs/train", json={}, status=404)
    rest.post("http://pai/api/v1/token", json={"token": "t"})
    rest.post("http://pai/api/v1/jobs", json={}, status=202)
    rest.get("http://pai/api/v1/jobs/train", json={"jobStatus": {"state": "SUCCEEDED"}})
    Train().run()
print(json.dumps(sorted(sys.modules)))
"""


def test_a_run_without_hdfs_loads_none_of_its_modules(tmp_path):
    """In the first run of a process, they would be a third of all modules."""
    done = subprocess.run(
        [sys.executable, "-c", RUN], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=300
    )
    loaded = json.loads(done.stdout)
    assert "luigi_pai.work.run" in loaded
    assert [name for name in loaded if name == "hdfs" or name.startswith("luigi.contrib.hdfs")] == []
    assert [name for name in loaded if name.startswith("luigi_pai.files.")] == ["luigi_pai.files.errors"]
