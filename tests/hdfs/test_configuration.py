"""Where HDFS is: [OpenPai], or what Luigi's own sections say."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import luigi.configuration
import pytest
from hdfs_backend import ON_HDFS, Backend, content, written

from luigi_pai import HdfsTarget, PaiTask, TaskRole, reset_clusters
from luigi_pai.config import HdfsAccount, OpenPai
from luigi_pai.errors import ConfigError
from luigi_pai.files import HdfsError, WebHdfs

if TYPE_CHECKING:
    from collections.abc import Callable

    from faulty_pai import FaultyPai


def luigis(section: str, **keys: object) -> None:
    """Set keys of one of Luigi's own sections, as luigi.cfg would."""
    for key, value in keys.items():
        luigi.configuration.get_config().set(section, key, str(value))


def test_without_settings_there_is_no_hdfs() -> None:
    """Without any configuration there is no HDFS, and the error at the first question says what to write."""
    assert OpenPai().hdfs_account() is None
    with pytest.raises(ConfigError, match=r"webhdfs_url is not set in \[OpenPai\]"):
        WebHdfs.from_config().exists("/p")


@pytest.mark.parametrize(
    "text", ["http://a:1;http://b:2", "http://a:1, http://b:2", " http://a:1 ;;http://b:2; "]
)
def test_several_namenodes(text: str, settings: Callable[..., None]) -> None:
    """webhdfs_url names several NameNodes, with ; or , between them."""
    settings(webhdfs_url=text)
    OpenPai().check()
    assert OpenPai().hdfs_account() == HdfsAccount(("http://a:1", "http://b:2"), "admin", "simple")
    assert WebHdfs.from_config().url == "http://a:1;http://b:2"


def test_all_settings_reach_the_client(settings: Callable[..., None]) -> None:
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


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"webhdfs_url": "http://a:1;b:2"}, "webhdfs_url = 'b:2' is not a valid URL"),
        ({"webhdfs_url": "http://a:1;http://u:p@b:2"}, "webhdfs_url must not contain a user or password"),
        (
            {"webhdfs_redirect": "proxy/{host}"},
            "webhdfs_redirect = 'proxy/{host}' is not valid; use http",
        ),
        (
            {"webhdfs_redirect": "http://p/{hots}"},
            "webhdfs_redirect = 'http://p/{hots}' is not valid; use http://P",
        ),
        ({"webhdfs_redirect": "http://p/{"}, "webhdfs_redirect = 'http://p/{' is not valid"),
        ({"hdfs_auth": "token"}, "hdfs_auth = 'token' is not valid; use simple or kerberos"),
    ],
)
def test_what_cannot_work_is_refused(keys: dict[str, str], text: str, settings: Callable[..., None]) -> None:
    """A wrong setting names its key, also to a target that is used without a job."""
    settings(**keys)
    with pytest.raises(ConfigError) as caught:
        HdfsTarget("/p").exists()
    assert text in str(caught.value)


def test_luigis_own_configuration() -> None:
    """[hdfs] and [webhdfs], as Luigi's webhdfs client reads them, say where HDFS is and who one is there."""
    luigis("hdfs", client="webhdfs", namenode_host="nn1;nn2")
    luigis("webhdfs", port=9870, user="anna")
    assert OpenPai().hdfs_account() == HdfsAccount(("http://nn1:9870", "http://nn2:9870"), "anna", "simple")
    luigis("webhdfs", client_type="kerberos")
    account = OpenPai().hdfs_account()
    assert account is not None
    assert account.auth == "kerberos"


def test_luigis_defaults(settings: Callable[..., None]) -> None:
    """The host alone is enough; the port is 50070, the user that of [hdfs], else that of [OpenPai]."""
    settings(username="anna")
    luigis("hdfs", namenode_host="nn")
    assert OpenPai().hdfs_account() == HdfsAccount(("http://nn:50070",), "anna", "simple")
    luigis("hdfs", user="berta")
    assert OpenPai().hdfs_account() == HdfsAccount(("http://nn:50070",), "berta", "simple")
    settings(hdfs_user="carla")
    assert OpenPai().hdfs_account() == HdfsAccount(("http://nn:50070",), "carla", "simple")


def test_openpai_comes_first(settings: Callable[..., None]) -> None:
    """What [OpenPai] says is not mixed with another HDFS of Luigi's."""
    luigis("hdfs", client="webhdfs", namenode_host="other")
    luigis("webhdfs", port=1, user="other", client_type="kerberos")
    settings(webhdfs_url="http://mine:2", username="anna")
    assert OpenPai().hdfs_account() == HdfsAccount(("http://mine:2",), "anna", "simple")


@ON_HDFS
def test_a_target_with_luigis_configuration(backend: Backend, fs: WebHdfs, home: str) -> None:
    """A target without fs is found over Luigi's sections alone."""
    parts = urlsplit(backend.url)
    luigis("hdfs", client="webhdfs", namenode_host=parts.hostname)
    luigis("webhdfs", port=parts.port, user=backend.user)
    written(fs, f"{home}/f", "found")
    assert HdfsTarget(f"{home}/f").open().read() == "found"


@ON_HDFS
def test_the_completion_flag_with_luigis_configuration(
    pai: FaultyPai, settings: Callable[..., None], backend: Backend, home: str
) -> None:
    """A job's end is noted on the HDFS of Luigi's sections, and is known when the server has forgotten it."""

    class Train(PaiTask):
        name = "train"
        image = "openpai/pai.example.sklearn"
        tasks = [TaskRole("main", "python train.py")]
        output_dir = f"{home}/out"

    parts = urlsplit(backend.url)
    luigis("hdfs", client="webhdfs", namenode_host=parts.hostname)
    luigis("webhdfs", port=parts.port, user=backend.user)
    settings(read_timeout=20)
    Train().run()
    assert content(backend.fs(), f"{home}/out/_SUCCESS") == "train\n"
    pai.jobs.clear()
    reset_clusters()
    assert Train().complete()


def test_an_invalid_namenode_host() -> None:
    """A host of Luigi's that cannot be reached is an error with its address."""
    luigis("hdfs", namenode_host="127.0.0.1")
    luigis("webhdfs", port=1)
    with pytest.raises(HdfsError, match=r"on 127.0.0.1:1: no answer \(Connection refused\)"):
        HdfsTarget("/p").exists()


@pytest.mark.parametrize("rule", ["http://anna:SECRET@proxy/{host}:{port}", "http://SECRET@{host}:{port}"])
def test_a_redirect_with_a_password(settings: Callable[..., None], rule: str) -> None:
    """It is refused, and not printed."""
    settings(webhdfs_url="http://a:1", webhdfs_redirect=rule)
    with pytest.raises(ConfigError, match="webhdfs_redirect must not contain a user or password") as caught:
        WebHdfs.from_config()
    assert "SECRET" not in str(caught.value)
