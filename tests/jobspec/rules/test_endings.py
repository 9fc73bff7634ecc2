"""How a command ends: what bash makes of it in the scripts of the releases, and what we send and say."""

from __future__ import annotations

import pytest
from release_scripts import appended, evaluated, exit_code, protocol, warnings

from luigi_pai.jobspec.dialects.shell_text import repaired
from luigi_pai.jobspec.job import PaiJob, TaskRole
from luigi_pai.jobspec.protocol import JobProtocol
from luigi_pai.jobspec.submission import filled_commands, submission_text
from luigi_pai.jobspec.validate_protocol import validate_protocol

REPAIRED = [  # command, its exit codes in the scripts of 0.7 and 0.9 as it is, what is sent, the warning
    ("(exit 3)\n", 2, 2, "(exit 3)", "ends with a line break; on OpenPAI 0.7 and 0.8, || exit $? follows"),
    ("(exit 3) \n \n", 2, 2, "(exit 3)", "ends with a line break; "),
    ("(exit 3);", 2, 3, "(exit 3)", "ends with ;; on OpenPAI 0.7 and 0.8, || exit $? follows it, which is a"),
    ("true ; ", 2, 0, "true", "ends with ;; "),
    ("(exit 3); # done", 0, 3, "(exit 3)", "ends with a comment; "),
    ("(exit 3) # done", 0, 3, "(exit 3)", "follows it, so that the job succeeds even if the command fails"),
    ("(exit 3)\n# done", 0, 2, "(exit 3)", "ends with a comment; "),
    ("(exit 3) #", 0, 3, "(exit 3)", "ends with a comment; "),
    ("(exit 3) `true # a`;", 2, 2, "(exit 3) `true # a`", "ends with ;; "),
    ('test "a # b" = 1 #"', 0, 1, 'test "a # b" = 1', "ends with a comment; "),
    ("if true; then (exit 3); fi;", 2, 3, "if true; then (exit 3); fi", "ends with ;; "),
    ("(exit 3) \\\n", 3, 2, "(exit 3)", "ends with a line break; "),
    ("bash <<E\nexit 3\nE", 3, 127, "bash <<E\nexit 3\nE\n(exit $?)", "so that its last line is not recogn"),
    ("cat <<E\n1\nE", 0, 0, "cat <<E\n1\nE\n(exit $?)", "ends with a here-document; "),
    ("bash <<E\nexit 3\nE\n", 2, 127, "bash <<E\nexit 3\nE\n(exit $?)", "ends with a here-document; "),
    ("bash <<-'E'\n\texit 3\n\tE", 3, 127, "bash <<-'E'\n\texit 3\n\tE\n(exit $?)", "here-document; "),
    ("(exit 3)\r\n", 2, 2, "(exit 3)", "has lines that end with CR LF, as on Windows; the shell takes"),
    ("true &&\r\n(exit 3)", 3, 2, "true &&\n(exit 3)", "has lines that end with CR LF"),
]

WARNED = [  # command, its exit codes in the scripts of 0.7 and 0.9, the warning
    (
        "false &",
        2,
        0,
        "ends with &, so that the task does not wait for what it starts; take & away (it is a sy",
    ),
    ("(false) &", 2, 0, "(it is a syntax error on OpenPAI 0.7 and 0.8)"),
    ("false |", 2, 2, "ends with |, which is a syntax error of the shell; take it away"),
    ("true &&", 2, 2, "ends with &&, which is a syntax error"),
    ("false ||", 2, 2, "ends with ||, which is a syntax error"),
    ("true |&", 2, 2, "ends with |&, which is a syntax error"),
    ("true;;", 2, 2, "ends with ;;, which is a syntax error"),
    ("test a = a \\", 2, 2, "ends with a backslash, which the shell passes to the program; take it away"),
    ("echo 'a", 2, 2, "does not close ', which is a syntax error of the shell; close it"),
    ('echo "a', 2, 2, 'does not close "'),
    ("(true", 2, 2, "does not close ("),
    ("echo $(true", 2, 2, "does not close $("),
    ("echo ${a", 2, 2, "does not close ${"),
    ("echo `true", 2, 2, "does not close `"),
    ("cat <<E\na", 0, 0, "has no line that is only E, which ends the here-document; write this line"),
    ("true\n(exit 3)", 3, 2, "has a line break, which is replaced by the letter n on OpenPAI 0.9 to 0.14; "),
    ("test\t1", 0, 127, "has a tab, which is replaced by the letter t on OpenPAI 0.9 to 0.14"),
    (
        "set -e; false; true",
        1,
        0,
        "has set -e, which has no effect on OpenPAI 0.9 to 0.14, where the command",
    ),
    ("set -euo pipefail && false; true", 1, 0, "has set -e, which has no effect"),
]

RIGHT = [  # command, its exit code in both scripts
    ("(exit 3)", 3),
    ("(exit 3)  ", 3),
    ("true; (exit 3)", 3),
    ("false || true", 0),
    ("true && (exit 3)", 3),
    ("! true", 1),
    ("exec false", 1),
    ("{ (exit 3); }", 3),
    ("for i in 1 2; do (exit $i); done", 2),
    ("while (exit 3); do :; done", 0),
    ("case a in a) (exit 3);; esac", 3),
    ("f() { return 3; }; f", 3),
    ("bash -ec 'false; true'", 1),
    ("true & wait $!", 0),
    ("set -o pipefail; (exit 3) | cat", 3),
    ("cat <<<a && (exit 3)", 3),
    ("find . -name a -exec true {} \\;", 0),
    ("test a#b = a#b -a ${#PATH} -gt 1", 0),
    ("(exit $((1 << 1)))", 2),
    ("test \"${a:-'b}'}\" = a", 1),
    ('test "$(echo "a)" | wc -l)" = 2', 1),
    ("trap 'exit 5' EXIT; false", 5),
    ("echo \\;", 0),
    ("false 2>&1", 1),
]


@pytest.mark.parametrize(("command", "in_0_7", "in_0_9", "sent", "warning"), REPAIRED)
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
    assert "luigi-pai repairs this" in warnings(command)[0]


@pytest.mark.parametrize(("command", "in_0_7", "in_0_9", "warning"), WARNED)
def test_an_ending_that_cannot_be_repaired_is_warned_of(command, in_0_7, in_0_9, warning, tmp_path):
    assert exit_code(appended(command), tmp_path) == in_0_7
    assert exit_code(evaluated(command), tmp_path) == in_0_9
    assert repaired(command) == command
    assert warning in warnings(command)[0]


@pytest.mark.parametrize(("command", "code"), RIGHT)
def test_an_ending_that_works_everywhere_is_sent_as_it_is(command, code, tmp_path):
    assert exit_code(appended(command), tmp_path) == code
    assert exit_code(evaluated(command), tmp_path) == code
    assert exit_code(command, tmp_path) == code
    assert repaired(command) == command
    assert warnings(command) == []


@pytest.mark.parametrize(
    ("command", "release", "said"),
    [
        ("true;", "0.7.1", "on OpenPAI 0.7.1, || exit $? follows it"),
        ("true;", "0.8.3", "on OpenPAI 0.8.3, || exit $? follows it"),
        ("true;", "0.9.1", None),
        ("true &", "0.7.1", "(it is a syntax error on OpenPAI 0.7.1)"),
        ("true &", "0.9.1", "take & away"),
        ("true &\n", "0.7.1", "take & away (it is a syntax error on OpenPAI 0.7.1)"),
        ("true\ntrue", "0.8.3", None),
        ("true\ntrue", "0.9.1", "replaced by the letter n on OpenPAI 0.9.1"),
        ("true\ntrue", "0.14.0", "replaced by the letter n on OpenPAI 0.14.0"),
        ("true\ntrue", "0.15.0", None),
        ("set -e; true", "0.8.3", None),
        ("set -e; true", "0.12.0", "has no effect on OpenPAI 0.12.0"),
        ("bash -c 'cd a; set -e; true'", "0.12.0", None),
        ("true \x01", "0.12.0", "has the character '\\x01', which is removed on OpenPAI 0.12.0"),
    ],
)
def test_a_warning_is_for_the_releases_that_it_names(command, release, said):
    found = warnings(command, release)
    assert found == [] if said is None else said in found[0]


def of_protocol(*commands, release=None):
    return [
        (problem.path.partition("commands")[2], problem.message)
        for problem in validate_protocol(protocol(*commands), release=release)
    ]


@pytest.mark.parametrize(
    ("commands", "release", "found"),
    [
        (("true;", "true # a", "cat <<E\na\nE\n"), None, []),  # these servers write each into a line
        (("for i in 1; do", "echo $i", "done"), "1.8.0", []),
        (("echo 'a", "b"), None, [("[1]", "does not close '")]),
        (("true", "true |"), "1.8.0", [("[1]", "ends with |, which is a syntax error")]),
        (("train \\", "--lr 1"), "1.8.0", []),
        (
            ("train \\", "--lr 1"),
            "0.16.1",
            [("[0]", "ends with \\, after which OpenPAI 0.15 and 0.16 append &&")],
        ),
        (
            ("train \\", "--lr 1 \\", "--n 2"),
            "0.16.1",
            [("[0]", "ends with \\ (and 1 more), after which")],
        ),
        (("true # a", "true"), "0.15.0", [("[0]", "ends with a comment, after which")]),
        (("true;", "true;"), "0.15.0", [("[0]", "ends with ;, after which")]),
        (("cat <<E\nE", "true\n"), "0.15.0", [("[0]", "ends with a here-document, after which")]),
        (("true\r\n", "true"), None, [("[0]", "has lines that end with CR LF")]),
    ],
)
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
