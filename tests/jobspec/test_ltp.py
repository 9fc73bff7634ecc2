"""Job protocols on LTP: its fields and rules, by release."""

from __future__ import annotations

import pytest
from job_cases import cases, changed, protocol

from luigi_pai.errors import Level
from luigi_pai.jobspec.protocol import Extras, JobProtocol, LocalStorage, RuntimePlugin
from luigi_pai.jobspec.releases import release_number, release_title
from luigi_pai.jobspec.validate_protocol import check_protocol, validate_protocol


def test_releases_of_ltp_come_after_those_of_openpai():
    names = ["0.7.1", "0.15.0", "1.6", "1.8.0", "1.8.1", "ltp-1.0", "ltp-1.1", "ltp-1.4", "ltp-1.5"]
    numbers = [release_number(name) for name in names]
    assert numbers == sorted(numbers)
    assert [release_title(name) for name in ("1.8.0", "ltp-1.5")] == ["OpenPAI 1.8.0", "LTP 1.5"]


@pytest.mark.parametrize(("changes", "levels", "message"), cases("ltp")["releases"])
def test_what_each_release_makes_of_a_field(changes, levels, message):
    """OpenPAI takes whatever stands under extras, and does nothing of it."""
    document = changed(protocol(), changes)
    for release, level in levels.items():
        problems = validate_protocol(document, release=None if release == "any" else release)
        found = [(problem.level.value, str(problem)) for problem in problems]
        assert found == ([(level, message)] if level else []), release


def test_the_fields_of_ltp_are_written_and_read():
    job = JobProtocol.from_dict(protocol())
    job.jobType = "training"
    job.extras = Extras(
        runtimePlugins=[RuntimePlugin("dind")],
        enableLocalStorage=LocalStorage(hostpath="/mnt/a", mntpath="/a"),
        forceNodes="n1",
        allowAzCopy=True,
    )
    document = job.to_dict()
    assert document["jobType"] == "training"
    assert document["extras"] == {
        "com.microsoft.pai.runtimeplugin": [{"plugin": "dind"}],
        "enableLocalStorage": {"enabled": True, "hostpath": "/mnt/a", "mntpath": "/a"},
        "forceNodes": "n1",
        "allowAzCopy": True,
    }
    again = JobProtocol.from_yaml(job.to_yaml())
    assert again == job
    assert isinstance(again.extras.enableLocalStorage, LocalStorage)
    assert again.extras.enableLocalStorage.hostpath == "/mnt/a"
    assert {problem.level for problem in check_protocol(again)} == {Level.WARNING}
    for value in (True, "x", [1], None):  # of another shape, which goes through unharmed
        document = protocol(extras={"enableLocalStorage": value})
        assert JobProtocol.from_dict(document).to_dict() == document
