"""luigi-pai doctor: each misconfiguration is found, and its mend is said."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import luigi.configuration
import pytest


@pytest.fixture
def portal():
    """A web server that is no rest-server: it answers all with a page."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<html>portal</html>")

        def do_POST(self):
            self.send_response(405)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Page)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("dialect", ["v1", "v2"], indirect=True)
def test_all_is_well(pai_command, dialect):
    """Exit code 0, and nothing fails."""
    lines = pai_command("doctor").stdout.splitlines()
    assert [line for line in lines if line.startswith("fail")] == []
    text = "\n".join(lines)
    assert "login: as admin; the token lives " in text
    assert "clock: agrees with the server's" in text
    assert "hdfs: wrote, claimed, renamed, read and removed a file in /tmp" in text
    assert f"API {dialect}" in text
    assert ("storages: nfs1" in text) == (dialect == "v2")


def test_as_json(pai_command, dialect):
    checks = json.loads(pai_command("doctor", "--json").stdout)
    assert {check["state"] for check in checks} <= {"ok", "warn"}
    assert {"configuration", "network", "login", "virtual clusters", "hdfs"} <= {
        one["name"] for one in checks
    }
    assert dialect


def test_a_wrong_password(pai_command, settings, cluster):
    settings(password="wrong-password")
    text = pai_command("doctor", expect=1).stdout
    assert f"fail  login: login of user 'admin' at {cluster.url} was refused" in text
    assert "wrong-password" not in text


def test_no_password(pai_command, settings):
    settings(pai_url="http://127.0.0.1:9", username="anna")
    text = pai_command("doctor", expect=2).stdout
    assert "fail  configuration: [OpenPai] has neither password nor token for user anna" in text


def test_an_address_without_a_server(pai_command, settings):
    settings(pai_url="http://127.0.0.1:9", username="anna", password="secret-1")
    text = pai_command("doctor", expect=3).stdout
    assert "fail  network: cannot reach http://127.0.0.1:9: Connection refused" in text


def test_no_such_host(pai_command, settings):
    settings(pai_url="http://no-such-host.invalid:9186", username="anna", password="secret-1")
    text = pai_command("doctor", expect=3).stdout
    assert "fail  network: no-such-host.invalid has no address" in text
    assert "check the host in pai_url" in text


@pytest.mark.slow
def test_the_portal_in_place_of_the_rest_server(pai_command, settings, portal):
    settings(pai_url=portal, username="anna", password="secret-1")
    text = pai_command("doctor", expect=1).stdout
    assert "fail  login: " in text
    assert "the rest-server" in text


def test_a_misspelled_section_and_key(pai_command, settings):
    settings(pai_url="http://127.0.0.1:9", username="anna", password="secret-1", pasword="x")
    text = pai_command("doctor", expect=3).stdout
    assert "warn  configuration: [OpenPai] has a key 'pasword', which does not exist" in text
    assert "did you mean password?" in text
    config = luigi.configuration.get_config()
    config.remove_section("OpenPai")
    config.set("openpai", "pai_url", "http://127.0.0.1:9")
    try:
        text = pai_command("doctor", expect=2).stdout
    finally:
        config.remove_section("openpai")
    assert "fail  configuration: [OpenPai] in luigi.cfg: section names must match exactly: rename" in text


def test_a_wrong_port_of_hdfs(pai_command, settings, cluster):
    settings(webhdfs_url="http://127.0.0.1:9")
    text = pai_command("doctor", expect=1).stdout
    assert "fail  hdfs: HDFS GETFILESTATUS / on 127.0.0.1:9: no answer (Connection refused)" in text
    assert cluster.url in text


def test_a_storage_in_a_job(storage_pai, pai_command):
    """It is found, written to, and used by a short job, of which nothing is left."""
    lines = pai_command("doctor", "--job", "python:3").stdout.splitlines()
    assert [line for line in lines if line.startswith(("fail", "warn  storage"))] == []
    root = storage_pai.data / "storages" / "nfs1"
    text = "\n".join(lines)
    assert f"(nfs 127.0.0.1:{root}) is {root} here, and /mnt/nfs1 in jobs" in text
    assert "storage: wrote, claimed, renamed, read and removed a file in its root folder" in text
    assert "reads and writes the same files, as user" in text
    assert not [path for path in root.iterdir() if path.name.startswith("luigi-pai-doctor")]


def test_a_job_that_sees_other_files(storage_pai, pai_command, settings, tmp_path):
    """storage_path leads elsewhere, so that the job does not find the file of this machine."""
    settings(**storage_pai.luigi_section, storage_path=tmp_path, poll_min=0.05)
    text = pai_command("doctor", "--job", "python:3", expect=1).stdout
    assert "fail  storage: job luigi-pai-doctor-" in text
    assert "does not see the files of this machine" in text
    assert [*tmp_path.iterdir()] == []


def test_a_storage_that_does_not_exist(storage_pai, pai_command, settings):
    settings(**{**storage_pai.luigi_section, "storage": "nfs9"})
    text = pai_command("doctor", expect=1).stdout
    assert (
        "fail  storage: storage = nfs9 in [OpenPai] does not exist, or you may not use it; you may use"
        in text
    )


def test_neither_hdfs_nor_a_storage(storage_pai, pai_command, settings):
    settings(**{**storage_pai.luigi_section, "storage": ""})
    text = pai_command("doctor").stdout
    assert "warn  files: neither storage nor webhdfs_url is set" in text
    assert "write storage = NAME; on OpenPAI 0.7 to 0.14 webhdfs_url" in text
