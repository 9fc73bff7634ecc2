"""Validation of job protocols: every rule with the path, the level and the words that a user reads."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from luigi_pai.errors import Level, Problem, SpecError
from luigi_pai.jobspec.dialects.yaml_text import read_yaml, write_yaml
from luigi_pai.jobspec.paths import path_text
from luigi_pai.jobspec.protocol import JobProtocol
from luigi_pai.jobspec.validate_protocol import check_protocol, refused, validate_protocol

REFUSED, STRICTER, WARNING = Level.REFUSED, Level.STRICTER, Level.WARNING
PLUGIN = "com.microsoft.pai.runtimeplugin"
PLUGINS = f'extras["{PLUGIN}"]'
GONE = object()  # in place of a value: the field is left out

GOOD: dict[str, Any] = {
    "protocolVersion": 2,
    "name": "train-1_A",
    "type": "job",
    "version": 1.5,
    "contributor": "me",
    "description": "x",
    "prerequisites": [
        {
            "name": "image",
            "type": "dockerimage",
            "uri": "python:3",
            "auth": {"username": "me", "password": "<% $secrets.key %>", "registryuri": "r.example"},
        },
        {
            "name": "code",
            "type": "script",
            "uri": "https://code",
            "plugin": f"{PLUGIN}.cmd",
            "failurePolicy": "ignore",
            "callbacks": [{"event": "taskStarts", "commands": ["git clone <% $data.uri[0] %>"]}],
            "anything": 1,
        },
        {"name": "digits", "type": "data", "uri": ["https://a"], "version": "1"},
        {"name": "model", "type": "output", "uri": "/out"},
    ],
    "parameters": {"epochs": 10},
    "secrets": {"key": "hunter2"},
    "jobRetryCount": 0,
    "taskRoles": {
        "worker": {
            "instances": 2,
            "completion": {"minFailedInstances": -1, "minSucceededInstances": 2},
            "taskRetryCount": 1,
            "prerequisites": ["code"],
            "dockerImage": "image",
            "data": "digits",
            "output": "model",
            "script": "code",
            "extraContainerOptions": {"shmMB": 100, "infiniband": True},
            "resourcePerInstance": {"cpu": 1, "memoryMB": 100, "gpu": 0, "ports": {"web_1": 1}},
            "commands": ["run <% $parameters.epochs %>"],
        },
        "ps": {
            "instances": 1,
            "completion": {"minFailedInstances": None, "minSucceededInstances": None},
            "dockerImage": "image",
            "resourcePerInstance": {"cpu": 1, "memoryMB": 100, "gpu": 1},
            "commands": ["serve"],
        },
    },
    "deployments": [
        {"name": "prod", "taskRoles": {"worker": {"preCommands": ["a"], "postCommands": ["b"]}}},
        {"name": "test", "taskRoles": {"ps": {"preCommands": ["a"]}}},
    ],
    "defaults": {"virtualCluster": "default", "deployment": "prod"},
    "extras": {
        PLUGIN: [
            {"plugin": "ssh", "taskroles": ["worker"], "parameters": {"jobssh": False, "userssh": {}}},
            {"plugin": "tensorboard"},
            {"plugin": "git", "parameters": {"repo_uri": "https://x"}, "failurePolicy": "fail"},
            {"plugin": "cmd", "parameters": {"preCommands": ["x"], "postCommands": ["y"]}},
        ],
        "storages": [{"name": "nfs", "mountPath": "/mnt/a", "share": False}, {"name": "blob"}],
        "gangAllocation": False,
        "hivedScheduler": {
            "jobPriorityClass": "prod",
            "taskRoles": {"worker": {"skuType": None, "skuNum": 1}},
        },
        "jobStatusChangeNotification": {"running": True},
        "tensorBoard": {"x": 1},
        "submitFrom": "here",
    },
}
W = ("taskRoles", "worker")
NAME = "a name of 1 to 255 letters, digits, '-' and '_'"
ROLE = "a name of letters, digits and '_', no digit first"
FAILS = "servers accept it, and every task fails when it starts"
HIVED = "servers without HiveD accept it, those with it refuse it"
BRIEF_RESOURCE = "servers accept it, and 0 reserves nothing for the task, less gives no container"
NO_CONTAINER = "servers accept it, and Kubernetes makes no container of it"
CALLBACK_FAILS = "the server accepts it, and the task fails when it starts"
NEVER = "servers accept it, and it is never reached: write -1 for never"
COUNTS = "an integer from 1 to instances, or -1 for never; servers accept it, and read 0 as"
MISREAD = (
    "has line breaks, backslashes or both kinds of quotes; servers accept it, and their runtime misreads "
    "such a text in a plugin's parameters: write each line as a command of its own, use one kind of quotes, "
    "or call a script"
)
ROLE_FIELDS = (
    "there are protocolVersion, instances, completion, taskRetryCount, prerequisites, dockerImage, data, "
    "output, "
    "script, extraContainerOptions, resourcePerInstance, commands"
)


def with_value(path: tuple[str | int, ...], value: object) -> dict[str, Any]:
    """Return the good protocol with another value at a path, or without it."""
    document = copy.deepcopy(GOOD)
    place: Any = document
    for step in path[:-1]:
        place = place[step]
    if value is GONE:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return document


def found(document: object, **options: Any) -> list[tuple[Level, str]]:
    return [(problem.level, str(problem)) for problem in validate_protocol(document, **options)]


def test_a_good_protocol_has_no_problem():
    """Every field at the edge of what is allowed is allowed, by every release that knows them."""
    assert found(GOOD) == []
    assert found(GOOD, release="1.8.0") == []
    assert found(GOOD, release="1.6.0") == []


# ---------------------------------------------------------------- one rule each

# path of the wrong value, the value, the level, the message at that path
RULES: list[tuple[tuple[str | int, ...], object, Level, str]] = [
    (("protocolVersion",), 1, REFUSED, "1 is not 2"),
    (("protocolVersion",), GONE, REFUSED, "is missing; it must be 2"),
    *[(("name",), bad, REFUSED, f"{bad!r} is not {NAME}") for bad in ("", "a b", "a.b", "a~b", "a\n", 7)],
    (("name",), "n" * 256, REFUSED, f"'{'n' * 79}... is not {NAME}"),
    (("name",), None, REFUSED, f"null is not {NAME}"),
    (("type",), "task", REFUSED, "'task' is not 'job'"),
    (("version",), True, REFUSED, "true is not a string or a number"),
    (("contributor",), 1, REFUSED, "1 is not a string"),
    (("parameters",), [1], REFUSED, "a list is not a mapping of parameters"),
    (("secrets",), "hunter2", REFUSED, "a value of type str is not a mapping of secrets"),
    (("jobRetryCount",), -1, REFUSED, "-1 is not an integer of at least 0"),
    (("jobRetryCount",), 1.5, REFUSED, "1.5 is not an integer of at least 0"),
    (("extra",), {}, REFUSED, "is not a field here; did you mean extras?"),
    # prerequisites
    (("prerequisites", 0, "uri"), GONE, REFUSED, "is missing; it must be the name of a Docker image"),
    (("prerequisites", 0, "uri"), 3, REFUSED, "3 is not the name of a Docker image"),
    (
        ("prerequisites", 0, "plugin"),
        "x",
        REFUSED,
        (
            "is not a field here; there are name, type, uri, auth, protocolVersion, version, contributor, "
            "description"
        ),
    ),
    (("prerequisites", 0, "auth", "password"), 1234, REFUSED, "a value of type int is not a string"),
    (
        ("prerequisites", 0, "auth"),
        "hunter2",
        REFUSED,
        "a value of type str is not a mapping with username, password and registryuri",
    ),
    (
        ("prerequisites", 0, "auth", "realm"),
        1234,
        REFUSED,
        "a value of type int is not a string; the server answers 500",
    ),
    (
        ("prerequisites", 3, "uri"),
        ["x"],
        REFUSED,
        "a list is not a URI: a string; a comma behind the value, or brackets, make it a list",
    ),
    (("prerequisites", 1, "plugin"), 1, REFUSED, "1 is not the name of a runtime plugin"),
    (
        ("prerequisites", 1, "plugin"),
        f"{PLUGIN}.cdm",
        STRICTER,
        (
            f"'{PLUGIN}.cdm' is not a plugin of the runtime ({PLUGIN}. and cmd, git, ssh, tensorboard or "
            "teamwise_storage); servers accept it, and it does not run, or every task fails when it starts"
        ),
    ),
    (("prerequisites", 1, "require"), "x", REFUSED, "'x' is not a list of names"),
    (
        ("prerequisites", 1, "failurePolicy"),
        "warn",
        STRICTER,
        "'warn' is not fail or ignore; servers accept it, and the runtime reads it as fail or ends",
    ),
    (
        ("prerequisites", 3, "failurepolicy"),
        "ignore",
        WARNING,
        "is not a field that is known here; did you mean failurePolicy? Servers accept it and ignore it",
    ),
    # task roles
    (
        (*W, "dockerImage"),
        GONE,
        REFUSED,
        "is missing; it must be the name of a prerequisite of type dockerimage",
    ),
    (
        (*W, "dockerImage"),
        "imag",
        REFUSED,
        "there is no prerequisite 'imag' of type dockerimage (did you mean 'image'?)",
    ),
    (
        (*W, "dockerImage"),
        "digits",
        REFUSED,
        "there is no prerequisite 'digits' of type dockerimage (known: 'image')",
    ),
    ((*W, "output"), "x", REFUSED, "there is no prerequisite 'x' of type output (known: 'model')"),
    ((*W, "command"), "x", REFUSED, "is not a field here; did you mean commands?"),
    ((*W, "zzz"), "x", REFUSED, f"is not a field here; {ROLE_FIELDS}"),
    ((*W, "commands"), [], REFUSED, "an empty list is not a list of at least one command"),
    ((*W, "commands", 0), 7, REFUSED, "7 is not a command: a string"),
    ((*W, "instances"), 0, REFUSED, "0 is not an integer of at least 1"),
    (
        (*W, "instances"),
        10001,
        STRICTER,
        "10001 is not an integer from 1 to 10000; servers accept it, and the job never starts",
    ),
    (
        ("taskRoles", "ps", "instances"),
        GONE,
        STRICTER,
        (
            "is missing; it must be an integer of at least 1; servers accept a role without it, and 1.8 "
            "answers 500"
        ),
    ),
    (
        (*W, "completion", "minSucceededTaskCount"),
        1,
        REFUSED,
        "is not a field here; did you mean minSucceededInstances?",
    ),
    (
        (*W, "completion", "minFailedInstances"),
        "1",
        REFUSED,
        "'1' is not an integer from 1 to instances, or -1 for never; write 1 without quotes",
    ),
    (
        (*W, "completion", "minFailedInstances"),
        0,
        STRICTER,
        f"0 is not {COUNTS} 1, and start no job with less than -1",
    ),
    (
        (*W, "completion", "minSucceededInstances"),
        -2,
        STRICTER,
        f"-2 is not {COUNTS} instances, and start no job with less than -1",
    ),
    ((*W, "completion", "minFailedInstances"), 3, STRICTER, f"3 is more than instances, 2; {NEVER}"),
    (
        (*W, "extraContainerOptions", "shmMB"),
        "1",
        REFUSED,
        "'1' is not an integer of at least 0 (MB); write 1 without quotes",
    ),
    (
        (*W, "extraContainerOptions", "shmMB"),
        -1,
        STRICTER,
        f"-1 is not an integer of at least 0 (MB); {NO_CONTAINER}",
    ),
    (
        (*W, "extraContainerOptions", "shmMB"),
        101,
        WARNING,
        "101 is more than memoryMB, 100; shared memory is part of it, and a task that uses so much is killed",
    ),
    (
        (*W, "extraContainerOptions", "infiniband"),
        "false",
        STRICTER,
        "'false' is not true or false; servers accept it, and read any text but the empty one as true",
    ),
    (
        (*W, "extraContainerOptions", "additionalProperties"),
        1,
        REFUSED,
        "'additionalProperties' is not a field that servers accept here",
    ),
    ((*W, "resourcePerInstance", "gpu"), GONE, REFUSED, "is missing; it must be an integer of at least 0"),
    ((*W, "resourcePerInstance", "memory"), 1, REFUSED, "is not a field here; did you mean memoryMB?"),
    ((*W, "resourcePerInstance", "cpu"), 0, STRICTER, f"0 is not an integer of at least 1; {BRIEF_RESOURCE}"),
    (
        ("taskRoles", "ps", "resourcePerInstance", "memoryMB"),
        0,
        STRICTER,
        f"0 is not an integer of at least 1 (MB); {BRIEF_RESOURCE}",
    ),
    ((*W, "resourcePerInstance", "gpu"), -1, STRICTER, f"-1 is not an integer of at least 0; {NO_CONTAINER}"),
    (
        (*W, "resourcePerInstance", "ports"),
        {},
        REFUSED,
        "an empty mapping is not a mapping of at least one label to a number of ports",
    ),
    (
        (*W, "resourcePerInstance", "ports", "a-b"),
        1,
        REFUSED,
        "'a-b' is not a label of letters, digits and '_', no digit first",
    ),
    (
        (*W, "resourcePerInstance", "ports", "web_1"),
        0,
        STRICTER,
        "0 is not how many ports, an integer of at least 1; servers accept it, and reserve none",
    ),
    (
        (*W, "resourcePerInstance", "ports"),
        [1],
        STRICTER,
        (
            "a list is not a mapping of at least one label to a number of ports; servers accept it, and name "
            "the ports 0, "
            "1 and so on"
        ),
    ),
    # deployments and defaults
    (
        ("deployments", 1, "taskRoles", "ps", "preCommands"),
        [],
        REFUSED,
        "an empty list is not a list of at least one command",
    ),
    (
        ("deployments", 1, "taskRoles", "pss"),
        {"preCommands": ["a"]},
        STRICTER,
        "there is no task role 'pss' (did you mean 'ps'?); servers accept it, and its commands never run",
    ),
    (("defaults", "deployment"), "prd", REFUSED, "there is no deployment 'prd' (did you mean 'prod'?)"),
    (
        ("defaults", "virtualCluster"),
        7,
        STRICTER,
        "7 is not the name of a virtual cluster; servers accept it, and then find no such cluster",
    ),
    # extras
    (
        ("extras", "storages", 1, "name"),
        GONE,
        STRICTER,
        "is missing; it must be the name of a storage of the cluster; servers accept it, and mount nothing",
    ),
    (
        ("extras", "storages", 1, "name"),
        "nfs",
        STRICTER,
        f"'nfs' is the name of storages[0] too; {NO_CONTAINER}",
    ),
    (
        ("extras", "storages", 1, "mountPath"),
        "/mnt/a",
        STRICTER,
        f"'/mnt/a' is the mountPath of storages[0] too; {NO_CONTAINER}",
    ),
    (
        ("extras", "storages", 0, "mountPath"),
        "data",
        STRICTER,
        f"'data' is not a path from the root, without ':'; {NO_CONTAINER}",
    ),
    (
        ("extras", "storages", 1, "mountpath"),
        "/x",
        WARNING,
        "is not a field that is known here; did you mean mountPath? Servers accept it and ignore it",
    ),
    (
        ("extras", "hivedScheduler", "jobPriorityClass"),
        "high",
        STRICTER,
        f"'high' is not prod, test or oppo; {HIVED}",
    ),
    (
        ("extras", "hivedScheduler", "taskRoles", "w"),
        {},
        STRICTER,
        "there is no task role 'w' (known: 'worker', 'ps'); servers accept it, except those with HiveD",
    ),
    (
        ("extras", "jobStatusChangeNotification", "running"),
        "yes",
        WARNING,
        "'yes' is not true or false; servers accept it, and may tell nobody",
    ),
    # runtime plugins
    (
        ("extras", PLUGIN),
        {"plugin": "ssh"},
        STRICTER,
        (
            "a mapping is not a list of runtime plugins; servers accept it or answer 500, and every task "
            "fails when it "
            "starts"
        ),
    ),
    (
        ("extras", PLUGIN, 1, "plugin"),
        "shh",
        STRICTER,
        f"'shh' is not a plugin of the runtime (cmd, git, ssh, tensorboard, teamwise_storage); {FAILS}",
    ),
    (
        ("extras", PLUGIN, 1, "plugin"),
        GONE,
        STRICTER,
        (
            "is missing; it must be the name of a runtime plugin (cmd, git, ssh, tensorboard, "
            f"teamwise_storage); {FAILS}"
        ),
    ),
    (
        ("extras", PLUGIN, 0, "taskroles", 0),
        "workers",
        STRICTER,
        (
            "there is no task role 'workers' (did you mean 'worker'?); servers accept it, and the plugin "
            "does not run for it"
        ),
    ),
    (
        ("extras", PLUGIN, 0, "taskroles"),
        "worker",
        STRICTER,
        "'worker' is not a list of names of task roles; servers accept it, and the plugin may not run",
    ),
    (
        ("extras", PLUGIN, 1, "taskRoles"),
        ["ps"],
        WARNING,
        "is not a field that is known here; did you mean taskroles? Servers accept it and ignore it",
    ),
    (
        ("extras", PLUGIN, 0, "parameters", "jobssh"),
        True,
        WARNING,
        "has no effect while extras.gangAllocation is false",
    ),
    (
        ("extras", PLUGIN, 0, "parameters", "jobssh"),
        "yes",
        STRICTER,
        "'yes' is not true or false; servers accept it, and read anything but true as false",
    ),
    (
        ("extras", PLUGIN, 0, "parameters", "sshbarrierTimeout"),
        "soon",
        STRICTER,
        "'soon' is not a number of minutes; servers accept it, and the barrier fails",
    ),
    (
        ("extras", PLUGIN, 2, "parameters", "repo_uri"),
        GONE,
        STRICTER,
        f"is missing; it must be the URI of a repository; {FAILS}",
    ),
    (
        ("extras", PLUGIN, 2, "parameters"),
        GONE,
        STRICTER,
        f"is missing; it must be a mapping with repo_uri; {FAILS}",
    ),
    (
        ("extras", PLUGIN, 3, "parameters", "preCommands"),
        "x",
        STRICTER,
        f"'x' is not a list of commands; {FAILS}",
    ),
    (
        ("extras", PLUGIN, 3, "parameters", "preCommands", 0),
        "one\ntwo",
        STRICTER,
        MISREAD,
    ),
    (
        ("extras", PLUGIN, 3, "parameters", "preCommands", 0),
        "echo \"a\" 'b'",
        STRICTER,
        MISREAD,
    ),
    # secrets
    (
        ("secrets", "other"),
        True,
        STRICTER,
        (
            "a value of type bool is not a string; servers accept it, and it arrives as Python writes it "
            "(True, None): put it in quotes"
        ),
    ),
]


@pytest.mark.parametrize(
    ("path", "value", "level", "message"),
    RULES,
    ids=[
        f"{path_text(path)}={'absent' if value is GONE else repr(value)[:20]}" for path, value, _, _ in RULES
    ],
)
def test_each_rule_has_its_path_level_and_message(path, value, level, message):
    """One wrong value gives one problem, at its path, in the words written here."""
    assert found(with_value(path, value)) == [(level, f"{path_text(path)}: {message}")]


@pytest.mark.parametrize(
    ("path", "value", "problems"),
    [
        (
            ("prerequisites", 3),
            "x",
            [
                (REFUSED, "prerequisites[3]: 'x' is not a prerequisite: a mapping with name and type"),
                (REFUSED, "taskRoles.worker.output: there is no prerequisite 'model' of type output"),
            ],
        ),
        (
            ("prerequisites", 3, "type"),
            "Output",
            [
                (REFUSED, "prerequisites[3].type: 'Output' is not dockerimage, script, data or output"),
                (REFUSED, "taskRoles.worker.output: there is no prerequisite 'model' of type output"),
            ],
        ),
        (
            ("prerequisites", 2, "uri"),
            "https://a",
            [
                (
                    STRICTER,
                    "prerequisites[1].callbacks[0].commands[0]: <% $data.uri[0] %>: $data.uri has no parts; "
                    + FAILS,
                ),
                (REFUSED, "prerequisites[2].uri: 'https://a' is not a list of URIs"),
            ],
        ),
        (
            ("taskRoles",),
            {},
            [
                (
                    WARNING,
                    (
                        "prerequisites[1].callbacks: these commands never run: no role has 'code' among its "
                        "prerequisites"
                    ),
                ),
                (REFUSED, "taskRoles: an empty mapping is not a mapping of at least one task role"),
            ],
        ),
        (
            ("taskRoles",),
            GONE,
            [
                (REFUSED, "taskRoles: is missing; it must be a mapping of at least one task role"),
                (
                    WARNING,
                    (
                        "prerequisites[1].callbacks: these commands never run: no role has 'code' among its "
                        "prerequisites"
                    ),
                ),
            ],
        ),
        (
            ("taskRoles", "ps", "commands", 0),
            " \n",
            [
                (
                    STRICTER,
                    "taskRoles.ps.commands: are blank; servers accept them, and every task ends at once",
                )
            ],
        ),
        (
            ("deployments", 0, "name"),
            GONE,
            [
                (REFUSED, f"deployments[0].name: is missing; it must be {NAME}"),
                (REFUSED, "defaults.deployment: there is no deployment 'prod' (known: 'test')"),
            ],
        ),
        (
            ("extras", "gangAllocation"),
            "false",
            [
                (
                    WARNING,
                    (
                        "taskRoles.worker.taskRetryCount: has no effect unless extras.gangAllocation is "
                        "false; "
                        "jobRetryCount retries the whole job"
                    ),
                ),
                (
                    STRICTER,
                    (
                        "extras.gangAllocation: 'false' is not true or false; servers accept it, and read "
                        "anything but "
                        "false as true"
                    ),
                ),
            ],
        ),
        (
            ("extras", PLUGIN, 1, "parameters"),
            {"logdir": {}, "port": 1},
            [
                (
                    STRICTER,
                    (
                        f"{PLUGINS}[1].parameters.logdir: an empty mapping is not a mapping of at least one "
                        "name to a "
                        "folder; servers accept it, and the first task fails when it starts"
                    ),
                )
            ],
        ),
        (
            ("extras", PLUGIN, 3, "parameters", "callbacks"),
            [],
            [
                (
                    STRICTER,
                    (
                        f"{PLUGINS}[3].parameters: a mapping is not one with either callbacks, or "
                        "preCommands and "
                        f"postCommands; {FAILS}"
                    ),
                )
            ],
        ),
        (
            ("extras", PLUGIN, 3, "parameters"),
            {"callbacks": [{"event": "containerStart", "commands": [1]}, {"event": "taskStarts"}]},
            [
                (
                    STRICTER,
                    (
                        f"{PLUGINS}[3].parameters.callbacks[0].event: 'containerStart' is not taskStarts or "
                        "taskSucceeds; "
                        "servers accept it, and its commands never run"
                    ),
                ),
                (
                    STRICTER,
                    (
                        f"{PLUGINS}[3].parameters.callbacks[0].commands[0]: 1 is not a command: a string; "
                        f"{FAILS}"
                    ),
                ),
                (
                    STRICTER,
                    (
                        f"{PLUGINS}[3].parameters.callbacks[1].commands: is missing; it must be a list of "
                        f"commands; {FAILS}"
                    ),
                ),
            ],
        ),
    ],
)
def test_a_wrong_value_may_be_wrong_for_others_too(path, value, problems):
    """What depends on the wrong value is told as well, in the order of the document."""
    assert found(with_value(path, value)) == problems


@pytest.mark.parametrize(
    ("path", "known", "wrong"),
    [
        (("defaults",), "virtualCluster", "virtualcluster"),
        (("extras",), "tensorBoard", "tensorboard"),
        (("extras",), "storages", "storage"),
        (("extras", PLUGIN, 0), "taskroles", "task_roles"),
        (("extras", PLUGIN, 0, "parameters"), "jobssh", "jobSsh"),
        ((*W, "extraContainerOptions"), "infiniband", "infiniBand"),
        ((*W, "extraContainerOptions"), "shmMB", "shmMb"),
        (("prerequisites", 0, "auth"), "registryuri", "registryURI"),
        (("extras", "jobStatusChangeNotification"), "running", "runing"),
    ],
)
def test_a_misspelt_field_where_servers_take_any_is_warned_of(path, known, wrong):
    """It would be ignored without a word."""
    document = with_value((*path, known), GONE)
    place: Any = document
    for step in path:
        place = place[step]
    place[wrong] = GOOD["prerequisites"][0]["auth"]["registryuri"]
    assert found(document) == [
        (
            WARNING,
            (
                f"{path_text((*path, wrong))}: is not a field that is known here; did you mean {known}? "
                "Servers accept it "
                "and ignore it"
            ),
        )
    ]


# ---------------------------------------------------------------- names


def test_names_are_unique_within_their_type():
    """Two prerequisites may share a name if their types differ; deployments may not."""
    document = copy.deepcopy(GOOD)
    document["prerequisites"] += [
        {"name": "image", "type": "dockerimage", "uri": "x"},
        {"name": "image", "type": "output", "uri": "x"},
    ]
    document["deployments"][1]["name"] = "prod"
    assert found(document) == [
        (
            REFUSED,
            "prerequisites[4].name: 'image' is the name of prerequisites[0], which is a dockerimage too",
        ),
        (REFUSED, "deployments[1].name: 'prod' is the name of deployments[0] too"),
    ]


@pytest.mark.parametrize("name", ["Worker", "p_s", "_", "r" * 64])
def test_servers_fold_names_of_roles_and_the_runtime_does_not_find_them(name):
    """A folded name becomes one of Kubernetes, of 1 to 63 letters and digits."""
    document = copy.deepcopy(GOOD)
    document["taskRoles"] |= {name: document["taskRoles"]["ps"], "r" * 63: document["taskRoles"]["ps"]}
    ((level, message),) = found(document)
    assert level is STRICTER
    assert message.startswith(
        f"taskRoles.{name}: {name!r} is not a name of 1 to 63 small letters and digits; "
    )


@pytest.mark.parametrize("name", ["a-b", "1a", "a b", "", "a\n"])
def test_names_of_roles_have_their_letters(name):
    """The same in taskRoles and in deployments."""
    document = copy.deepcopy(GOOD)
    document["taskRoles"][name] = document["taskRoles"]["ps"]
    (first, *_) = [problem for problem in validate_protocol(document) if problem.level is REFUSED]
    assert str(first) == f"{path_text(('taskRoles', name))}: {name!r} is not {ROLE}"


# ---------------------------------------------------------------- secrets


@pytest.mark.parametrize("value", ["a&b", "a<b", "a>b", 'a"b', "a'b"])
def test_secrets_that_the_runtime_would_escape_are_warned_of(value):
    """Only those used in a command: an account's secrets are filled in by the rest-server, as they are."""
    document = copy.deepcopy(GOOD)
    document["secrets"] = {"key": value, "used": [value, "plain"]}
    document["taskRoles"]["ps"]["commands"].append("<% $secrets.used[0] %>")
    assert found(document) == [
        (
            WARNING,
            (
                "secrets.used[0]: has one of the characters & < > \" ' and is used in a command: the runtime "
                "of releases 0.17 to 1.8 escapes them there as HTML (&amp; for &); encode the secret, with "
                "base64 for instance, and decode it in the command"
            ),
        )
    ]


@pytest.mark.parametrize("value", ["a/b`c=d", "%", "100% $x", "a\nb", 5])
def test_other_secrets_arrive_as_they_are(value):
    """The runtime escapes five characters and no more."""
    document = copy.deepcopy(GOOD)
    document["secrets"]["other"] = value
    document["taskRoles"]["ps"]["commands"].append("<% $secrets.other %>")
    assert found(document) == []


@pytest.mark.slow
@settings(deadline=None)  # machines of CI are busy
@given(st.sampled_from(["hunter2", ["hunter2"], {"k": "hunter2"}]), st.data())
def test_no_problem_shows_a_secret(value, data):
    """Wherever a secret's value ends up in the wrong type or place of secrets and auth, it is not "
    "repeated."""
    document = copy.deepcopy(GOOD)
    document["secrets"] = data.draw(st.sampled_from([value, {"key": value}, {"key": [value, True]}]))
    document["prerequisites"][0]["auth"] = data.draw(
        st.sampled_from([value, {"password": value}, {"x": value}, {"password": "<% hunter2"}])
    )
    document["name"] = "a b"
    document["taskRoles"]["ps"]["commands"] = [
        "<% $secrets.key %> <% $secrets.key.x %> <% $secrets.hunter %>"
    ]
    if data.draw(st.booleans()):
        document["prerequisites"] = {"auth": document["prerequisites"]}
    assert "hunter2" not in " ".join(map(str, validate_protocol(document)))


@pytest.mark.parametrize("document", ["secrets: hunter2", ["hunter2"], None, 7])
def test_a_document_that_is_no_mapping_is_one_problem(document):
    """And none of it is shown."""
    (problem,) = validate_protocol(document)
    assert problem.path == ""
    assert problem.message.endswith(" is not a mapping with protocolVersion, name, type and taskRoles")
    assert "hunter2" not in problem.message


# ---------------------------------------------------------------- releases, size, lines


def test_before_1_6_prerequisites_run_nothing():
    """1.5 refuses what 1.6 brought."""
    refuses = "needs OpenPAI 1.6 or later; other servers refuse it"
    assert found(GOOD, release="1.5.0") == [
        (REFUSED, f"prerequisites[1].plugin: {refuses}"),
        (REFUSED, f"prerequisites[1].failurePolicy: {refuses}"),
        (REFUSED, f"prerequisites[1].callbacks: {refuses}"),
        (REFUSED, f"taskRoles.worker.prerequisites: {refuses}"),
    ]
    assert found(GOOD, release="1.6.0") == []


def test_before_1_0_there_are_no_storages():
    """0.17 takes them and mounts nothing."""
    levels = found(GOOD, release="0.17.0")
    assert (
        STRICTER,
        "extras.storages: needs OpenPAI 1.0 or later; other servers accept it, and it does not work there",
    ) in levels


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
PLAIN = (
    "protocolVersion: 2\nname: n\ntype: job\nprerequisites:\n- {name: i, type: dockerimage, uri: u}\n"
    "taskRoles:\n  w:\n    instances: 1\n    dockerImage: i\n"
    "    resourcePerInstance: {cpu: 1, memoryMB: 1, gpu: 0}\n    commands: [c]\n"
)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f'"secrets":\n  key: x\n{PLAIN}', 1),
        (f"secrets :\n  key: x\n{PLAIN}", 1),
        ("{protocolVersion: 2, secrets: {key: x}}", 1),
        (f"secrets: {{a: 1,\nb: 2}}\n{PLAIN}", 1),
        (PLAIN + 'secrets:\n  key: x\n"extras": {}\n', 12),
    ],
    ids=["quoted", "a blank", "flow", "two lines", "the next is quoted"],
)
def test_secrets_that_the_server_would_not_hide_are_refused(text, line):
    """The server hides them by the letters of the text; its config is for everybody to read."""
    document = read_yaml(text)
    problems = validate_protocol(document.value, lines=document.lines, text=text)
    assert Problem("secrets", BARE, STRICTER, line) in problems


@pytest.mark.parametrize(
    "text",
    [
        f"secrets:\n  key: x\n{PLAIN}",
        f"secrets: {{key: x}}\n\n# a word\n{PLAIN}",
        f"{PLAIN}secrets:\n  key: |\n    extras:\n    x\n",
        f"{PLAIN}secrets:\n  key: x",
        PLAIN,
    ],
)
def test_secrets_that_the_server_hides_are_fine(text):
    """First, last, or absent."""
    document = read_yaml(text)
    assert validate_protocol(document.value, lines=document.lines, text=text) == []


def test_the_size_of_a_text_is_that_of_its_utf_8():
    """Characters beyond ASCII count as what is sent."""
    text = f"description: {'é' * 51_200}\n{PLAIN}"
    (problem,) = validate_protocol(read_yaml(text).value, text=text)
    assert str(problem) == f"has {len(text.encode()):,} bytes; servers accept at most 102,400"


TEXT = """\
protocolVersion: 2
name: a b
type: job
taskRoles:
  worker:
    instances: 0
    dockerImage: x
    resourcePerInstance:
      cpu: 1
      gpu: 0
    command: ls
    commands:
      - ok
      - <% $parameters.x %>
extras:
  gangAllocation: "no"
"""


def test_every_problem_has_the_line_of_its_field():
    """In the document's order; what is missing has the line of what should hold it."""
    document = read_yaml(TEXT)
    problems = validate_protocol(document.value, lines=document.lines)
    assert [(problem.path, problem.line) for problem in problems] == [
        ("name", 2),
        ("taskRoles.worker.instances", 6),
        ("taskRoles.worker.dockerImage", 7),
        ("taskRoles.worker.resourcePerInstance.memoryMB", 8),
        ("taskRoles.worker.command", 11),
        ("taskRoles.worker.commands[1]", 14),
        ("extras.gangAllocation", 16),
    ]
    assert str(problems[0]) == f"name: 'a b' is not {NAME} (line 2)"


def test_validating_leaves_the_document_as_it_is():
    """Nothing is filled in, nothing resolved."""
    before = copy.deepcopy(GOOD)
    validate_protocol(GOOD)
    assert before == GOOD


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((*W, "instances"), True),
        ((*W, "instances"), 0),
        ((*W, "commands"), [1]),
        (("prerequisites", 0, "uri"), ["ubuntu"]),
        (("jobRetryCount",), "1"),
    ],
)
def test_a_job_is_valid_or_not_whatever_was_validated_before(path, value):
    """A value that was valid in another job is not validated again, but ``True`` is, although it equals 1."""
    assert refused(validate_protocol(with_value((*W, "instances"), 1)), lenient=True) == []
    first, again = (validate_protocol(with_value(path, value)) for _ in range(2))
    assert first == again
    assert refused(first, lenient=True)[0].path.startswith(path_text(path))
    assert validate_protocol(GOOD) == []


# ---------------------------------------------------------------- what counts


def test_lenient_leaves_what_the_server_itself_refuses():
    """Strict counts both; warnings never count."""
    problems = [Problem("a", "x", level) for level in (REFUSED, STRICTER, WARNING)]
    assert [problem.level for problem in refused(problems)] == [REFUSED, STRICTER]
    assert [problem.level for problem in refused(problems, lenient=True)] == [REFUSED]


def test_check_protocol_lists_what_counts_under_the_jobs_name():
    """The error's text is the job, the count, and a line for each problem with its line."""
    text = TEXT.replace("name: a b", "name: ab").replace("command: ls\n", "taskRetryCount: 1\n")
    with pytest.raises(SpecError) as caught:
        check_protocol(
            JobProtocol.from_yaml(text), [Problem("more", "is wrong"), Problem("less", "hm", WARNING)]
        )
    assert str(caught.value) == (
        "job 'ab' was not submitted: 6 problems in its description\n"
        "  taskRoles.worker.instances: 0 is not an integer of at least 1 (line 6)\n"
        "  taskRoles.worker.dockerImage: there is no prerequisite 'x' of type dockerimage (line 7)\n"
        "  taskRoles.worker.resourcePerInstance.memoryMB: is missing; it must be an integer of at least "
        "1 (MB) "
        "(line 8)\n"
        "  taskRoles.worker.commands[1]: <% $parameters.x %>: the job has no parameters; servers "
        "accept it, and fill in nothing of use (line 14)\n"
        "  extras.gangAllocation: 'no' is not true or false; servers accept it, and read anything but "
        "false as true "
        "(line 16)\n"
        "  more: is wrong"
    )


@pytest.mark.parametrize("kind", ["script", "data", "output"])
def test_a_prerequisite_that_requires_and_has_no_name_is_a_problem(kind):
    """Roles that name none of its kind do not refer to it; the missing name is what is told."""
    document = copy.deepcopy(GOOD)
    unnamed = {"type": kind, "uri": ["u"] if kind == "data" else "u", "require": ["code"]}
    document["prerequisites"].insert(1, unnamed)
    with pytest.raises(SpecError) as caught:
        check_protocol(JobProtocol.from_dict(document))
    (problem,) = caught.value.problems
    assert str(problem) == (
        "prerequisites[1].name: is missing; it must be a name of 1 to 255 letters, digits, '-' and '_'"
    )


@pytest.mark.parametrize(
    ("value", "is_refused"), [(math.inf, False), (-math.inf, False), (math.nan, True), (1.5, True)]
)
def test_infinity_is_an_integer_to_the_server(value, is_refused):
    """Its Ajv 6 takes it for one; a lenient reading of YAML lets it through to here."""
    problems = validate_protocol(with_value((*W, "resourcePerInstance", "memoryMB"), value))
    assert bool(refused(problems, lenient=True)) is is_refused


@pytest.mark.parametrize(
    ("memory", "advice"), [("8192", "write 8192 without quotes"), ("8G", "write a number, without quotes")]
)
def test_a_number_in_quotes(memory, advice):
    """v2 servers take no text for a number."""
    (problem,) = validate_protocol(with_value((*W, "resourcePerInstance", "memoryMB"), memory))
    assert problem.path == "taskRoles.worker.resourcePerInstance.memoryMB"
    assert problem.message.startswith(f"{memory!r} is not an integer of at least 1 (MB)")
    assert problem.message.endswith(f"; {advice}")


def test_a_command_that_yaml_takes_for_a_mapping():
    """``- echo result: x`` is a mapping, to every reader of YAML."""
    commands = read_yaml("- echo result: x\n- true x\n").value
    (problem,) = validate_protocol(with_value((*W, "commands"), commands))
    assert str(problem) == (
        "taskRoles.worker.commands[0]: a mapping is not a command; the ': ' in it made a mapping of a text: "
        "put the text into quotes"
    )


def test_a_problem_is_one_line():
    """Whatever it quotes."""
    document = with_value((*W, "commands"), ["<% $parameters.a\u2028b %>", "<%# a\n\n b %><%/ c\nd %>"])
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
        check_protocol(JobProtocol.from_dict(with_value(("description",), "x" * 102_400)))


@pytest.mark.slow
@settings(deadline=None)  # machines of CI are busy
@given(st.from_regex(r"[a-zA-Z]{1,12}", fullmatch=True), st.integers(0, 4))
def test_an_unknown_key_is_found(key, where):
    """Wherever a server refuses unknown keys, one more is one more problem."""
    paths: list[tuple[str | int, ...]] = [
        (),
        W,
        (*W, "completion"),
        (*W, "resourcePerInstance"),
        ("prerequisites", 0),
    ]
    place: Any = copy.deepcopy(GOOD)
    document = place
    for step in paths[where]:
        place = place[step]
    if key in place or key in ("protocolVersion", "version", "contributor", "description"):
        return
    place[key] = 1
    problems = validate_protocol(document)
    assert [(problem.path, problem.level) for problem in problems] == [
        (path_text((*paths[where], key)), REFUSED)
    ]
