"""References: rendered as a server renders them, checked before it does, filled in as a runtime does."""

from __future__ import annotations

import contextlib
import copy
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from job_cases import ABSENT, JAVASCRIPT_TEXTS, cases, changed

from luigi_pai.errors import Level, Problem, SpecError
from luigi_pai.jobspec.dialects.mustache import SPACES, TemplateError, parse
from luigi_pai.jobspec.templates.commands import entrypoints
from luigi_pai.jobspec.templates.references import Reference, reference_findings, references
from luigi_pai.jobspec.templates.secrets import fill_secrets, is_masked, mask, masked

CASES = cases("template")

PLUGIN = "com.microsoft.pai.runtimeplugin"
DOCUMENT = CASES["document"]


def with_commands(*commands: str, **more: object) -> dict:
    document = {**copy.deepcopy(DOCUMENT), **more}
    document["taskRoles"]["worker"]["commands"] = list(commands)
    return document


def rendered(*commands: str, **more: object) -> str:
    return entrypoints(with_commands(*commands, **more))["worker"]


def reference_problems(document: dict) -> list[Problem]:
    return [finding.as_problem() for finding in reference_findings(document)]


def problems(*commands: str, **more: object) -> list[str]:
    return [str(problem) for problem in reference_problems(with_commands(*commands, **more))]


# ---------------------------------------------------------------- rendering


@pytest.mark.parametrize(("command", "text"), CASES["rendered"])
def test_a_command_is_rendered_as_1_8_renders_it(command, text):
    """Each expectation was seen on the rest-server's own code (mustache 2.3.2)."""
    assert rendered(command) == text


@pytest.mark.parametrize(("value", "text"), JAVASCRIPT_TEXTS)
def test_a_value_becomes_the_text_that_javascript_makes_of_it(value, text):
    """Numbers, truth values, lists and mappings are written as JavaScript writes them."""
    assert rendered("x<% $parameters.v %>x", parameters={"v": value}) == f"x{text}x"


@pytest.mark.parametrize(("commands", "more", "text"), CASES["joined"])
def test_commands_are_trimmed_and_joined_by_newline(commands, more, text):
    """Before they are parsed; the default deployment stands around them, in the roles that it names."""
    assert rendered(*commands, **more) == text


def test_a_role_sees_only_the_prerequisites_that_it_names():
    """``$data`` is the data of the role, not of the job."""
    document = changed(with_commands("<% $data.name %>"), {"taskRoles.worker.data": ABSENT})
    assert entrypoints(document) == {"worker": "<% $data.name %>"}


def test_a_tag_that_the_server_fails_on_is_an_error():
    """The rest-server answers 500 to it; nothing can be rendered."""
    missing = "'%>' is missing: the tag <% $parameters.epochs is not closed; the server responds with 500"
    with pytest.raises(SpecError) as caught:
        rendered("ok", "x <% $parameters.epochs")
    assert list(map(str, caught.value.problems)) == [f"taskRoles.worker.commands: {missing}"]
    (problem,) = problems("ok", "x <% $parameters.epochs")
    message = "has '<%' without '%>' after it; the server responds with 500"
    assert problem == f"taskRoles.worker.commands[1]: {message}"


@settings(deadline=None)  # machines of CI are busy
@given(st.text().filter(lambda text: "<%" not in text))
@example("\ufeff x \x85")
def test_a_text_without_tags_is_only_trimmed(text):
    """Whatever else a command holds arrives as it is."""
    assert rendered(text) == text.strip(SPACES)


@settings(deadline=None)  # machines of CI are busy
@given(st.text(), st.text())
def test_a_parameter_arrives_as_it_is(before, value):
    """A value is not read as a template."""
    before = before.replace("<%", "")
    shown = rendered(f"{before}|<% $parameters.v %>|", parameters={"v": value})
    assert shown == f"{before}|{value}|".strip(SPACES)


# ---------------------------------------------------------------- secrets


@pytest.mark.parametrize(("secrets", "command", "text"), CASES["secrets"])
def test_the_runtime_fills_in_secrets(secrets, command, text):
    """By key and by index; a reference that leads nowhere becomes nothing, as every other one.

    Without secrets the runtime looks at nothing, and a value that looks like a reference stays one.
    """
    assert fill_secrets(command, secrets) == text


def test_masked_hides_every_value_under_secrets_and_auth():
    """References stay; the document itself is not changed."""
    document = {
        **DOCUMENT,
        "secrets": {"a": "x", "b": ["y", {"c": 1}]},
        "prerequisites": [
            {"name": "i", "type": "dockerimage", "auth": {"username": "<% $secrets.a %>", "password": "y"}}
        ],
    }
    before = copy.deepcopy(document)
    shown = masked(document)
    assert shown["secrets"] == {"a": "******", "b": ["******", {"c": "******"}]}
    assert shown["prerequisites"][0]["auth"] == {"username": "<% $secrets.a %>", "password": "******"}
    assert document == before
    assert (is_masked(shown), is_masked(document)) == (True, False)
    assert masked({"name": "x"}) == {"name": "x"}


def test_mask_hides_secrets_in_a_text():
    """Longer ones first, numbers too; what is no secret stays."""
    document = {
        "secrets": {"a": "ab", "b": "abc", "pin": 1234, "empty": "", "none": None},
        "prerequisites": [{"auth": {"password": "pw!", "username": "<% $secrets.a %>"}}],
    }
    shown = mask("abc ab 1234 pw! <% $secrets.a %>", document)
    assert shown == "****** ****** ****** ****** <% $secrets.a %>"
    assert mask("abc", {}) == "abc"


# ---------------------------------------------------------------- references


def test_references_come_with_where_they_stand():
    """Commands, accounts of images, parameters of plugins."""
    document = with_commands("a <% $data.uri[0] %>", "<%# s %><%/ s %>")
    document["prerequisites"][0]["auth"] = {"password": "<% $secrets.key %>"}
    document["extras"] = {PLUGIN: [{"plugin": "ssh", "parameters": {"key": "<% $secrets.key %>"}}]}
    assert references(document) == [
        Reference(("taskRoles", "worker", "commands", 0), "$data.uri[0]", role="worker"),
        Reference(("taskRoles", "worker", "commands", 1), "s", role="worker", kind="#"),
        Reference(("prerequisites", 0, "auth", "password"), "$secrets.key"),
        Reference(("extras", PLUGIN, 0, "parameters", "key"), "$secrets.key", role="worker", plugin=True),
    ]


NOTHING = "servers accept it, and fill in nothing useful"


@pytest.mark.parametrize(("command", "message"), CASES["nowhere"])
def test_a_reference_that_leads_nowhere_is_found(command, message):
    """What it misses, what was probably meant, and what would become of it."""
    name = command.strip("<%> ")
    assert problems("ok", command) == [f"taskRoles.worker.commands[1]: <% {name} %>: {message}; {NOTHING}"]
    assert {problem.level for problem in reference_problems(with_commands(command))} == {Level.STRICTER}


@pytest.mark.parametrize(("changes", "expected"), CASES["findings"])
def test_a_reference_that_is_not_filled_in_is_found(changes, expected):
    """What refers to nothing, what servers drop, and what stands where only some references are filled in.

    An image's auth may refer to secrets only, and a strange tag may be a part of a password. The runtime
    replaces text by text in the parameters of plugins. Keys are shown, values of secrets are not.
    """
    found = reference_problems(changed(DOCUMENT, changes))
    assert [[problem.level.value, str(problem)] for problem in found] == expected
    assert "hunter2" not in str(expected)


@pytest.mark.parametrize("tag", ["<% $a{}x", "<%= {}x", "<%{{ a{}x", "<% $a{}%>"])
def test_a_tag_with_many_blanks_is_soon_read(tag):
    """They are looked at once, not once from each of them."""
    begun = time.thread_time()
    with contextlib.suppress(TemplateError):
        parse(tag.format(" " * 60_000))
    assert time.thread_time() - begun < 1
