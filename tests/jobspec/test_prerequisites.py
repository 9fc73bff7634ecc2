"""Prerequisites come in the order in which they need each other; no release of the server sees to it."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from job_cases import cases, changed
from job_files import NOT_READ, parameters

from luigi_pai.errors import Level, SpecError
from luigi_pai.jobspec.dialects.yaml_text import read_yaml
from luigi_pai.jobspec.templates.prerequisites import prerequisite_findings, resolve
from luigi_pai.jobspec.validate_protocol import validate_protocol

CASES = cases("prerequisites")

CMD = "com.microsoft.pai.runtimeplugin.cmd"


def prerequisite_problems(document):
    return [finding.as_problem() for finding in prerequisite_findings(document)]


def protocol(roles, **requires):
    """Return a protocol with one script a name, and roles with the prerequisites that are given."""
    return {
        "name": "job",
        "prerequisites": [
            {"name": name, "type": "script", **({"require": needs} if needs else {})}
            for name, needs in requires.items()
        ],
        "taskRoles": {role: {"prerequisites": names} for role, names in roles.items()},
    }


def order(document, role="w"):
    return resolve(document)["taskRoles"][role]["prerequisites"]


def with_callbacks(*commands, event="taskStarts", **fields):
    callbacks = [{"event": event, "commands": list(commands)}]
    prerequisite = {"name": "p", "type": "script", "plugin": CMD, **fields, "callbacks": callbacks}
    return {"name": "job", "prerequisites": [prerequisite], "taskRoles": {"w": {"prerequisites": ["p"]}}}


# ---------------------------------------------------------------- order


@pytest.mark.parametrize(("written", "requires", "expected"), CASES["order"])
def test_what_is_required_comes_first_and_once(written, requires, expected):
    assert order(protocol({"w": written}, **requires)) == expected


def test_each_role_gets_what_its_own_need():
    document = protocol({"w": ["a"], "v": ["c"]}, a=["b"], b=[], c=["b"])
    assert (order(document, "w"), order(document, "v")) == (["b", "a"], ["b", "c"])


def test_a_chain_may_be_long():
    requires = {f"p{n}": [f"p{n + 1}"] for n in range(5000)}
    assert order(protocol({"w": ["p0"]}, **requires, p5000=[]))[0] == "p5000"


@pytest.mark.slow
@settings(deadline=None, database=None, max_examples=60)
@given(st.data())
def test_every_prerequisite_follows_what_it_requires(data):
    names = [f"p{n}" for n in range(6)]
    requires = {
        name: data.draw(st.lists(st.sampled_from(names[:at]), max_size=3)) if at else []
        for at, name in enumerate(names)
    }
    written = data.draw(st.lists(st.sampled_from(names), max_size=6, unique=True))
    document = protocol({"w": written}, **requires)
    given_document = copy.deepcopy(document)
    ordered = order(document)
    assert document == given_document
    assert len(set(ordered)) == len(ordered)
    assert set(written) <= set(ordered)
    for at, name in enumerate(ordered):
        assert set(requires[name]) <= set(ordered[:at])
    assert order(resolve(document)) == ordered
    if not any(requires[name] for name in written):
        assert ordered == written


@pytest.mark.parametrize(
    "file",
    parameters(
        "v2",
        lambda file: file.accepted("v1.8.0") and "require:" not in file.text and file.name not in NOT_READ,
    ),
)
def test_a_protocol_without_require_has_nothing_to_resolve(file):
    document = read_yaml(file.text, lenient=True).value
    assert resolve(document) == document
    assert prerequisite_problems(document) == []


def test_require_itself_and_all_other_keys_stay():
    document = protocol({"w": ["a"]}, a=["b"], b=[])
    document["prerequisites"][0] |= {"failurePolicy": "ignore", "plugin": "x", "further": {"k": 1}}
    assert resolve(document)["prerequisites"] == document["prerequisites"]


@pytest.mark.parametrize("document", CASES["passed_over"])
def test_what_the_schema_refuses_is_passed_over(document):
    assert resolve(document) == document
    assert prerequisite_problems(document) == []


# ---------------------------------------------------------------- refused


@pytest.mark.parametrize(("requires", "message"), CASES["refused"])
def test_a_circle_an_unknown_name_and_an_image_are_refused(requires, message):
    document = protocol({"w": ["a"]}, **requires)
    document["prerequisites"].append({"name": "image", "type": "dockerimage", "uri": "ubuntu"})
    assert [str(problem) for problem in prerequisite_problems(document)] == [message]
    with pytest.raises(SpecError, match="job 'job' was not submitted") as caught:
        resolve(document)
    assert list(map(str, caught.value.problems)) == [message]


def test_a_name_of_two_types_means_the_last():
    document = protocol({"w": ["a"]}, a=["b"], b=[])
    document["prerequisites"].append({"name": "b", "type": "data", "require": ["c"]})
    document["prerequisites"].append({"name": "c", "type": "script"})
    assert order(document) == ["c", "b", "a"]


# ---------------------------------------------------------------- callbacks


@pytest.mark.parametrize(("fields", "expected"), CASES["sent"])
def test_what_is_sent_of_a_prerequisite(fields, expected):
    """Events have the names of releases, callbacks a plugin, and ``this`` is known in the URI."""
    document = changed(with_callbacks("echo"), {f"prerequisites[0].{key}": fields[key] for key in fields})
    (sent,) = resolve(document)["prerequisites"]
    assert {key: sent[key] for key in expected} == expected


@pytest.mark.parametrize(("fields", "role", "expected"), CASES["not_run"])
def test_commands_that_do_not_run_are_warned_of(fields, role, expected):
    """A callback for the end does not run after a failure, as that of the proposal would."""
    document = with_callbacks("echo", **fields)
    document["taskRoles"] = {"w": role}
    problems = [problem for problem in validate_protocol(document) if ".callbacks" in problem.path]
    found = [[problem.level.value, str(problem)] for problem in problems]
    assert found == expected


@pytest.mark.parametrize(("callback", "commands", "lost"), CASES["variables"])
def test_a_variable_of_a_callback_does_not_reach_the_commands(callback, commands, lost):
    """They run in another shell; the task would end with an unbound variable."""
    document = with_callbacks(callback)
    role = next(iter(document["taskRoles"].values()))
    role["commands"] = commands
    found = [problem for problem in prerequisite_problems(document) if "unbound variable" in problem.message]
    assert [problem.path for problem in found] == ["prerequisites[0].callbacks[0].commands[0]"] * lost


@pytest.mark.parametrize(("callbacks", "message"), CASES["callbacks"])
def test_callbacks_that_the_runtime_cannot_read_are_refused(callbacks, message):
    document = with_callbacks()
    document["prerequisites"][0]["callbacks"] = callbacks
    (problem,) = (each for each in validate_protocol(document) if ".callbacks" in each.path)
    assert message in str(problem)
    assert problem.level is Level.STRICTER
    assert "servers accept it" in problem.message


# ---------------------------------------------------------------- this


@pytest.mark.parametrize(("command", "expected"), CASES["this"])
def test_this_is_the_prerequisite_itself(command, expected):
    own = {"url": "https://x/y.zip", "n": 3, "flag": True, "list": ["a", "b"], "map": {"k": "v"}}
    document = with_callbacks(command, **own)
    (sent,) = resolve(document)["prerequisites"]
    assert sent["callbacks"][0]["commands"] == [expected or command]
    assert sent == {**document["prerequisites"][0], "callbacks": sent["callbacks"]}


@pytest.mark.parametrize(("command", "message"), CASES["nowhere"])
def test_a_reference_that_leads_nowhere_is_refused(command, message):
    document = with_callbacks(command, url="u", list=["a"], again="<% this.parameters.url %>")
    (problem,) = prerequisite_problems(document)
    assert problem.path == "prerequisites[0].callbacks[0].commands[0]"
    assert message in problem.message
    assert problem.level is Level.STRICTER
    with pytest.raises(SpecError):
        resolve(document)
