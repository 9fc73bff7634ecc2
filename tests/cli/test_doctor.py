"""luigi-pai doctor: each misconfiguration is found, and its mend is said."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import luigi.configuration
import pytest
import yaml
from places import DATA

CASES = yaml.safe_load((DATA / "cli" / "doctor.yaml").read_text("utf-8"))
ON_HDFS, ON_STORAGE = CASES["on a server with an HDFS"], CASES["on a server with a storage"]


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
    assert "login: as admin; the token expires in " in text
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


@pytest.mark.parametrize("case", CASES["alone"].values(), ids=list(CASES["alone"]))
def test_a_misconfiguration(case, pai_command, settings):
    """The lines about it, and what is not shown; tests/data/cli/doctor.yaml has the cases."""
    check(case, "", pai_command, settings)


@pytest.mark.parametrize("case", ON_HDFS.values(), ids=list(ON_HDFS))
def test_a_misconfiguration_on_a_server(case, cluster, pai_command, settings):
    check(case, cluster.url, pai_command, settings)


@pytest.mark.parametrize("case", ON_STORAGE.values(), ids=list(ON_STORAGE))
def test_a_misconfiguration_of_a_storage(case, storage_pai, pai_command, settings):
    check(case, storage_pai.url, pai_command, settings, **storage_pai.luigi_section)


def check(case, url, pai_command, settings, **section):
    settings(**{**section, **case["settings"]})
    text = pai_command("doctor", expect=case["code"]).stdout
    for line in case["lines"]:
        assert line.replace("URL", url) in text
    assert case.get("hidden", "\0") not in text


@pytest.mark.slow
def test_the_portal_in_place_of_the_rest_server(pai_command, settings, portal):
    settings(pai_url=portal, username="anna", password="secret-1")
    text = pai_command("doctor", expect=1).stdout
    assert "fail  login: " in text
    assert "the rest-server" in text


def test_a_misspelled_section(pai_command):
    config = luigi.configuration.get_config()
    config.remove_section("OpenPai")
    config.set("openpai", "pai_url", "http://127.0.0.1:9")
    try:
        text = pai_command("doctor", expect=2).stdout
    finally:
        config.remove_section("openpai")
    assert "fail  configuration: [OpenPai] in luigi.cfg: section names must match exactly: rename" in text


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
    assert "does not see the files written by this machine" in text
    assert [*tmp_path.iterdir()] == []
