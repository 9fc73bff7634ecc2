"""Failures that a shell hides: what is warned of, and what is left alone because it is meant or harmless."""

from __future__ import annotations

import pytest
from release_scripts import appended, evaluated, exit_code, protocol, warnings

from luigi_pai.jobspec.dialects.shell_text import strict, strict_command
from luigi_pai.jobspec.validate_protocol import validate_protocol

PIPE = "because a pipe returns the exit code of its last program; add set -o pipefail; at the start"
SEQUENCE = "because only the last command decides; join the commands with &&"

HIDDEN = [  # command, the program that fails, what hides it
    ("false | tee log", "false", PIPE),
    ("false | tee log && echo ok", "false", PIPE),
    ("false |& tee log", "false", PIPE),
    ('A=1 B="x y" false | cat', "false", PIPE),
    ("cat /dev/null | false | tee log", "false", PIPE),
    ("true &&\n false | cat", "false (line 2)", PIPE),
    ("false \\\n  --rate 1 | cat", "false (line 1)", PIPE),
    ("false; true", "false", SEQUENCE),
    ("false\necho trained", "false (line 1)", SEQUENCE),
    ("set -x; cd . && false; true", "false", SEQUENCE),
    ("# first\nfalse # a; b\ntrue", "false (line 2)", SEQUENCE),
    ("cat <<E >f\na; b | c\nE\nfalse; true", "false (line 4)", SEQUENCE),
    ("true & false; wait", "false", SEQUENCE),
    ("(exit 3; true); true", "(...)", SEQUENCE),
    ('"$(which false)"; true', '"$(which false)"', SEQUENCE),
    ("set -o pipefail; false | cat; true", "false", SEQUENCE),
    ("exec 3>log; false; true", "false", SEQUENCE),
]

LEFT_ALONE = [
    "a && b",
    "a || b",
    "a | b || true",
    "a || true; b",
    "a && b || exit 1; c",
    "a; exit $?",
    "a; code=$?; b; exit $code",
    "a; exit 0",
    "set -e; a; b",
    "set -o errexit; a; b",
    "set +e; a; b",
    "set -euo pipefail\na | b\nc",
    "set -o pipefail; a | b",
    "a | b; exit ${PIPESTATUS[0]}",
    "trap 'kill 0' ERR; a; b",
    "export A=1; cd x; mkdir -p o; echo hi; . ./env; python t",
    "A=$(a | b) python c",
    "echo y | apt-get install x",
    "cat <<E | b\na\nE",
    "bash -ec 'a; b'",
    "a &\nb",
    "for i in 1 2; do a $i; b; done",
    "if a; then b; c; fi",
    "while ! curl x; do sleep 1; done; python a",
    "case a in a) b;; c) d; e;; esac",
    "[ -d a ] || { mkdir a; b; c; }; python t",
    "f() { a; b; }; f",
    "a;\n",
    "a\n# b; c\n",
]


def hidden(command, release="0.7.1"):
    return [said for said in warnings(command, release) if said.startswith("role 'main' succeeds even if")]


@pytest.mark.parametrize(("command", "program", "why"), HIDDEN)
def test_a_program_whose_failure_is_hidden_is_named(command, program, why):
    assert hidden(command) == [
        f"role 'main' succeeds even if {program} fails, {why}, or set strict_shell = True in the PaiTask"
    ]


@pytest.mark.parametrize("command", LEFT_ALONE)
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


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("false | tee log", 1),
        ("false; true", 1),
        ("false\ntrue", 1),
        ("true\n(exit 3)\ntrue\n", 3),
        ("(exit 3) # no end", 3),
        ("false || true\ntest 'a b' = \"a b\"\r\ntest \\\\ = '\\'", 0),
        ("test \"$(printf '\\t')\" = '\t'", 0),
        ("bash <<'E'\nexit 3\nE", 3),
        ("a=Schön; test $a = Schön; exit 4", 4),
    ],
)
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
