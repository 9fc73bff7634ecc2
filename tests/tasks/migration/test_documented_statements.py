"""What the documents of OpenPAI and Luigi say of a task, as far as no other test holds it."""

from __future__ import annotations

import json

import luigi
import luigi.contrib.hdfs
import luigi.target
import pytest
import responses
from clocks import MovableClock
from places import ROOT
from process_state import install_clock
from train_task import Train, build

from luigi_pai import HdfsTarget, PaiProtocolTask

FOLDER = ROOT / "tests" / "data" / "tasks"
PROTOCOL = (FOLDER / "documented_protocol.yaml").read_text("utf-8")


@pytest.mark.parametrize(("keys", "expiration"), [({}, 3600), ({"expiration": 600}, 600)])
def test_the_login_of_a_run_asks_for_the_configured_expiration(keys, expiration, settings, monkeypatch):
    """In seconds; an hour where luigi.cfg says nothing."""
    install_clock(MovableClock(), monkeypatch)
    url = "http://pai.test:9186"
    settings(pai_url=url, username="anna", password="hunter2", **keys)
    with responses.RequestsMock() as mock:
        mock.post(f"{url}/api/v1/token", json={"token": "t", "user": "anna", "admin": False})
        mock.get(f"{url}/api/v1/jobs/train", status=404, json={})
        mock.post(f"{url}/api/v1/jobs", status=202, json={})
        mock.get(f"{url}/api/v1/jobs/train", json={"jobStatus": {"state": "SUCCEEDED"}})
        Train().run()
        (login,) = [call.request for call in mock.calls if call.request.url.endswith("/token")]
    assert json.loads(login.body) == {"username": "anna", "password": "hunter2", "expiration": expiration}


@pytest.mark.parametrize(
    ("folder", "path"), [({}, "$PAI_DEFAULT_FS_URI/train/output"), ({"output_dir": "/out"}, "/out")]
)
def test_the_output_is_luigis_hdfs_target_of_the_output_folder(folder, path, pai):
    """Nothing is asked for it."""
    target = type("Own", (Train,), folder)().output()
    assert isinstance(target, HdfsTarget)
    assert isinstance(target, (luigi.contrib.hdfs.HdfsTarget, luigi.target.FileSystemTarget))
    assert target.path == path
    assert pai.calls == []


def test_run_and_complete_may_be_overridden(pai):
    """Luigi goes by the complete() of a subclass; its run() may do more around the job."""
    done = []

    class Own(Train):
        def run(self):
            done.append("before")
            super().run()
            done.append("after")

        def complete(self):
            return done[-1:] == ["after"]

    assert not Own().complete()
    assert pai.calls == []
    assert build(Own())
    assert pai.posts() == ["train"]
    asked = len(pai.calls)
    assert build(Own())
    assert done == ["before", "after"]
    assert len(pai.calls) == asked


def test_a_protocol_with_prerequisites_and_a_plugin_is_sent_without_a_warning(pai, caplog):
    """The role's prerequisites in their order, and all flags of notifications, false ones too."""
    pai.release = "1.8.0"

    class Weather(PaiProtocolTask):
        protocol = PROTOCOL

    with caplog.at_level("WARNING"):
        assert luigi.build([Weather()], local_scheduler=True, log_level="WARNING")
    assert caplog.messages == []
    sent = pai.jobs["weather"].config
    assert sent["taskRoles"]["draw"]["prerequisites"] == ["renderer", "maps"]
    assert sent["prerequisites"][1]["callbacks"] == [
        {"event": "taskStarts", "commands": ["mkdir -p /maps", "fetch-maps --into /maps"]}
    ]
    words = ("running", "succeeded", "stopped", "failed", "retried")
    notified = {word: word not in ("stopped", "retried") for word in words}
    assert sent["extras"] == {
        "com.microsoft.pai.runtimeplugin": [{"plugin": "ssh", "parameters": {"jobssh": True}}],
        "jobStatusChangeNotification": notified,
    }
    assert sent["description"] == "Fetches maps,\nthen draws them.\n"
