"""Validation: every rule with the path and the words that a user reads."""

from __future__ import annotations

import copy
import math
import pickle
import re

import pytest

from luigi_pai.errors import Level, Problem, SpecError
from luigi_pai.jobspec.job import PaiJob, Port, TaskRole
from luigi_pai.jobspec.names import folded
from luigi_pai.jobspec.schema_problems import schema
from luigi_pai.jobspec.validate import check_job, validate_job, with_numbers

GOOD = {
    "jobName": "train-1.a_b~c",
    "image": "openpai/pai.example.sklearn",
    "authFile": "",
    "dataDir": "$PAI_DEFAULT_FS_URI/data",
    "outputDir": "hdfs://h:9000/out",
    "codeDir": "",
    "virtualCluster": "default",
    "gpuType": "",
    "retryCount": -2,
    "jobEnvs": {"LR": "0.1", "_N2": 2, "DEEP": True},
    "extras": {"anything": [1, None]},
    "taskRoles": [
        {
            "name": "worker_1",
            "command": "python train.py",
            "taskNumber": 2,
            "cpuNumber": 4,
            "memoryMB": 100,
            "shmMB": 100,
            "gpuNumber": 0,
            "portList": [
                {"label": "web", "beginAt": 0, "portNumber": 1},
                {"label": "x.y~z", "beginAt": 65535},
            ],
            "minFailedTaskCount": 2,
            "minSucceededTaskCount": None,
        },
        {"name": "ps", "command": "python ps.py"},
    ],
}
GONE = object()  # in place of a value: the field is left out

TEXT_FIELDS = {
    "authFile": "the path of a file on HDFS",
    "dataDir": "the path of a folder on HDFS",
    "outputDir": "the path of a folder on HDFS",
    "codeDir": "the path of a folder on HDFS",
    "virtualCluster": "the name of a virtual cluster",
    "gpuType": "the name of a GPU type",
}
JOB_NAME = "a name of 1 to 255 letters, digits, '-', '.', '_' and '~', and not '.' or '..'"
ROLE_NAME = "a name of letters, digits, '.', '_' and '~' (no '-')"
LABEL = "a label of letters, digits, '.', '_' and '~' (no '-')"
COUNT = "an integer from 1 to taskNumber, or null (None) for never"
RETRIES = "an integer of at least -2 (-1: no limit, -2: also after a success)"
MEMORY = "an integer of at least 100 (MB); servers accept less, and the container then does not start"
SHM = "an integer of at least 0 (MB), at most memoryMB"
ENV_NAME = "the name of an environment variable: letters, digits and '_', no digit first"
ENV_VALUE = "a string, a number or a truth value"
SAME_FOLDED = (
    "'Worker1' is the name of taskRoles[0] too ('worker_1': some servers read both as 'worker1'); "
    "servers would drop one of them silently"
)
NO_EFFECT = "has no effect: 0.7 refuses it, and later releases ignore it, so all tasks run on; "
JOB_FIELDS = (
    "there are jobName, image, authFile, dataDir, outputDir, codeDir, virtualCluster, gpuType, retryCount, "
    "killAllOnCompletedTaskNumber, jobEnvs, extras, taskRoles"
)


def with_value(path: str, value: object) -> dict:
    """Return the good job with another value at a path, or without it."""
    document = copy.deepcopy(GOOD)
    steps = re.findall(r"""([^.\["\]]+)|\[(\d+)\]""", re.sub(r'\["(.*)"\]', r".\1", path))
    keys = [int(index) if index else name for name, index in steps]
    place = document
    for key in keys[:-1]:
        place = place[key]
    if value is GONE:
        del place[keys[-1]]
    else:
        place[keys[-1]] = value
    return document


def found(document: object) -> list[str]:
    return [str(problem) for problem in validate_job(document)]


def hint(value: object) -> str:
    """Return what is added where a text stands in place of a number."""
    return "; write a number, without quotes" if isinstance(value, str) else ""


# ---------------------------------------------------------------- one rule each

# path of the wrong value, the value, the message at that path
RULES = [
    *[("jobName", bad, f"{bad!r} is not {JOB_NAME}") for bad in ("", "a b", "a/b", "a\n", ".", "..", 7)],
    *[
        ("jobName", bad, f"{bad!r} is not {JOB_NAME}; it has {character} at character {place}")
        for bad, character, place in (
            ("grün", "U+00FC (LATIN SMALL LETTER U WITH DIAERESIS)", 3),
            ("tra\u200bin", "U+200B (ZERO WIDTH SPACE)", 4),
            ("tra\u2013in", "U+2013 (EN DASH)", 4),
        )
    ],
    ("jobName", "n" * 256, f"'{'n' * 79}... is not {JOB_NAME}"),
    ("jobName", None, f"None is not {JOB_NAME}"),
    ("jobName", GONE, f"is missing; it must be {JOB_NAME}"),
    *[("image", bad, f"{bad!r} is not the name of a Docker image") for bad in ("", "  ", None, 7)],
    ("image", GONE, "is missing; it must be the name of a Docker image"),
    *[(field, None, f"None is not {what}") for field, what in TEXT_FIELDS.items()],
    *[(field, 7, f"7 is not {what}") for field, what in TEXT_FIELDS.items()],
    ("retryCount", "-3", f"-3 is not {RETRIES}"),
    *[("retryCount", bad, f"{bad!r} is not {RETRIES}{hint(bad)}") for bad in (-3, 1.5, "many", True, None)],
    ("killAllOnCompletedTaskNumber", "x", f"'x' is not an integer{hint('x')}"),
    ("jobEnvs", ["A=hunter2"], "a value of type list is not an object of environment variables"),
    ("jobEnvs", "A=hunter2", "a value of type str is not an object of environment variables"),
    ("jobEnvs.A", ["hunter2"], f"a value of type list is not {ENV_VALUE}"),
    ("jobEnvs.A", None, f"a value of type NoneType is not {ENV_VALUE}"),
    *[(f"jobEnvs.{bad}", "hunter2", f"{bad!r} is not {ENV_NAME}") for bad in ("1A", "A-B")],
    *[(f'jobEnvs["{bad}"]', "hunter2", f"{bad!r} is not {ENV_NAME}") for bad in ("A B",)],
    (
        'jobEnvs["Ä"]',
        "hunter2",
        f"'Ä' is not {ENV_NAME}; it has U+00C4 (LATIN CAPITAL LETTER A WITH DIAERESIS) at character 1",
    ),
    ("extras", [], "[] is not an object"),
    *[("taskRoles", bad, f"{bad!r} is not a list of at least one task role") for bad in ([], None, {"a": 1})],
    ("taskRoles", GONE, "is missing; it must be a list of at least one task role"),
    ("taskRoles[1]", "ps", "'ps' is not a task role: an object with name and command, a TaskRole in Python"),
    *[("taskRoles[1].name", bad, f"{bad!r} is not {ROLE_NAME}") for bad in ("", "a-b", "a b", "a\n", 7)],
    ("taskRoles[1].name", GONE, f"is missing; it must be {ROLE_NAME}"),
    *[
        ("taskRoles[1].command", bad, f"{bad!r} is not a shell command: one text, which is not empty")
        for bad in ("", " \n", None, ["ls", "-l"])
    ],
    ("taskRoles[1].command", GONE, "is missing; it must be a shell command: one text, which is not empty"),
    *[
        (f"taskRoles[1].{field}", bad, f"{bad!r} is not an integer of at least 1{hint(bad)}")
        for field in ("taskNumber", "cpuNumber")
        for bad in (0, -1, 1.5, "two", True, None)
    ],
    *[
        ("taskRoles[1].memoryMB", bad, f"{bad!r} is not {MEMORY}{hint(bad)}")
        for bad in (99, 0, -1, "2GB", None)
    ],
    *[("taskRoles[1].shmMB", bad, f"{bad!r} is not {SHM}{hint(bad)}") for bad in (-1, "64m", None)],
    ("taskRoles[0].shmMB", 101, "101 is more than memoryMB, 100; shared memory is part of it"),
    ("taskRoles[1].shmMB", 101, "101 is more than memoryMB, 100; shared memory is part of it"),
    *[("taskRoles[1].gpuNumber", bad, f"{bad!r} is not an integer of at least 0") for bad in (-1, 0.5, None)],
    ("taskRoles[1].portList", {"label": "x"}, "{'label': 'x'} is not a list of ports"),
    ("taskRoles[1].portList", None, "None is not a list of ports"),
    ("taskRoles[0].portList[1]", "web", "'web' is not a port: an object with label, a Port in Python"),
    ("taskRoles[0].portList[1].label", GONE, f"is missing; it must be {LABEL}"),
    *[
        ("taskRoles[0].portList[1].label", bad, f"{bad!r} is not {LABEL}")
        for bad in ("", "a-b", "a b", "a\n", 7)
    ],
    (
        "taskRoles[0].portList[1].label",
        "web",
        "'web' is the label of portList[0] too; servers would drop one of them silently",
    ),
    *[
        (
            "taskRoles[0].portList[0].beginAt",
            bad,
            f"{bad!r} is not a port number, 1 to 65535, or 0 for any free one{hint(bad)}",
        )
        for bad in (-1, 65536, "http", None)
    ],
    *[
        (
            "taskRoles[0].portList[0].portNumber",
            bad,
            f"{bad!r} is not how many ports, an integer of at least 1",
        )
        for bad in (0, -1, 65536, None)
    ],
    ("taskRoles[0].portList[1].portNumber", 2, "2 ports from 65535 go beyond port 65535"),
    ("taskRoles[0].portList[0].ports", 1, "is not a field here; there are label, beginAt, portNumber"),
    *[
        (f"taskRoles[0].{field}", bad, f"{bad!r} is not {COUNT}{hint(bad)}")
        for field in ("minFailedTaskCount", "minSucceededTaskCount")
        for bad in (0, -1, 1.5, "never")
    ],
    *[
        (f"taskRoles[0].{field}", 3, "3 is more than taskNumber, 2")
        for field in ("minFailedTaskCount", "minSucceededTaskCount")
    ],
    ("taskRoles[1].minFailedTaskCount", 2, "2 is more than taskNumber, 1"),
    (
        "taskRoles[1].name",
        "worker_1",
        "'worker_1' is the name of taskRoles[0] too; servers would drop one of them silently",
    ),
    ("taskRoles[1].name", "Worker1", SAME_FOLDED),
    ("outputdir", "x", "is not a field here; did you mean outputDir?"),
    ("foo", 1, f"is not a field here; {JOB_FIELDS}"),
    ("taskRoles[0].memory", 1, "is not a field here; did you mean memoryMB?"),
    ("taskRoles[0].gpuNum", 1, "is not a field here; did you mean gpuNumber?"),
]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    RULES,
    ids=[f"{path}={'absent' if value is GONE else repr(value)[:20]}" for path, value, _ in RULES],
)
def test_each_rule_has_its_path_and_message(path, value, message):
    """One wrong value gives one problem, at its path, in the words written here."""
    assert found(with_value(path, value)) == [f"{path}: {message}"]


def test_a_good_job_has_no_problem():
    """Every field at the edge of what is allowed is allowed."""
    assert found(GOOD) == []


def test_the_longest_name_and_the_last_ports_are_allowed():
    """255 characters, and ports that end at 65535, are within the rules."""
    assert found(with_value("jobName", "n" * 255)) == []
    port = {"label": "a", "beginAt": 65534, "portNumber": 2}
    assert found(with_value("taskRoles[1].portList", [port])) == []


def test_numbers_may_be_strings_as_servers_take_them():
    """``"4"`` counts as 4, in rules that compare too, and text that is no integer does not."""
    document = with_value("taskRoles[0].memoryMB", " 8192 ")
    document["retryCount"] = "-1"
    document["taskRoles"][0] |= {"taskNumber": "2", "shmMB": "8192", "minFailedTaskCount": "+2"}
    document["taskRoles"][0]["portList"][0]["beginAt"] = "8080"
    assert found(document) == []
    document["taskRoles"][0] |= {
        "shmMB": "8193",
        "minFailedTaskCount": "3",
        "cpuNumber": "٣",
        "gpuNumber": "9" * 5000,
    }
    assert [problem.path for problem in validate_job(document)] == [
        "taskRoles[0].cpuNumber",
        "taskRoles[0].shmMB",
        "taskRoles[0].gpuNumber",
        "taskRoles[0].minFailedTaskCount",
    ]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *(("1e3", 1000), (" 1e3 ", 1000), ("1000.0", 1000), ("1000.", 1000), (".1e4", 1000), ("+1000", 1000)),
        *(("10000e-1", 1000), ("1000\u00a0", 1000), ("\ufeff1000", 1000), ("01000", 1000)),
        ("9007199254740991", 2**53 - 1),
    ],
)
def test_texts_that_joi_takes_for_integers(text, number):
    """Recorded from Joi 13.0.1, with its integers."""
    assert with_numbers({"retryCount": text}, schema("job.v1")) == {"retryCount": number}
    assert found(with_value("retryCount", text)) == []


@pytest.mark.parametrize("text", ["1_000", "", " ", "1e400", "Infinity", "12abc", "1e-3", "\u0663", "1\x1c"])
def test_texts_that_joi_takes_for_no_integer(text):
    """The same; 1e-3 is a number, and none that is whole."""
    (problem,) = validate_job(with_value("retryCount", text))
    assert (problem.path, problem.level) == ("retryCount", Level.REFUSED)
    assert f"is not {RETRIES}" in problem.message


@pytest.mark.parametrize("field", ["retryCount", "taskRoles[1].gpuNumber"])
@pytest.mark.parametrize("number", [2**53, 2**53 + 1, 1e16, str(2**53), 10**400, math.inf])
def test_integers_that_javascript_has_not_are_refused(field, number):
    """Joi takes no integer from 2^53 on, given as a number or as a text."""
    (problem,) = validate_job(with_value(field, number))
    assert (problem.path, problem.level) == (field, Level.REFUSED)
    assert " is not an integer of at least " in problem.message
    assert found(with_value(field, 2**53 - 1)) == []


def test_an_empty_key_in_extras_is_refused():
    """As Joi does at the top of extras; it does not look into the values."""
    assert found(with_value("extras", {"": 1, "a": {"": 1}})) == [
        "extras[\"\"]: '' is not a key that servers accept: give it a name"
    ]


def test_a_string_that_looks_like_a_number_stays_text_where_text_is_wanted():
    """A virtual cluster named 42 is a name."""
    assert found(with_value("virtualCluster", "42")) == []
    assert found(with_value("extras", {"n": "42"})) == []


def test_validating_leaves_the_document_as_it_is():
    """Numbers written as strings are not rewritten in the caller's document."""
    document = with_value("retryCount", "3")
    before = copy.deepcopy(document)
    validate_job(document)
    assert document == before


def test_all_problems_come_at_once_in_the_order_of_the_document():
    """Several wrong fields give all their problems, each once; a missing one stands before the others."""
    document = with_value("taskRoles[1]", {"command": "", "gpuNumber": -1, "foo": 1})
    document["taskRoles"][0]["portList"] = [{"label": "a"}, {"label": "a", "portNumber": 0}]
    document |= {"retryCount": -9, "jobName": "a b", "bar": 1, "jobEnvs": {"1": "x", "B": None}}
    del document["image"]
    assert [problem.path for problem in validate_job(document)] == [
        "image",
        "jobName",
        "retryCount",
        "jobEnvs.1",
        "jobEnvs.B",
        "taskRoles[0].portList[1].label",
        "taskRoles[0].portList[1].portNumber",
        "taskRoles[1].name",
        "taskRoles[1].command",
        "taskRoles[1].gpuNumber",
        "taskRoles[1].foo",
        "bar",
    ]


def test_the_tenth_role_comes_after_the_second():
    """Indexes sort as numbers."""
    document = with_value("taskRoles", [{"name": f"r{n}", "command": " "} for n in range(11)])
    assert [problem.path for problem in validate_job(document)] == [
        f"taskRoles[{n}].command" for n in range(11)
    ]


def test_three_roles_of_one_folded_name_are_compared_with_the_first():
    """The second and the third of three equal names each point at the first."""
    roles = [{"name": name, "command": "c"} for name in ("w", "W", "w_")]
    problems = validate_job(with_value("taskRoles", roles))
    assert [problem.path for problem in problems] == ["taskRoles[1].name", "taskRoles[2].name"]
    assert all("the name of taskRoles[0] too" in problem.message for problem in problems)


def test_names_fold_as_servers_of_the_v2_dialect_fold_them():
    """``My_Role`` is shown as ``myrole`` there."""
    assert folded("My_Role.2~x") == "myrole2x"


def test_an_empty_document_says_what_a_job_needs():
    """The three required fields are all missing at once."""
    assert [problem.path for problem in validate_job({})] == ["jobName", "image", "taskRoles"]


@pytest.mark.parametrize("value", ["hunter2", ["hunter2"], {"hunter2": 1}, None])
@pytest.mark.parametrize("key", ["PASSWORD", "1PASSWORD"])
def test_values_of_environment_variables_are_never_shown(key, value):
    """What a user puts into jobEnvs is not repeated in an error, right or wrong."""
    document = with_value("jobEnvs", {key: value})
    document["jobName"] = "a b"
    assert "hunter2" not in " ".join(found(document))


# ---------------------------------------------------------------- jobs as objects


def test_a_paijob_is_checked_as_it_is_posted():
    """A PaiJob passes through the same rules as its JSON."""
    job = PaiJob("a b", "i", [TaskRole("w", "c", memoryMB=1, portList=[Port("p-1")])])
    assert [problem.path for problem in validate_job(job)] == [
        "jobName",
        "taskRoles[0].memoryMB",
        "taskRoles[0].shmMB",
        "taskRoles[0].portList[0].label",
    ]


@pytest.mark.parametrize(
    ("extras", "message"),
    [
        ({"x": {1}}, r"cannot be written as JSON: set is neither JSON nor a part of a job"),
        (
            {"x": float("nan")},
            r"cannot be written as JSON: Out of range float values are not JSON compliant.*",
        ),
    ],
    ids=["set", "nan"],
)
def test_a_job_that_is_no_json_is_one_problem(extras, message):
    """What cannot be written as JSON is a problem, not a crash."""
    problems = found(PaiJob("j", "i", [TaskRole("w", "c")], extras=extras))
    assert len(problems) == 1
    assert re.fullmatch(message, problems[0])


def forgotten(self):
    """Return nothing: it is a property whose decorator was forgotten."""


class Holder:
    """An object with such a method."""

    forgotten = forgotten


@pytest.mark.parametrize("method", [forgotten, Holder().forgotten, "".upper], ids=["function", "bound", "C"])
@pytest.mark.parametrize("field", ["jobName", "image", "dataDir", "virtualCluster", "retryCount", "extras"])
def test_a_method_in_place_of_a_value_is_named(field, method):
    """A task whose @property was forgotten gives its job the method itself."""
    job = PaiJob(**{"jobName": "j", "image": "i", "tasks": [TaskRole("w", "c")], field: method})
    assert found(job) == [f"{field}: is a method; put @property above it"]
    with pytest.raises(TypeError, match=f"^{field} is a method; put @property above it$"):
        job.to_json()
    with pytest.raises(SpecError) as caught:
        check_job(job)
    assert " at 0x" not in str(caught.value)


def test_methods_within_parts_are_named_each():
    """Also those in a role, in its ports, and in mappings."""
    role = TaskRole("w", forgotten, portList=[Port(forgotten)])
    job = PaiJob("j", "i", [role], jobEnvs={"RATE": forgotten}, extras={"x": [forgotten]})
    assert found(job) == [
        f"{path}: is a method; put @property above it"
        for path in ("taskRoles[0].portList[0].label", "taskRoles[0].command", "jobEnvs.RATE", "extras.x[0]")
    ]


def test_check_job_lists_every_problem_under_the_jobs_name():
    """The error's text is the job, the count, and a line for each problem."""
    job = PaiJob("j", "", [TaskRole("w", "", gpuNumber=-1)])
    with pytest.raises(SpecError) as caught:
        check_job(job)
    assert str(caught.value) == (
        "job 'j' was not submitted: 3 problems in its description\n"
        "  image: '' is not the name of a Docker image\n"
        "  taskRoles[0].gpuNumber: -1 is not an integer of at least 0\n"
        "  taskRoles[0].command: '' is not a shell command: one text, which is not empty"
    )
    assert caught.value.name == "j"
    assert caught.value.problems[0] == Problem("image", "'' is not the name of a Docker image")
    assert isinstance(caught.value, ValueError)


def test_check_job_is_silent_about_a_good_job():
    """Nothing is raised, and there is no warning."""
    assert check_job(PaiJob("j", "i", [TaskRole("w", "c")])) == []


def test_one_problem_is_counted_as_one():
    """The text does not say "1 problems"."""
    assert "1 problem in" in str(SpecError("j", [Problem("", "no")]))
    assert str(Problem("", "no")) == "no"


def test_a_spec_error_survives_pickling():
    """A worker process can hand the error to its parent whole."""
    error = SpecError("j", [Problem("image", "is missing"), Problem("", "no")])
    copied = pickle.loads(pickle.dumps(error))
    assert (str(copied), copied.name, copied.problems) == (str(error), "j", error.problems)


# ---------------------------------------------------------------- levels and releases


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("image", "  "),
        ("jobEnvs.A", ["x"]),
        ("jobEnvs.1A", "x"),
        ("taskRoles[1].memoryMB", 99),
        ("taskRoles[1].shmMB", -1),
        ("taskRoles[1].command", " \n"),
        ("taskRoles[1].name", "Worker1"),
        ("taskRoles[1].name", "worker_1"),
        ("taskRoles[0].portList[1].label", "web"),
        ("taskRoles[0].portList[1].portNumber", 2),
        ("taskRoles[0].portList[1].portNumber", 0),
        ("taskRoles[0].portList[1].beginAt", -1),
    ],
)
def test_what_servers_take_and_then_break_on_is_stricter(path, value):
    """The rest-servers of 0.7.1 and 0.14.0 take these; we do not."""
    assert {problem.level for problem in validate_job(with_value(path, value))} == {Level.STRICTER}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("jobName", "a b"),
        ("image", ""),
        ("taskRoles[0].memoryMB", 0),
        ("taskRoles[0].shmMB", 101),
        ("taskRoles[0].minFailedTaskCount", 3),
        ("taskRoles[0].cpuNumber", 0),
        ("foo", 1),
        ("taskRoles", GONE),
    ],
)
def test_what_servers_refuse_is_refused(path, value):
    """Their own rules, and those of the launcher behind them, which they pass on."""
    assert {problem.level for problem in validate_job(with_value(path, value))} == {Level.REFUSED}


def test_a_release_refuses_what_came_after_it():
    """0.7 has no jobEnvs and extras, and refuses a field that later ones only ignore."""
    assert [str(problem) for problem in validate_job(GOOD, release="0.7.1")] == [
        "jobEnvs: needs OpenPAI 0.9 or later; other servers refuse it",
        "extras: needs OpenPAI 0.12 or later; other servers refuse it",
    ]


@pytest.mark.parametrize(
    ("release", "level", "message"),
    [
        ("0.7.1", Level.REFUSED, NO_EFFECT),
        ("0.8", Level.WARNING, NO_EFFECT),
        (None, Level.WARNING, NO_EFFECT),
    ],
)
def test_a_field_of_releases_before_0_7_is_never_of_use(release, level, message):
    """It says what ends a job instead."""
    instead = "set minSucceededTaskCount of the role whose tasks decide"
    document = GOOD | {"killAllOnCompletedTaskNumber": 2, "jobName": "j"}
    problem = next(each for each in validate_job(document, release=release) if "killAll" in each.path)
    expected = Problem("killAllOnCompletedTaskNumber", message + instead, level)
    assert problem == expected


@pytest.mark.parametrize("release", ["0.8", "v0.14.0"])
def test_a_release_refuses_what_an_earlier_one_took(release):
    """``~`` in a job's name ended with 0.7."""
    wrong = "is not a name without '~', which servers from release 0.8 on refuse"
    assert wrong in " ".join(map(str, validate_job(GOOD, release=release)))
    assert validate_job(with_value("jobName", "train"), release="0.14.0") == []
