"""Failures that a shell hides: what is warned of, and what is left alone because it is meant or harmless."""

from __future__ import annotations

import pytest
from job_cases import appended, cases, evaluated, exit_code, protocol, warnings

from luigi_pai.jobspec.dialects.shell_text import strict, strict_command
from luigi_pai.jobspec.validate_protocol import validate_protocol

CASES = cases("hidden_failures")

PIPE = "because a pipe returns the exit code of its last program; add set -o pipefail; at the start"


def hidden(command, release="0.7.1"):
    return [said for said in warnings(command, release) if said.startswith("role 'main' succeeds even if")]


@pytest.mark.parametrize(("command", "program", "why"), CASES["hidden"])
def test_a_program_whose_failure_is_hidden_is_named(command, program, why):
    assert hidden(command) == [
        f"role 'main' succeeds even if {program} fails, {why}, or set strict_shell = True in the PaiTask"
    ]


@pytest.mark.parametrize("command", CASES["left_alone"])
def test_what_is_meant_or_harmless_is_left_alone(command):
    assert hidden(command) == []


def test_the_first_program_of_each_kind_is_named():
    first, second = hidden("a | b; c; d | e")
    assert first.startswith("role 'main' succeeds even if a fails, because a pipe")
    assert second.startswith("role 'main' succeeds even if b fails, because only the last")


@pytest.mark.parametrize(
    ("release", "count"),
    [("0.15.0", 1), ("0.16.0", 1), ("0.17.0", 0), ("1.8.0", 0), ("ltp-1.5", 0), (None, 0)],
)
def test_a_protocol_hides_failures_up_to_0_16_only(release, count):
    """Later runtimes run its commands under errexit and pipefail."""
    found = validate_protocol(protocol("true", "false | tee log"), release=release)
    assert [str(problem) for problem in found] == [
        f"taskRoles.main.commands: role 'main' succeeds even if false fails, {PIPE}"
    ] * count


def test_the_commands_of_a_protocol_are_one():
    """A first command that sets pipefail is for all."""
    document = protocol("set -o pipefail", "false | tee log", "true")
    assert validate_protocol(document, release="0.16.0") == []


@pytest.mark.parametrize(("command", "code"), CASES["strict"])
def test_a_strict_command_fails_with_its_first_failure_on_every_release(command, code, tmp_path):
    """It is one line, and no warning is left about it."""
    sent = strict(command)
    assert "\n" not in sent
    assert strict_command(sent) == command.replace("\r", "")
    assert exit_code(appended(sent), tmp_path) == code
    assert exit_code(evaluated(sent), tmp_path) == code
    assert exit_code(f"set +o errexit +o nounset +o pipefail\n{sent}", tmp_path) == code
    assert warnings(sent) == []


def test_what_else_is_wrong_with_a_strict_command_is_warned_of():
    assert warnings(strict("echo 'a")) == ["does not close ', which is a syntax error of the shell; close it"]
    (said,) = warnings(strict("echo $PAI_OUTPT_DIR"))
    assert "did you mean $PAI_OUTPUT_DIR?" in said


@pytest.mark.parametrize(
    "command", ["train", "bash -e -o pipefail -c $'a' && b", "bash -e -o pipefail -c $'\\e'"]
)
def test_a_command_of_the_user_is_not_taken_for_a_strict_one(command):
    assert strict_command(command) is None
