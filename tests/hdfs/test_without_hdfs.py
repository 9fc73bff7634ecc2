"""Tasks on a cluster whose HDFS nobody has configured: no word about it, and none of its modules."""

from __future__ import annotations

import json
import logging
import subprocess
import sys

import luigi
import pytest

from luigi_pai import PaiTask, TaskRole


class Train(PaiTask):
    """A job without an output folder of its own."""

    name = luigi.Parameter(default="train")
    image = "python:3"
    tasks = [TaskRole("main", "python train.py", memoryMB=512, shmMB=64)]


class Kept(Train):
    """One whose results somebody has given a place."""

    @property
    def output_dir(self):
        return f"$PAI_DEFAULT_FS_URI/results/{self.name}"


def run(kind, caplog):
    """Run two tasks; return what was logged about folders and flags."""
    with caplog.at_level(logging.INFO, "luigi-interface"):
        for name in ("a", "b"):
            kind(name=name).run()
    return [message for message in caplog.messages if "flag" in message or "outputDir" in message]


@pytest.mark.parametrize("release", ["0.7.1", "1.0.1", "1.8.0"])
def test_nothing_is_logged_of_what_nobody_has_set(pai, caplog, release):
    pai.release = release
    assert run(Train, caplog) == []


@pytest.mark.parametrize(("release", "outputs"), [("0.7.1", 0), ("1.8.0", 1)])
def test_a_folder_that_was_set_is_mentioned_once(pai, caplog, release, outputs):
    """However many jobs there are: that it has no flag, and on v2 that it is nowhere."""
    pai.release = release
    told = run(Kept, caplog)
    assert len([message for message in told if "gets no completion flag: luigi.cfg names no" in message]) == 1
    assert (
        len([message for message in told if "outputDir: " in message and "stays as it is" in message])
        == outputs
    )


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
    """The first run of a process: they are a third of what it would load."""
    done = subprocess.run(
        [sys.executable, "-c", RUN], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=300
    )
    loaded = json.loads(done.stdout)
    assert "luigi_pai.work.run" in loaded
    assert [name for name in loaded if name == "hdfs" or name.startswith("luigi.contrib.hdfs")] == []
    assert [name for name in loaded if name.startswith("luigi_pai.files.")] == ["luigi_pai.files.errors"]
