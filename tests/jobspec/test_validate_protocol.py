"""Validation of job protocols: every rule with the path, the level and the words that a user reads."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from job_cases import ABSENT, cases, changed

from luigi_pai.errors import Level, Problem, SpecError
from luigi_pai.jobspec.dialects.yaml_text import read_yaml, write_yaml
from luigi_pai.jobspec.paths import path_text
from luigi_pai.jobspec.protocol import JobProtocol
from luigi_pai.jobspec.validate_protocol import check_protocol, refused, validate_protocol

REFUSED, STRICTER, WARNING = Level.REFUSED, Level.STRICTER, Level.WARNING
CASES = cases("protocol_rules")
GOOD: dict[str, Any] = CASES["good"]
NAME = "a name of 1 to 255 letters, digits, '-' and '_'"
PS = GOOD["taskRoles"]["ps"]
WORKER = "taskRoles.worker."
CLOSED = ["", WORKER, f"{WORKER}completion.", f"{WORKER}resourcePerInstance.", "prerequisites[0]."]


def found(document: object, **options: Any) -> list[list[str]]:
    return [[problem.level.value, str(problem)] for problem in validate_protocol(document, **options)]


@pytest.mark.parametrize("release", [None, "1.6.0", "1.8.0"])
def test_a_good_protocol_has_no_problem(release):
    """Every field at the edge of what is allowed is allowed, by every release that knows them."""
    before = copy.deepcopy(GOOD)
    assert found(GOOD, release=release) == []
    assert before == GOOD


# ---------------------------------------------------------------- rules

LONG = ["name", "n" * 256, "refused", f"'{'n' * 79}... is not {NAME}"]


@pytest.mark.parametrize(("path", "value", "level", "message"), [*CASES["one_problem"], LONG])
def test_each_rule_has_its_path_level_and_message(path, value, level, message):
    """One wrong value gives one problem, at its path, in the words written here."""
    assert found(changed(GOOD, {path: value})) == [[level, f"{path}: {message}"]]


@pytest.mark.parametrize(("changes", "problems"), [*CASES["several_problems"], *CASES["more_problems"]])
def test_a_wrong_value_may_be_wrong_for_others_too(changes, problems):
    """What depends on the wrong value is told as well, in the order of the document."""
    assert found(changed(GOOD, changes)) == problems


@pytest.mark.parametrize(("place", "known", "wrong"), CASES["misspelt"])
def test_a_misspelt_field_where_servers_take_any_is_warned_of(place, known, wrong):
    """It would be ignored without a word."""
    document = changed(GOOD, {f"{place}.{known}": ABSENT, f"{place}.{wrong}": "x"})
    message = f"is not a known field here; did you mean {known}? Servers accept it and ignore it"
    assert found(document) == [["warning", f"{place}.{wrong}: {message}"]]


@pytest.mark.parametrize("name", ["a-b", "1a", "a b", "", "a\n"])
def test_names_of_roles_have_their_letters(name):
    document = {**GOOD, "taskRoles": {**GOOD["taskRoles"], name: PS}}
    (first, *_) = [problem for problem in validate_protocol(document) if problem.level is REFUSED]
    place = path_text(("taskRoles", name))
    assert str(first) == f"{place}: {name!r} is not a name of letters, digits and '_', no digit first"


# ---------------------------------------------------------------- secrets


@pytest.mark.parametrize("value", ["hunter2", ["hunter2"], {"k": "hunter2"}])
def test_no_problem_shows_a_secret(value):
    """Wherever a secret's value ends up in a wrong type or place of secrets and auth, it is not repeated."""
    command = "<% $secrets.key %> <% $secrets.key.x %> <% $secrets.hunter %>"
    document = changed(GOOD, {"name": "a b", "taskRoles.ps.commands": [command]})
    for secrets in (value, {"key": value}, {"key": [value, True]}):
        for auth in (value, {"password": value}, {"x": value}, {"password": "<% hunter2"}):
            made = changed(document, {"secrets": secrets, "prerequisites[0].auth": auth})
            for prerequisites in (made["prerequisites"], {"auth": made["prerequisites"]}):
                problems = validate_protocol({**made, "prerequisites": prerequisites})
                assert "hunter2" not in " ".join(map(str, problems))


@pytest.mark.parametrize("document", ["secrets: hunter2", ["hunter2"], None, 7])
def test_a_document_that_is_no_mapping_is_one_problem(document):
    """And none of it is shown."""
    (problem,) = validate_protocol(document)
    assert problem.path == ""
    assert problem.message.endswith(" is not a mapping with protocolVersion, name, type and taskRoles")
    assert "hunter2" not in problem.message


# ---------------------------------------------------------------- releases, size, lines


@pytest.mark.parametrize(("release", "problems"), CASES["releases"].items())
def test_what_a_release_does_not_know(release, problems):
    """1.5 refuses what 1.6 brought; 0.17 takes storages, and mounts nothing."""
    assert found(GOOD, release=release) == problems


@pytest.mark.parametrize("release", ["1", "latest", "", "x1.8.0"])
def test_a_release_is_a_number(release):
    """Anything else is a mistake of the caller's."""
    with pytest.raises(ValueError, match=rf"^{release!r} is not a release of OpenPAI, such as 1\.8\.0, or"):
        validate_protocol(GOOD, release=release)


BARE = (
    "servers accept them, but would show them to everybody who may read the job, or redact more than them; "
    "write secrets: without quotes at the start of a line, its keys indented below it, and the next field "
    "without quotes at the start of a line"
)


@pytest.mark.parametrize(("text", "line"), CASES["shown"])
def test_secrets_that_the_server_would_not_hide_are_refused(text, line):
    """The server hides them by the letters of the text; its config is for everybody to read."""
    document = read_yaml(text)
    problems = validate_protocol(document.value, lines=document.lines, text=text)
    assert Problem("secrets", BARE, STRICTER, line) in problems


@pytest.mark.parametrize("text", CASES["hidden"])
def test_secrets_that_the_server_hides_are_fine(text):
    """First, last, or absent."""
    document = read_yaml(text)
    assert validate_protocol(document.value, lines=document.lines, text=text) == []


def test_the_size_of_a_text_is_that_of_its_utf_8():
    """Characters beyond ASCII count as what is sent."""
    text = f"description: {'é' * 51_200}\n{CASES['hidden'][-1]}"
    (problem,) = validate_protocol(read_yaml(text).value, text=text)
    assert str(problem) == f"has {len(text.encode()):,} bytes; servers accept at most 102,400"


@pytest.mark.parametrize(("path", "value"), CASES["refused_again"])
def test_a_job_is_valid_or_not_whatever_was_validated_before(path, value):
    """A value that was valid in another job is not validated again, but ``True`` is, although it equals 1."""
    assert refused(validate_protocol(changed(GOOD, {"taskRoles.worker.instances": 1})), lenient=True) == []
    first, again = (validate_protocol(changed(GOOD, {path: value})) for _ in range(2))
    assert first == again
    assert refused(first, lenient=True)[0].path.startswith(path)
    assert validate_protocol(GOOD) == []


# ---------------------------------------------------------------- what counts


def test_lenient_leaves_what_the_server_itself_refuses():
    """Strict counts both; warnings never count."""
    problems = [Problem("a", "x", level) for level in (REFUSED, STRICTER, WARNING)]
    assert [problem.level for problem in refused(problems)] == [REFUSED, STRICTER]
    assert [problem.level for problem in refused(problems, lenient=True)] == [REFUSED]


def test_check_protocol_lists_what_counts_under_the_jobs_name():
    """The error's text is the job, the count, and a line for each problem with its line, as in the document.

    What is missing has the line of what should hold it; a warning does not count.
    """
    more = [Problem("more", "is wrong"), Problem("less", "hm", WARNING)]
    with pytest.raises(SpecError) as caught:
        check_protocol(JobProtocol.from_yaml(CASES["text"]), more)
    assert str(caught.value) == CASES["error"]


def test_a_problem_is_one_line():
    """Whatever it quotes."""
    commands = ["<% $parameters.a\u2028b %>", "<%# a\n\n b %><%/ c\nd %>"]
    document = changed(GOOD, {"taskRoles.worker.commands": commands})
    problems = validate_protocol(document)
    assert problems
    assert all(len(str(problem).splitlines()) == 1 for problem in problems)


def test_check_protocol_returns_warnings():
    """They stop nothing."""
    assert check_protocol(JobProtocol.from_dict(GOOD)) == []
    text = write_yaml({key: value for key, value in GOOD.items() if key != "description"})
    (warning,) = check_protocol(JobProtocol.from_yaml(f"{text}description: 2020-01-01\n"))
    assert (warning.path, warning.level) == ("description", WARNING)


def test_check_protocol_knows_how_much_will_be_sent():
    """The size is that of the YAML."""
    with pytest.raises(SpecError, match=r"has [\d,]+ bytes; servers accept at most 102,400"):
        check_protocol(JobProtocol.from_dict(changed(GOOD, {"description": "x" * 102_400})))


@pytest.mark.parametrize("key", ["x", "Name", "commandss", "GPU"])
@pytest.mark.parametrize("place", CLOSED)
def test_an_unknown_key_is_found(place, key):
    """Wherever a server refuses unknown keys, one more is one more problem."""
    problems = validate_protocol(changed(GOOD, {place + key: 1}))
    assert [(problem.path, problem.level) for problem in problems] == [(place + key, REFUSED)]
