"""Where HDFS is, by [OpenPai]."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from luigi_pai import HdfsTarget
from luigi_pai.config import OpenPai
from luigi_pai.errors import ConfigError
from luigi_pai.hdfs import WebHdfs

if TYPE_CHECKING:
    from collections.abc import Callable


def test_without_settings_there_is_no_hdfs() -> None:
    """Without any configuration there is no HDFS, and the error at the first question says what to write."""
    assert OpenPai().hdfs_urls() == ()
    with pytest.raises(ConfigError, match=r"webhdfs_url is not set in \[OpenPai\]"):
        WebHdfs.from_config().exists("/p")


@pytest.mark.parametrize(
    "text", ["http://a:1;http://b:2", "http://a:1, http://b:2", " http://a:1 ;;http://b:2; "]
)
def test_several_namenodes(text: str, settings: Callable[..., None]) -> None:
    """webhdfs_url names several NameNodes, with ; or , between them."""
    settings(webhdfs_url=text)
    OpenPai().check()
    assert OpenPai().hdfs_urls() == ("http://a:1", "http://b:2")
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


@pytest.mark.parametrize("rule", ["http://anna:SECRET@proxy/{host}:{port}", "http://SECRET@{host}:{port}"])
def test_a_redirect_with_a_password(settings: Callable[..., None], rule: str) -> None:
    """It is refused, and not printed."""
    settings(webhdfs_url="http://a:1", webhdfs_redirect=rule)
    with pytest.raises(ConfigError, match="webhdfs_redirect must not contain a user or password") as caught:
        WebHdfs.from_config()
    assert "SECRET" not in str(caught.value)
