"""How a command ends: what bash makes of it in the scripts of the releases, and what we send and say."""

from __future__ import annotations

import pytest
from job_cases import appended, cases, evaluated, exit_code, protocol, warnings

from luigi_pai.jobspec.dialects.shell_text import repaired
from luigi_pai.jobspec.job import PaiJob, TaskRole
from luigi_pai.jobspec.protocol import JobProtocol
from luigi_pai.jobspec.submission import filled_commands, submission_text
from luigi_pai.jobspec.validate_protocol import validate_protocol

CASES = cases("endings")


@pytest.mark.parametrize(("command", "in_0_7", "in_0_9", "sent", "warning"), CASES["repaired"])
def test_an_ending_that_a_script_breaks_is_repaired(command, in_0_7, in_0_9, sent, warning, tmp_path):
    """A job file that has it is warned of; what is sent ends on 0.7 as bash ends the command by itself."""
    assert exit_code(appended(command), tmp_path) == in_0_7
    assert exit_code(evaluated(command), tmp_path) == in_0_9
    assert (
        PaiJob("train", "python:3", [TaskRole("main", command)]).to_dict()["taskRoles"][0]["command"] == sent
    )
    assert repaired(sent) == sent
    meant = exit_code(command.replace("\r", ""), tmp_path)
    assert exit_code(appended(sent), tmp_path) == meant
    if "\n" not in sent:
        assert exit_code(evaluated(sent), tmp_path) == meant
    assert any(warning in said for said in warnings(command))
    assert "luigi-pai fixes this" in warnings(command)[0]


@pytest.mark.parametrize(("command", "in_0_7", "in_0_9", "warning"), CASES["warned_of"])
def test_an_ending_that_cannot_be_repaired_is_warned_of(command, in_0_7, in_0_9, warning, tmp_path):
    assert exit_code(appended(command), tmp_path) == in_0_7
    assert exit_code(evaluated(command), tmp_path) == in_0_9
    assert repaired(command) == command
    assert warning in warnings(command)[0]


@pytest.mark.parametrize(("command", "code"), CASES["right"])
def test_an_ending_that_works_everywhere_is_sent_as_it_is(command, code, tmp_path):
    assert exit_code(appended(command), tmp_path) == code
    assert exit_code(evaluated(command), tmp_path) == code
    assert exit_code(command, tmp_path) == code
    assert repaired(command) == command
    assert warnings(command) == []


@pytest.mark.parametrize(("command", "release", "said"), CASES["by_release"])
def test_a_warning_is_for_the_releases_that_it_names(command, release, said):
    found = warnings(command, release)
    assert found == [] if said is None else said in found[0]


def of_protocol(*commands, release=None):
    return [
        (problem.path.partition("commands")[2], problem.message)
        for problem in validate_protocol(protocol(*commands), release=release)
    ]


@pytest.mark.parametrize(("commands", "release", "found"), CASES["protocols"])
def test_the_commands_of_a_protocol_are_judged_as_the_script_that_they_become(commands, release, found):
    said = of_protocol(*commands, release=release)
    assert [place for place, _ in said] == [place for place, _ in found]
    assert all(text in message for (_, message), (_, text) in zip(said, found, strict=True))


def test_lines_of_a_protocol_are_sent_with_lf():
    """Also those of its deployments; the job as it was written stays."""
    around = {"taskRoles": {"main": {"preCommands": ["a\r\nb\r\n"]}}, "name": "d"}
    document = protocol("c\r\nd", "e\rf", deployments=[around], defaults={"deployment": "d"})
    job = JobProtocol.from_dict(document)
    assert filled_commands(job) == {"main": "a\nb\nc\nd\ne\rf"}
    assert "\\r\\n" not in submission_text(job)
    assert job.to_dict() == document
