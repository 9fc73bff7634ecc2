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
    with pytest.raises(TypeError, match=r"pai.advance\(\) takes days, .* by name, such as days=31$"):
        pai.advance(31)

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


def test_a_script_that_matches_no_job_fails_its_test(run):
    """The message lists the jobs. Jobs that the server has forgotten count; ``*`` may match none."""
    code, out = run("""
import luigi

def test_typo(pai):
    pai.when("trian*").exits(1)
    pai.when("train*").succeeds()
    pai.when("other").exits(1)
    Train(name="train-0.1").run()

def test_nothing_submitted(pai):
    pai.when("train*").succeeds()

def test_forgotten(pai):
    pai.when("train").succeeds()
    Train().run()
    pai.advance(days=40)
    assert pai.submitted == []

def test_any(pai):
    pai.when("*").succeeds()

def test_used_up(pai):
    pai.when("*").succeeds()
    pai.when("train").exits(1)
    Train().run()

def test_stopped_server(pai):
    pai.when("train*").succeeds()
    pai.server.stop()

@pytest.mark.xfail(strict=True)
def test_expected(pai):
    pai.when("train*").succeeds()

def test_skipped(pai):
    pai.when("train*").succeeds()
    pytest.skip()
""")
    assert code == 1
    assert (
        "\npai.when('trian*'), pai.when('other') matched no job of this test; submitted: train-0.1\n" in out
    )
    assert "\npai.when('train*') matched no job of this test; submitted: none\n" in out
    assert "2 failed, 4 passed, 1 skipped, 1 xfailed" in out


def test_a_test_that_fails_anyway_keeps_its_own_error(run):
    """What matched no job is a section of its report."""
    code, out = run("""
import unittest

def test_error(pai):
    pai.when("trian").succeeds()
    Train().run()

def test_fail(pai):
    pai.when("trian").succeeds()
    pytest.fail("own message")

class TestCase(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def attach(self, pai):
        self.pai = pai

    def setUp(self):
        self.pai.when("trian").succeeds()

    def test_fails(self):
        assert 1 == 2

    def test_passes(self):
        pass
""")
    assert code == 1
    assert out.count("- Captured pai call -") == 2
    assert "PaiJobFailed" in out
    assert "Failed: own message" in out
    assert "assert 1 == 2" in out
    assert out.count("pai.when('trian') matched no job of this test; submitted: none") >= 2
    assert "4 failed" in out


def test_a_script_without_effect_fails_its_test(run):
    """It says nothing about how jobs end, or comes when the jobs have been submitted."""
    code, out = run("""
def test_empty(pai):
    pai.when("train")
    Train(command="true").run()

def test_late(pai):
    Train(command="true").run()
    pai.when("trai*").exits(1)

def test_in_time(pai):
    pai.when("train").exits(1)
    with pytest.raises(PaiJobFailed):
        Train().run()
    pai.when("train*").succeeds()
    Train().run()
""")
    assert code == 1
    assert "\npai.when('train') says nothing; add .exits(1), .succeeds() or the like\n" in out
    late = "came after the jobs that it matches; call it before the task runs; submitted: train"
    assert f"\npai.when('trai*') {late}\n" in out
    assert "2 failed, 1 passed" in out


def test_ends_of_one_script(run):
    code, out = run(r"""
from luigi_pai import ConfigError

def test_in_turn(pai):
    pai.when("train*").exits(1, times=1).succeeds()
    with pytest.raises(PaiJobFailed):
        Train().run()
    Train().run()

def test_two_for_all(pai):
    with pytest.raises(ConfigError) as caught:
        pai.when("*").exits(1).succeeds()
    assert str(caught.value) == (
        "pai.when('*') says already how all these jobs end; limit what comes first, as in "
        ".exits(1, times=1).succeeds()"
    )

def test_completes_on_v2(pai):
    script = pai.when("*")
    with pytest.raises(ConfigError) as caught:
        script.completes()
    assert str(caught.value) == (
        "pai.when('*').completes(): only OpenPAI 0.10 to 0.14 (v1) report such jobs; mark the test with "
        "@pytest.mark.pai('v1'), or use .succeeds(after=...)"
    )
    script.succeeds()
""")
    assert code == 0, out


def test_a_fault_that_fails_no_request_fails_its_test(run):
    """The counts survive further calls; faults that are set for many tests (``*``), and none, are exempt."""
    code, out = run("""
def test_typo(pai):
    pai.when("*").succeeds()
    pai.fail("POST", "/job")
    pai.fail("POST", "/jobs", times=1)
    Train().run()
    pai.fail("put", "/jobs/*")

def test_used(pai):
    pai.when("*").succeeds()
    pai.fail("POST", "/jobs", times=1)
    Train().run()
    pai.fail("GET", "/jobs", times=0)
    pai.fail("POST", "*")

def test_faults_of_its_own(pai):
    pai.fail("POST", "/job")
    pai.server.set_faults()
    pai.when("*").succeeds()
    Train().run()
""")
    assert code == 1
    assert (
        "\npai.fail('POST', '/job'), pai.fail('PUT', '/jobs/*') failed no request of this test; check the "
        "method and the path\n"
    ) in out
    assert "1 failed, 2 passed" in out


def test_a_state_that_is_none_is_refused(run):
    """A task would wait for ever for the end of such a job."""
    code, out = run(r"""
from luigi_pai import ConfigError

@pytest.mark.parametrize("attribute", ["ends", "states"])
def test_state(pai_mock, attribute):
    states = getattr(pai_mock, attribute)
    hints = {"FAIL": "did you mean 'FAILED'", "RUNING": "did you mean 'RUNNING'", None: ""}
    for state, hint in hints.items():
        with pytest.raises(ConfigError) as caught:
            states["train"] = state
        assert f"pai_mock.{attribute}['train'] = {state!r} is no state of a job ({hint}" in str(caught.value)
    with pytest.raises(ConfigError, match="'OK' is no state of a job"):
        states.update(train="OK")
    assert states == {}

def test_another_dict(pai_mock):
    pai_mock.ends = {"train": "FAIL"}
    with pytest.raises(ConfigError, match=r"pai_mock.states\['train'\] = 'FAIL' is no state of a job"):
        Train().run()

def test_states(pai_mock):
    pai_mock.states |= {"a": "SUCCEED", "b": "COMPLETING", "c": "UNKNOWN"}
""")
    assert code == 0, out


def test_an_end_of_a_job_that_is_not_submitted_fails_its_test(run):
    code, out = run("""
def test_typo(pai_mock):
    pai_mock.ends["trian"] = "FAILED"
    pai_mock.ends["train"] = "SUCCEEDED"
    Train().run()

def test_nothing_submitted(pai_mock):
    pai_mock.ends["train"] = "FAILED"

def test_other_jobs_on_the_server(pai_mock):
    pai_mock.states["other"] = "RUNNING"
    Train().run()
""")
    assert code == 1
    assert "\npai_mock.ends['trian'] matched no job of this test; submitted: train\n" in out
    assert "\npai_mock.ends['train'] matched no job of this test; submitted: none\n" in out
    assert "2 failed, 1 passed" in out
