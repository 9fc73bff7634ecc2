"""https with a CA of one's own, Kerberos, and who gets credentials."""

from __future__ import annotations

import shutil
import sys
from types import ModuleType

import certifi
import pytest
import requests
from transports import make_certificate
from webhdfs_scripted import document, file_status, looked_up, scripted

from luigi_pai.errors import ConfigError
from luigi_pai.files import HdfsError, HdfsUnreachable, WebHdfs

STATUS = document(FileStatus=file_status(length=0))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate for 127.0.0.1 that signs itself, and a server's side of it."""
    openssl = shutil.which("openssl")
    if not openssl:
        pytest.skip("there is no openssl to make a certificate with")
    return make_certificate(openssl, tmp_path_factory.mktemp("tls"), "IP:127.0.0.1")


@pytest.mark.slow
@pytest.mark.parametrize("bundle", [True, False], ids=["with a bundle for all", "without"])
def test_https(*, bundle, certificate, settings, monkeypatch):
    """With the CA's file in ``verify`` an https WebHDFS is asked; without, that is an error that says why."""
    ca, context = certificate
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    if bundle:
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", certifi.where())
    with scripted(lambda handler: handler.respond(200, STATUS), context) as url:
        settings(webhdfs_url=url, verify=ca)
        assert WebHdfs.from_config().exists("/p")
        assert WebHdfs(None, "alice", verify=str(ca)).exists(url.replace("https", "swebhdfs") + "/p")
        settings(verify="true")
        with pytest.raises(HdfsUnreachable, match=r"no response \(.*certificate verify failed"):
            WebHdfs.from_config().exists("/p")


class KerberosStub:
    """Replaces requests_kerberos: responds to Negotiate with a fake ticket."""

    def __init__(self, mutual_authentication, **_options):
        self.mutual_authentication = mutual_authentication

    def __call__(self, request):
        request.register_hook("response", self._answer)
        return request

    @staticmethod
    def _answer(response, **options):
        if "negotiate" not in response.headers.get("WWW-Authenticate", "").lower():
            return response
        again = response.request.copy()
        again.headers["Authorization"] = "Negotiate TICKET"
        response.close()
        return response.connection.send(again, **options)


@pytest.fixture
def kerberos(monkeypatch):
    """The stub where the extra would be."""
    stub = ModuleType("requests_kerberos")
    vars(stub).update(HTTPKerberosAuth=KerberosStub, REQUIRED=1, OPTIONAL=2, DISABLED=3)
    monkeypatch.setitem(sys.modules, "requests_kerberos", stub)
    monkeypatch.delitem(sys.modules, "hdfs.ext.kerberos", raising=False)


class Kerberized:
    """A NameNode that wants a ticket, and a DataNode that wants the token that it gives."""

    def __init__(self):
        self.seen = []

    def __call__(self, handler):
        body = handler.body()
        if "delegation=TOKEN" in handler.path:
            self.seen.append(("datanode", handler.path))
            handler.respond(201 if body else 200, b"" if body else b"data")
        elif handler.headers.get("Authorization") != "Negotiate TICKET":
            handler.respond(401, WWW_Authenticate="Negotiate")
        elif "op=OPEN" in handler.path or "op=CREATE" in handler.path:
            self.seen.append(("namenode", handler.path))
            operation = "OPEN" if handler.command == "GET" else "CREATE"
            handler.send_on(f"op={operation}&delegation=TOKEN")
        else:
            self.seen.append(("namenode", handler.path))
            handler.respond(200, document(FileStatus=file_status(), boolean=True, Path="/user/anna"))


@pytest.mark.usefixtures("kerberos")
def test_kerberos(settings):
    """With hdfs_auth = kerberos a Negotiate is answered, no user is named, and DataNodes get their token."""
    server = Kerberized()
    with scripted(server) as url:
        settings(webhdfs_url=url, hdfs_auth="kerberos", hdfs_user="anna")
        fs = WebHdfs.from_config()
        with fs.open_reader("/p") as file:
            assert file.read() == b"data"
        with fs.open_writer("/p") as writer:
            writer.write(b"data")
    assert {who for who, _path in server.seen} == {"namenode", "datanode"}
    assert not [path for _who, path in server.seen if "user.name" in path]


def test_kerberos_without_the_extra(settings, monkeypatch):
    """If the extra is not installed, the error names the package to install."""
    monkeypatch.setitem(sys.modules, "requests_kerberos", None)
    monkeypatch.delitem(sys.modules, "hdfs.ext.kerberos", raising=False)
    settings(webhdfs_url="http://127.0.0.1:1", hdfs_auth="kerberos")
    with pytest.raises(ConfigError, match=r"needs requests-kerberos: pip install requests-kerberos$"):
        WebHdfs.from_config().exists("/p")


def test_a_server_that_wants_kerberos():
    """Without hdfs_auth = kerberos, a Negotiate is an error that says to set it."""
    with (
        scripted(Kerberized()) as url,
        pytest.raises(HdfsError, match=r"wants Kerberos: set hdfs_auth = kerberos in"),
    ):
        WebHdfs(url, "alice").exists("/p")


class Elsewhere:
    """A host that wants a login, and serves any file."""

    def __init__(self):
        self.logins = []

    def __call__(self, handler):
        handler.body()
        self.logins.append(handler.headers.get("Authorization"))
        if "Negotiate" in (self.logins[-1] or "") or "answered" in handler.path:
            handler.respond(200, b"data")
        else:
            handler.respond(401, WWW_Authenticate="Negotiate")


def sends_on(location, logins, wanted=None):
    """Return the script of a NameNode that wants a login, notes each, and redirects a read."""

    def script(handler):
        logins.append(handler.headers.get("Authorization"))
        if logins[-1] != wanted:
            handler.respond(401, WWW_Authenticate="Negotiate")
        else:
            looked_up(lambda handler: handler.respond(307, Location=location))(handler)

    return script


def test_a_netrc_is_not_read(monkeypatch, tmp_path):
    """Neither the NameNode gets its passwords, nor a host to which that sends on."""
    file = tmp_path / "netrc"
    file.write_text("default login somebody password netrc-password\n")
    file.chmod(0o600)
    monkeypatch.setenv("NETRC", str(file))
    assert requests.utils.get_netrc_auth("http://127.0.0.1/") == ("somebody", "netrc-password")
    elsewhere, namenode = Elsewhere(), []
    with (
        scripted(elsewhere) as other,
        scripted(sends_on(f"{other}/webhdfs/v1/p?answered=1", namenode)) as url,
        WebHdfs(url, "alice").open_reader("/p") as reader,
    ):
        assert reader.read() == b"data"
    assert namenode
    assert elsewhere.logins
    assert {*namenode, *elsewhere.logins} == {None}


@pytest.mark.usefixtures("kerberos")
def test_a_ticket_is_for_the_configured_namenode_only(settings):
    """A host to which it sends on asks for one, and gets none."""
    elsewhere = Elsewhere()
    with (
        scripted(elsewhere) as other,
        scripted(sends_on(f"{other}/webhdfs/v1/p", [], "Negotiate TICKET")) as url,
    ):
        settings(webhdfs_url=url, hdfs_auth="kerberos", hdfs_user="anna")
        with pytest.raises(HdfsError), WebHdfs.from_config().open_reader("/p") as reader:
            reader.read()
    assert elsewhere.logins
    assert set(elsewhere.logins) == {None}
