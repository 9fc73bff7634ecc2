"""What a test gets wrong, or leaves behind."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.slow


def test_arguments_that_mean_nothing_are_named(run):
    code, out = run(r"""
from luigi_pai import ConfigError

@pytest.mark.parametrize("path", ["/api/v1/jobs", "jobs", "/webhdfs/v1/a", None])
def test_path(pai, path):
    with pytest.raises(ConfigError, match=r"pai.fail: path = .*: give what follows /api/v1 and"):
        pai.fail("POST", path)

@pytest.mark.parametrize("method", ["PSOT", None])
def test_method(pai, method):
    with pytest.raises(ConfigError, match=r"method.*: .* is not (one of \['GET'|of type 'array')"):
        pai.fail(method, "/jobs")

def test_clock(pai):
    with pytest.raises(ConfigError, match=r"pai.advance: -3600 s: the clock only moves forward"):
        pai.advance(hours=-1)
    pai.advance(days=1, hours=-1)

def test_any_text_can_be_written(pai):
    text = "a\0b '\n%s $HOME `id` \\ -n\n"
    pai.when("*").exits(3, stderr=text)
    with pytest.raises(PaiJobFailed, match="exit code 255"):
        Train().run()
""")
    assert code == 0, out


def test_two_openpais_in_one_test(run):
    code, out = run("""
def test_a(pai, pai_mock): pass
def test_b(pai_mock, request): request.getfixturevalue("pai")

class TestOwn:
    @pytest.fixture
    def pai(self): return "another"

    def test_c(self, pai, pai_mock): pass
""")
    assert code == 1
    for test in ("test_a", "test_b"):
        assert f"{test}: uses pai and pai_mock; use only one, because both replace [OpenPai]" in out
    assert "1 passed" in out


def test_the_next_test_begins_anew(run):
    """Jobs that still run end with their test, and a server that was stopped runs again."""
    code, out = run("""
import os, pathlib, signal, time

def test_leaves_it(pai, request):
    pid = request.config.rootpath / "pid"
    pai.cluster.submit(Train(command=f"echo $$ >{pid}.new; mv {pid}.new {pid}; exec sleep 300").job())
    while not pid.exists():
        time.sleep(0.05)

def test_next(request):
    pid = (request.config.rootpath / "pid").read_text().strip()
    assert not pathlib.Path("/proc", pid).exists()

def test_stops(pai, pai_server):
    pai.server.stop()

def test_kills(pai, pai_server):
    assert pai.url == pai_server
    os.kill(pai.server.pid, signal.SIGKILL)

def test_last(pai, pai_server):
    assert pai.url == pai_server
    assert pai.submitted == []
""")
    assert code == 0, out
