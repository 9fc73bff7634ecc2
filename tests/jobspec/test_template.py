"""References: rendered as a server renders them, checked before it does, filled in as a runtime does."""

from __future__ import annotations

import contextlib
import copy
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from luigi_pai.errors import Level, Problem, SpecError
from luigi_pai.jobspec.dialects.mustache import SPACES, TemplateError, parse
from luigi_pai.jobspec.templates.commands import entrypoints
from luigi_pai.jobspec.templates.references import Reference, reference_findings, references
from luigi_pai.jobspec.templates.secrets import fill_secrets, mask, masked

PLUGIN = "com.microsoft.pai.runtimeplugin"
DOCUMENT = {
    "protocolVersion": 2,
    "name": "train",
    "type": "job",
    "prerequisites": [
        {"name": "image", "type": "dockerimage", "uri": "python:3"},
        {"name": "code", "type": "script", "uri": "https://code", "version": "1.0"},
        {"name": "digits", "type": "data", "uri": ["https://a", "https://b"]},
        {"name": "model", "type": "output", "uri": "/out"},
    ],
    "parameters": {
        "epochs": 10,
        "rate": 0.1,
        "names": ["a", None, ["b", 1]],
        "nothing": None,
        "deep": {"er": {"x": "y"}},
    },
    "secrets": {"key": "hunter2", "keys": ["one", "two"]},
    "taskRoles": {
        "worker": {
            "dockerImage": "image",
            "script": "code",
            "data": "digits",
            "output": "model",
            "instances": 1,
            "resourcePerInstance": {"cpu": 1, "memoryMB": 100, "gpu": 0},
            "commands": ["run"],
        }
    },
}


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


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("<% $parameters.epochs %>", "10"),
        ("<%$parameters.epochs%>", "10"),
        ("<%\n $parameters.epochs \n%>", "10"),
        ("<%\u00a0$parameters.epochs\ufeff%>", "10"),
        ("<% $parameters.names %>", "a,,b,1"),
        ("<% $parameters.names[2] %>", "b,1"),
        ("<% $parameters.names.2[1] %>", "1"),
        ("<% $parameters.deep.er.x %>", "y"),
        ("<% $parameters.deep %>", "[object Object]"),
        ("<% $data.uri[1] %> <% $data.name %>", "https://b digits"),
        ("<% $data.uri %>", "https://a,https://b"),
        ("<% $script.uri %>:<% $script.version %>:<% $output.uri %>", "https://code:1.0:/out"),
        ("<% $parameters.nothing %>", "<% $parameters.nothing %>"),
        ("<% $parameters.nothing.x %>", "<% $parameters.nothing.x %>"),
        ("<% $parameters.epochs.x %>", "<% $parameters.epochs.x %>"),
        ("<% $data.uri[2] %>", "<% $data.uri.2 %>"),
        ("<% $data.uri[01] %>", "<% $data.uri.01 %>"),
        ("<%  $secrets.keys[0]  %>", "<% $secrets.keys.0 %>"),
        ("<% nothing %> <% %>", "<% nothing %> <%  %>"),
        ("a<%! note %>b", "ab"),
        ("a<%& $parameters.epochs %><%{ $parameters.epochs }%><%> part %>b", "ab"),
        ("a<%# $parameters.epochs %>inner <% $parameters.epochs %><%/ $parameters.epochs %>b", "ab"),
        ("a\n <% $parameters.epochs %> \nb", "a\n 10 \nb"),
        ("{{ $parameters.epochs }} {% if x %} %>", "{{ $parameters.epochs }} {% if x %} %>"),
        (" \ufeff\u2028 run \n", "run"),
        ("\x1crun\x85", "\x1crun\x85"),
        ("", ""),
    ],
)
def test_a_command_is_rendered_as_1_8_renders_it(command, text):
    """Each expectation was seen on the rest-server's own code (mustache 2.3.2)."""
    assert rendered(command) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (-5, "-5"),
        (-0.0, "0"),
        (0.1, "0.1"),
        (1.5e300, "1.5e+300"),
        (1e21, "1e+21"),
        (1e20, "100000000000000000000"),
        (123456789012345680000, "123456789012345680000"),
        (2**53 + 1, "9007199254740992"),
        (10**400, "Infinity"),
        (-(10**400), "-Infinity"),
        (1e-6, "0.000001"),
        (1.5e-7, "1.5e-7"),
        (-1e-7, "-1e-7"),
        (12.25, "12.25"),
        ("", ""),
        ([], ""),
        ([True, [1, [None, {}]]], "true,1,,[object Object]"),
        ({}, "[object Object]"),
    ],
)
def test_a_value_becomes_the_text_that_javascript_makes_of_it(value, text):
    """Numbers, truth values, lists and mappings are written as JavaScript writes them."""
    assert rendered("x<% $parameters.v %>x", parameters={"v": value}) == f"x{text}x"


def test_commands_are_trimmed_and_joined_by_newline():
    """Each command loses the white space around it, none is left out."""
    assert rendered(" a ", "", "b\n") == "a\n\nb"


def test_the_default_deployment_stands_around_the_commands():
    """Its preCommands come first, its postCommands last, only in the roles that it names."""
    deployments = [
        {"name": "other", "taskRoles": {"worker": {"preCommands": ["no"]}}},
        {"name": "prod", "taskRoles": {"worker": {"preCommands": [" p "], "postCommands": ["q", "r"]}}},
    ]
    assert rendered("a", deployments=deployments, defaults={"deployment": "prod"}) == "p\na\nq\nr"
    assert rendered("a", deployments=deployments, defaults={}) == "a"


def test_a_role_sees_only_the_prerequisites_that_it_names():
    """``$data`` is the data of the role, not of the job."""
    document = with_commands("<% $data.name %>")
    del document["taskRoles"]["worker"]["data"]
    assert entrypoints(document) == {"worker": "<% $data.name %>"}


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("x <% $parameters.epochs", "'%>' is missing: the tag <% $parameters.epochs is not closed"),
    ],
)
def test_a_tag_that_the_server_fails_on_is_an_error(command, message):
    """The rest-server answers 500 to these; nothing can be rendered."""
    with pytest.raises(SpecError) as caught:
        rendered("ok", command)
    assert [str(problem) for problem in caught.value.problems] == [
        f"taskRoles.worker.commands: {message}; the server answers 500"
    ]
    (problem,) = problems("ok", command)
    assert problem == "taskRoles.worker.commands[1]: has '<%' without '%>' after it; the server answers 500"


def test_a_tag_may_span_two_commands():
    """The server joins before it parses."""
    assert rendered("echo <% $parameters", ".epochs %>") == "echo <% $parameters\n.epochs %>"
    assert rendered("echo <%", "$parameters.epochs %>") == "echo 10"


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
    assert rendered(f"{before}|<% $parameters.v %>|", parameters={"v": value}) == f"{before}|{value}|".strip(
        SPACES
    )


# ---------------------------------------------------------------- secrets


def test_the_runtime_fills_in_secrets():
    """By key and by index; a reference that leads nowhere becomes nothing, as every other one."""
    secrets = {"key": "a'b\"<&>%\nc", "list": ["x", {"k": "v"}], "n": 5, "yes": True}
    assert fill_secrets("[<% $secrets.key %>]", secrets) == "[a'b\"<&>%\nc]"
    assert fill_secrets("<%$secrets.list[1].k%> <% $secrets.list.0 %> <% $secrets.n %>", secrets) == "v x 5"
    assert fill_secrets("[<% $secrets.nope %><% $parameters.x %><% $secrets.key.x %>]", secrets) == "[]"
    assert fill_secrets("<% $secrets.yes %>", secrets) == "True"


@pytest.mark.parametrize("secrets", [None, {}])
def test_without_secrets_a_command_is_left_alone(secrets):
    """The runtime then looks at nothing."""
    assert fill_secrets("<% $secrets.key %>", secrets) == "<% $secrets.key %>"


def test_a_secret_is_not_read_as_a_template():
    """A value that looks like a reference stays one."""
    assert fill_secrets("<% $secrets.a %>", {"a": "<% $secrets.b %>", "b": "x"}) == "<% $secrets.b %>"


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
    assert masked({"name": "x"}) == {"name": "x"}


def test_mask_hides_secrets_in_a_text():
    """Longer ones first, numbers too; what is no secret stays."""
    document = {
        "secrets": {"a": "ab", "b": "abc", "pin": 1234, "empty": "", "none": None},
        "prerequisites": [{"auth": {"password": "pw!", "username": "<% $secrets.a %>"}}],
    }
    assert (
        mask("abc ab 1234 pw! <% $secrets.a %>", document) == "****** ****** ****** ****** <% $secrets.a %>"
    )
    assert mask("abc", {}) == "abc"


# ---------------------------------------------------------------- references


def test_references_come_with_where_they_stand():
    """Commands, accounts of images, parameters of plugins."""
    document = with_commands("a <% $data.uri[0] %>", "<%# s %><%/ s %>")
    document["prerequisites"][0]["auth"] = {"password": "<% $secrets.key %>"}
    document["extras"] = {
        PLUGIN: [{"plugin": "ssh", "parameters": {"userssh": {"value": "<% $secrets.key %>"}}}]
    }
    assert references(document) == [
        Reference(("taskRoles", "worker", "commands", 0), "$data.uri[0]", role="worker"),
        Reference(("taskRoles", "worker", "commands", 1), "s", role="worker", kind="#"),
        Reference(("prerequisites", 0, "auth", "password"), "$secrets.key"),
        Reference(
            ("extras", PLUGIN, 0, "parameters", "userssh", "value"),
            "$secrets.key",
            role="worker",
            plugin=True,
        ),
    ]


NOTHING = "servers accept it, and fill in nothing of use"
MAPPING = "it is a mapping, or a list with one in it, not a text"
TASKS_FAIL = "servers accept it, and every task fails when it starts"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("<% $parameters.epoch %>", "there is no epoch in $parameters (did you mean 'epochs'?)"),
        (
            "<% $parameters.x %>",
            "there is no x in $parameters (known: 'epochs', 'rate', 'names', 'nothing', 'deep')",
        ),
        ("<% $parameters.deep.err %>", "there is no err in $parameters.deep (did you mean 'er'?)"),
        ("<% $parameters.names[3] %>", "$parameters.names has 3 entries, counted from 0"),
        ("<% $parameters.epochs.x %>", "$parameters.epochs has no parts"),
        ("<% $parameters.nothing %>", "it is null"),
        ("<% $secrets %>", MAPPING),
        ("<% $parameters.deep %>", MAPPING),
        ("<% $data %>", MAPPING),
        ("<% $secrets.kye %>", "there is no kye in $secrets (did you mean 'key'?)"),
        ("<% $secrets.keys[2] %>", "$secrets.keys has 2 entries, counted from 0"),
        ("<% $secrets.keys.length %>", "$secrets.keys has 2 entries, counted from 0"),
        ("<% $secrets.key[0] %>", "$secrets.key has no parts"),
        ("<% $data.uri[2] %>", "$data.uri has 2 entries, counted from 0"),
        ("<% $script.url %>", "there is no url in $script (did you mean 'uri'?)"),
    ],
)
def test_a_reference_that_leads_nowhere_is_found(command, message):
    """What it misses, what was probably meant, and what would become of it."""
    name = command.strip("<%> ")
    assert problems("ok", command) == [f"taskRoles.worker.commands[1]: <% {name} %>: {message}; {NOTHING}"]
    assert {problem.level for problem in reference_problems(with_commands(command))} == {Level.STRICTER}


def test_a_reference_in_a_job_without_parameters_or_data_is_explained():
    """There is nothing that a nearest name could come from."""
    document = with_commands("<% $parameters.x %>", "<% $data.name %>", "<% $secrets.x %>")
    del document["parameters"]
    del document["secrets"]
    del document["taskRoles"]["worker"]["data"]
    assert [str(problem) for problem in reference_problems(document)] == [
        f"taskRoles.worker.commands[0]: <% $parameters.x %>: the job has no parameters; {NOTHING}",
        f"taskRoles.worker.commands[1]: <% $data.name %>: the role worker has no data; {NOTHING}",
        f"taskRoles.worker.commands[2]: <% $secrets.x %>: the job has no secrets; {NOTHING}",
    ]


def test_a_tag_that_refers_to_nothing_known_is_found():
    """With a hint where one is near; a stranger's tag that stays as it is only warns."""
    known = "there are $parameters, $secrets, $script, $output, $data"
    assert problems("<% parameters.epochs %>", "<% x %>") == [
        "taskRoles.worker.commands[0]: <% parameters.epochs %> refers to nothing, did you mean $parameters; "
        + NOTHING,
        f"taskRoles.worker.commands[1]: <% x %> refers to nothing, {known}; {NOTHING}",
    ]
    (problem,) = reference_problems(with_commands("<% x %>"))
    assert problem.level is Level.WARNING


def test_tags_that_servers_drop_are_found():
    """Sections, partials and unescaped names vanish from the command; comments are meant to."""
    (problem,) = problems("<%& $parameters.epochs %><%! fine %>")
    assert problem.endswith(
        "the tag <%& $parameters.epochs %> is no reference; servers remove what it encloses"
    )


def test_an_account_may_refer_to_secrets_only():
    """The rest-server fills nothing else into an image's auth."""
    document = with_commands("ok")
    document["prerequisites"][0]["auth"] = {
        "username": "<% $parameters.epochs %>",
        "password": "<% $secrets.kex %>",
        "registryuri": "<% $secrets.key",
    }
    assert [str(problem) for problem in reference_problems(document)] == [
        f"prerequisites[0].auth.username: <% $parameters.epochs %>: only $secrets can stand here; {NOTHING}",
        (
            "prerequisites[0].auth.password: <% $secrets.kex %>: there is no kex in $secrets "
            f"(did you mean 'key'?); {NOTHING}"
        ),
        "prerequisites[0].auth.registryuri: has '<%' without '%>' after it; the server answers 500",
    ]


@pytest.mark.parametrize("value", ["<% hunter2 %>", "<%# hunter2 %><%/ hunter2 %>", "a<%& hunter2 %>"])
def test_a_strange_tag_in_an_account_is_found_and_not_shown(value):
    """It may be a part of a password."""
    document = with_commands("ok")
    document["prerequisites"][0]["auth"] = {"password": value}
    assert {str(problem) for problem in reference_problems(document)} == {
        f"prerequisites[0].auth.password: has a tag that refers to no secret; {NOTHING}"
    }


def test_references_of_plugins_must_be_strings():
    """The runtime replaces text by text, and fails on anything else."""
    document = with_commands("ok")
    document["prerequisites"][1] |= {
        "plugin": f"{PLUGIN}.cmd",
        "callbacks": [
            {"event": "taskStarts", "commands": ["<% $parameters.epochs %>", "<% $data.uri[0] %>"]}
        ],
    }
    document["taskRoles"]["worker"]["prerequisites"] = ["code"]
    document["extras"] = {
        PLUGIN: [{"plugin": "ssh", "taskroles": ["worker"], "parameters": {"a": "<% $secrets.b %>"}}]
    }
    assert [str(problem) for problem in reference_problems(document)] == [
        (
            "prerequisites[1].callbacks[0].commands[0]: <% $parameters.epochs %>: in the parameters of a "
            "plugin it must "
            f"be a string, in quotes; {TASKS_FAIL}"
        ),
        (
            f'extras["{PLUGIN}"][0].parameters.a: <% $secrets.b %>: '
            f"there is no b in $secrets (known: 'key', 'keys'); {TASKS_FAIL}"
        ),
    ]


def test_a_value_of_a_secret_is_never_in_a_problem():
    """Keys are shown, values are not."""
    document = with_commands("<% $secrets.hunter %>", "<% $secrets.key.x %>", "<% $secrets.keys[9] %>")
    assert "hunter2" not in " ".join(map(str, reference_problems(document)))


@pytest.mark.parametrize("tag", ["<% $a{}x", "<%= {}x", "<%{{ a{}x", "<% $a{}%>"])
def test_a_tag_with_many_blanks_is_soon_read(tag):
    """They are looked at once, not once from each of them."""
    begun = time.thread_time()
    with contextlib.suppress(TemplateError):
        parse(tag.format(" " * 60_000))
    assert time.thread_time() - begun < 1
