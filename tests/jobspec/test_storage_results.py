"""What a container writes into an output folder on a mount: metrics.json and reports."""

from __future__ import annotations

import json
import os
import stat

import pytest
from container_environments import Role, v2

from luigi_pai import runtime
from luigi_pai.payload import container


@pytest.fixture
def storage(tmp_path, monkeypatch):
    folder = tmp_path / "mnt" / "nfs1"
    folder.mkdir(parents=True)
    monkeypatch.setenv("PAI_DEFAULT_FS_URI", str(folder))
    return folder


@pytest.fixture
def strict():
    """As in an image whose umask leaves nothing to others."""
    before = os.umask(0o077)
    yield
    os.umask(before)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("form", ["{}", "file://{}"])
def test_metrics_on_a_storage(storage, form):
    """Folders and the file can be changed by the user, and no other file is left."""
    output = storage / "train" / "output"
    assert container._write_metrics(form.format(output), '{"a": 1}')
    assert json.loads((output / "metrics.json").read_text()) == {"a": 1}
    assert list(output.iterdir()) == [output / "metrics.json"]
    assert [mode(each) for each in (output.parent, output, output / "metrics.json")] == [0o777, 0o777, 0o666]
    assert container._write_metrics(str(output), '{"a": 2}')
    assert json.loads((output / "metrics.json").read_text()) == {"a": 2}


def test_a_storage_that_is_not_mounted(storage):
    """Its parent folder is in every image: nothing is written there."""
    storage.rmdir()
    assert not container._write_metrics(f"{storage}/output", "{}")
    assert not storage.exists()


@pytest.mark.parametrize("uri", ["", "hdfs://nn", "/mnt/other"])
def test_other_mounts(tmp_path, monkeypatch, uri):
    """The first folder of the path decides, as a job may mount more than the storage."""
    monkeypatch.setenv("PAI_DEFAULT_FS_URI", uri)
    assert container._write_metrics(str(tmp_path / "output"), "{}")
    assert not container._write_metrics("/no-such-mount/output", "{}")
    assert not container._write_metrics("", "{}")


@pytest.mark.parametrize(("function", "called"), [("", "work"), ("rate", "rate")])
def test_a_result_that_is_too_large(monkeypatch, function, called):
    monkeypatch.setattr(container, "LARGEST_METRICS", 10)
    task = container.Task()
    task.pai = runtime
    task.work = lambda: {"values": list(range(10))}
    wrong = (
        rf"^{called}\(\) returned 42 bytes of JSON; 10 at most: write large results to files in output_dir"
    )
    with pytest.raises(ValueError, match=wrong):
        container._run(task, function)


@pytest.mark.usefixtures("strict")
def test_reports_can_be_deleted(storage, monkeypatch):
    """Their folder is made by the container, and emptied by the user."""
    roles = [Role("main", ["10.0.0.2"], [{"http": [1001], "ssh": [1002]}])]
    for name, value in v2(roles, "main", 0, PAI_OUTPUT_DIR=f"{storage}/output").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(runtime, "_REPORTERS", {})
    runtime.report(step=1)
    reports = storage / "output" / "_reports"
    assert [mode(each) for each in (reports.parent, reports)] == [0o777, 0o777]
    (file,) = reports.iterdir()
    assert json.loads(file.read_text())["step"] == 1


def test_where_a_file_is_in_the_way(storage):
    (storage / "output").write_text("")
    with pytest.raises(FileExistsError):
        container._write_metrics(f"{storage}/output", "{}")
    assert stat.S_IMODE((storage / "output").stat().st_mode) == 0o644
