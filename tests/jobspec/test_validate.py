"""Validation: every rule with the path, the level and the words that a user reads."""

from __future__ import annotations

import copy
import math
import pickle
import re

import pytest
from job_cases import ABSENT, cases, changed

from luigi_pai.errors import Problem, SpecError
from luigi_pai.jobspec.job import PaiJob, Port, TaskRole
from luigi_pai.jobspec.schema_problems import schema
from luigi_pai.jobspec.validate import check_job, validate_job, with_numbers

CASES = cases("v1_rules")
GOOD = CASES["good"]
JOB_NAME = "a name of 1 to 255 letters, digits, '-', '.', '_' and '~', and not '.' or '..'"
RETRIES = "an integer of at least -2 (-1: no limit, -2: also after a success)"


def found(document: object) -> list[str]:
    return [str(problem) for problem in validate_job(document)]


def paths(document: object) -> list[str]:
    return [problem.path for problem in validate_job(document)]


# ---------------------------------------------------------------- one rule each

RULES = [
    (path, value, level, message)
    for places, values, level, message in CASES["rules"]
    for path in places
    for value in values
]


@pytest.mark.parametrize(
    ("path", "value", "level", "message"),
    [
        *RULES,
        ("jobName", "n" * 256, "refused", f"'{'n' * 79}... is not {JOB_NAME}"),
        ("retryCount", 10**400, "refused", f"1{'0' * 79}... is not {RETRIES}"),
    ],
    ids=lambda value: "absent" if value is ABSENT else repr(value)[:40],
)
def test_each_rule_has_its_path_and_message(path, value, level, message):
    """One wrong value gives one problem, at its path, in the words written here.

    What the rest-servers of 0.7.1 and 0.14.0 take, and then break on, is stricter.
    """
    hint = "; write a number, without quotes" if isinstance(value, str) else ""
    (problem,) = validate_job(changed(GOOD, {path: value}))
    assert str(problem) == f"{path}: {message.replace('{}', repr(value)).replace('{hint}', hint)}"
    assert problem.level.value == level


@pytest.mark.parametrize("changes", [*CASES["no_problem"], {"jobName": "n" * 255}])
def test_a_good_job_has_no_problem(changes):
    """Every field at the edge of what is allowed is allowed; a virtual cluster named 42 is a name."""
    assert found(changed(GOOD, changes)) == []


@pytest.mark.parametrize(("changes", "problems"), CASES["several"])
def test_all_problems_come_at_once_in_the_order_of_the_document(changes, problems):
    """Each once; a number that is written as a string counts, and the document stays as it is."""
    document = changed(GOOD, changes)
    before = copy.deepcopy(document)
    assert found(document) == problems
    assert document == before


@pytest.mark.parametrize(("text", "number"), [*CASES["numbers"], (str(2**53 - 1), 2**53 - 1)])
def test_texts_that_joi_takes_for_integers(text, number):
    """Recorded from Joi 13.0.1, with its integers."""
    assert with_numbers({"retryCount": text}, schema("job.v1")) == {"retryCount": number}
    assert found(changed(GOOD, {"retryCount": text})) == []


def test_the_tenth_role_comes_after_the_second():
    """Indexes sort as numbers."""
    document = changed(GOOD, {"taskRoles": [{"name": f"r{n}", "command": " "} for n in range(11)]})
    assert paths(document) == [f"taskRoles[{n}].command" for n in range(11)]


def test_an_empty_document_says_what_a_job_needs():
    """The three required fields are all missing at once."""
    assert paths({}) == ["jobName", "image", "taskRoles"]


@pytest.mark.parametrize("value", ["hunter2", ["hunter2"], {"hunter2": 1}, None])
def test_values_of_environment_variables_are_never_shown(value):
    """What a user puts into jobEnvs is not repeated in an error, right or wrong."""
    for key in ("PASSWORD", "1PASSWORD"):
        problems = found(changed(GOOD, {"jobName": "a b", "jobEnvs": {key: value}}))
        assert "hunter2" not in " ".join(problems)


# ---------------------------------------------------------------- jobs as objects


def test_a_paijob_is_checked_as_it_is_posted():
    """A PaiJob passes through the same rules as its JSON."""
    job = PaiJob("a b", "i", [TaskRole("w", "c", memoryMB=1, portList=[Port("p-1")])])
    role = "taskRoles[0]"
    assert paths(job) == ["jobName", f"{role}.memoryMB", f"{role}.shmMB", f"{role}.portList[0].label"]
    assert check_job(PaiJob("j", "i", [TaskRole("w", "c")])) == []


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({1}, r"cannot be written as JSON: set is neither a JSON value nor part of a job"),
        (math.nan, r"cannot be written as JSON: Out of range float values are not JSON compliant.*"),
    ],
)
def test_a_job_that_is_no_json_is_one_problem(value, message):
    """What cannot be written as JSON is a problem, not a crash."""
    (problem,) = found(PaiJob("j", "i", [TaskRole("w", "c")], extras={"x": value}))
    assert re.fullmatch(message, problem)


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
        "  taskRoles[0].command: '' is not a shell command: one string, which is not empty"
    )
    assert caught.value.name == "j"
    assert caught.value.problems[0] == Problem("image", "'' is not the name of a Docker image")
    assert isinstance(caught.value, ValueError)


def test_a_spec_error_survives_pickling():
    """A worker process can hand the error to its parent whole; it does not say "1 problems"."""
    error = SpecError("j", [Problem("image", "is missing"), Problem("", "no")])
    copied = pickle.loads(pickle.dumps(error))
    assert (str(copied), copied.name, copied.problems) == (str(error), "j", error.problems)
    assert "1 problem in" in str(SpecError("j", [Problem("", "no")]))
    assert str(Problem("", "no")) == "no"


# ---------------------------------------------------------------- levels and releases


@pytest.mark.parametrize(("changes", "levels"), CASES["releases"])
def test_what_each_release_makes_of_a_field(changes, levels):
    """What came after it, what an earlier one took, and what was of use before 0.7 only."""
    for release, problems in levels.items():
        given = validate_job(changed(GOOD, changes), release=None if release == "any" else release)
        assert [[problem.level.value, str(problem)] for problem in given] == problems, release
