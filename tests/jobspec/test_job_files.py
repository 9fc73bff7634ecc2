"""Agreement with real rest-servers on job files: those of tests/data/jobs, and of a further folder."""

from __future__ import annotations

import contextlib
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from job_cases import cases
from job_file_kinds import field_paths, known_paths, typed_paths
from job_files import FURTHER, NOT_READ, VARIABLE, JobFile, files, further_files, own_files, parameters

from luigi_pai.errors import Problem, SpecError
from luigi_pai.jobspec.dialects.yaml_text import Document, read_yaml
from luigi_pai.jobspec.templates.commands import entrypoints
from luigi_pai.jobspec.validate import validate_job
from luigi_pai.jobspec.validate_protocol import refused, validate_protocol

if TYPE_CHECKING:
    from collections.abc import Callable

RELEASES = ("v1.8.0", "ltp-v1.5")

CASES = cases("job_files")


def own_file(name: str) -> JobFile:
    return next(file for file in own_files("v2") if file.name == name)


def read(file: JobFile) -> Document:
    return read_yaml(file.text, file.name, lenient=True)


def release_name(release: str) -> str:
    """Return what ``validate_protocol`` calls a release of the verdicts: ``1.8.0``, ``ltp-1.5``."""
    return release.replace("ltp-v", "ltp-").removeprefix("v")


def problems_of(file: JobFile, release: str, *, lenient: bool) -> list[Problem]:
    """Return why a file must not be sent: the one trouble of its YAML, or the problems of the protocol."""
    try:
        document = read(file)
    except SpecError as error:
        return list(error.problems)
    found = validate_protocol(
        document.value, lines=document.lines, text=file.text, release=release_name(release)
    )
    assert all(problem.line for problem in found if problem.path)
    return refused([*document.problems, *found], lenient=lenient)


def v1_problems_of(file: JobFile, release: str | None, *, lenient: bool) -> list[Problem]:
    return refused(validate_job(json.loads(file.text), release=release), lenient=lenient)


def breaks_later(file: JobFile) -> list[list[str]]:
    """Return what servers take, and our strict reading does not; an example may have ``<your image>``."""
    placeholder = [["image", "has a blank, and is not the name of a Docker image"]]
    return placeholder if '"image": "<' in file.text else CASES["breaks_later"].get(file.name, [])


def assert_told(problems: list[Problem], expected: list[list[str]]) -> None:
    """Assert that the problems are at these places, in this order, with these words in the message."""
    assert [problem.path for problem in problems] == [place for place, _ in expected]
    for problem, (_, words) in zip(problems, expected, strict=True):
        assert words in problem.message


# ---------------------------------------------------------------- v2


def is_read(file: JobFile) -> bool:
    return file.name not in NOT_READ


@pytest.mark.parametrize("file", parameters("v2", is_read))
def test_a_protocol_is_valid_if_and_only_if_the_server_takes_it(file):
    """What is REFUSED is what the server refuses; what it takes and breaks later is STRICTER."""
    for release in file.verdicts:
        if file.accepted(release):
            assert problems_of(file, release, lenient=True) == []
            assert_told(problems_of(file, release, lenient=False), breaks_later(file))
        else:
            assert problems_of(file, release, lenient=True) != []


@pytest.mark.parametrize(
    "file", parameters("v2", lambda file: is_read(file) and any(map(file.accepted, file.verdicts)))
)
def test_commands_are_rendered_byte_for_byte_as_the_server_rendered_them(file):
    """The entrypoints are those of the server's own code."""
    for release in filter(file.accepted, file.verdicts):
        assert entrypoints(read(file).value) == file.verdicts[release]["entrypoints"]


def complaints_of_the_schema(file: JobFile) -> list[dict[str, Any]]:
    """Return what Ajv said of a file in the server 1.8.0."""
    error = file.verdicts["v1.8.0"].get("error") or {}
    message = error.get("message", "")
    return json.loads(message) if message.startswith("[{") else []


@pytest.mark.parametrize(
    "file", parameters("v2", lambda file: is_read(file) and bool(complaints_of_the_schema(file)))
)
def test_every_field_that_1_8_0_refuses_is_named(file):
    """One problem or more at each place, and none elsewhere; of a prerequisite, anywhere in it."""
    theirs = set()
    for item in complaints_of_the_schema(file):
        params = item["params"]
        last = params.get("missingProperty", params.get("additionalProperty"))
        place = re.sub(r"\['([^']*)'\]", r".\1", item["dataPath"]).removeprefix(".")
        theirs.add(place if last is None else f"{place}.{last}".removeprefix("."))
    found = problems_of(file, "v1.8.0", lenient=True)
    ours = {in_prerequisite(problem.path) for problem in found} - OURS_ALONE.get(file.name, set())
    assert ours == {in_prerequisite(place) for place in theirs}


@pytest.mark.parametrize(("name", "message"), CASES["not_read"].items())
@pytest.mark.parametrize("release", RELEASES)
def test_a_file_that_is_not_read_is_refused_with_its_line(name, message, release):
    """1.8.0 reads on, of the tabs not what was meant; LTP 1.5 reads the last as another value."""
    file = own_file(name)
    (problem,) = problems_of(file, release, lenient=True)
    assert problem.message.startswith(message)
    assert problem.line == (16 if "tab" in name else 4)


ROLE = "taskRoles.worker-1"  # the server does not look into a role whose name is wrong
OURS_ALONE = {
    "many_mistakes.yaml": {f"{ROLE}.{name}" for name in ("dockerImage", "resourcePerInstance", "commands")}
}


def in_prerequisite(place: str) -> str:
    """Return the prerequisite of a place in one: for each, the server says why it is of none of the kinds."""
    return re.sub(r"^(prerequisites\[\d+\]).*", r"\1", place)


def test_the_file_of_many_mistakes_has_one_of_each_kind():
    """Or the test above shows little."""
    file = own_file("many_mistakes.yaml")
    kinds = {item["keyword"] for item in complaints_of_the_schema(file)}
    expected = "additionalProperties enum minItems minProperties minimum oneOf pattern required type $merge"
    assert kinds == set(expected.split())


@pytest.mark.parametrize(("name", "expected"), CASES["names"].items())
def test_a_name_that_1_8_0_refuses_is_refused_for_the_same_reason(name, expected):
    """The server stops at the first."""
    file = own_file(name)
    assert file.verdicts["v1.8.0"]["error"]["code"] == "InvalidProtocolError"
    assert_told(problems_of(file, "v1.8.0", lenient=True), [expected])


# ---------------------------------------------------------------- v1


@pytest.mark.parametrize("release", ["0.7.1", "0.14.0", None])
@pytest.mark.parametrize("file", parameters("v1"))
def test_a_v1_job_is_valid_if_and_only_if_the_release_takes_it(file, release):
    """The two servers differ in jobEnvs, extras, an obsolete field, and names with '~'.

    Without a release, a job is valid if one of them accepts it.
    """
    if any(file.accepted(f"v{each}") for each in ([release] if release else ["0.7.1", "0.14.0"])):
        assert v1_problems_of(file, release, lenient=True) == []
        assert_told(v1_problems_of(file, release, lenient=False), breaks_later(file))
    else:
        assert v1_problems_of(file, release, lenient=True) != []


# ---------------------------------------------------------------- what the files cover

SCHEMAS = {"v1": "job.v1", "v2": "protocol.v2"}


def paths_in(files: list[JobFile], version: str, paths: Callable[[Any, str], set[str]]) -> set[str]:
    """Return the paths of the fields of job files, as one of the functions of ``job_file_kinds`` does."""
    found: set[str] = set()
    for file in files:
        with contextlib.suppress(SpecError):
            document = json.loads(file.text) if version == "v1" else read(file).value
            found |= paths(document, SCHEMAS[version])
    return found


@pytest.mark.parametrize("version", SCHEMAS)
def test_every_field_occurs_in_a_file(version):
    """Every field of the schemas, and of the classes of extras."""
    known = known_paths(SCHEMAS[version])
    assert len(known) > {"v1": 25, "v2": 120}[version]
    assert known - paths_in(own_files(version), version, field_paths) == set()


@pytest.mark.slow
@pytest.mark.skipif(not FURTHER, reason=f"{VARIABLE} names no folder of further job files to test, too")
@pytest.mark.parametrize("version", SCHEMAS)
def test_what_occurs_in_further_files_occurs_in_ours(version):
    """Every field with its types."""
    found = paths_in(further_files(version), version, typed_paths)
    assert len(found) > 20
    assert found - paths_in(own_files(version), version, typed_paths) == set()


def test_a_file_without_a_verdict_is_an_error(tmp_path):
    """Or it would be passed over."""
    (tmp_path / "v1").mkdir()
    (tmp_path / "v1" / "a.json").write_text("{}")
    (tmp_path / "verdicts.json").write_text('{"v1/b.json": {}}')
    with pytest.raises(ValueError, match=r"not both a file and a verdict: v1/a\.json, v1/b\.json"):
        files(tmp_path, "v1")
