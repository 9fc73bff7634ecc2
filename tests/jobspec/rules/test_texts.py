"""Texts of jobs that servers accept and that lead to nothing: they are named, and valid ones left alone."""

from __future__ import annotations

import pytest
from job_cases import cases, changed, protocol

from luigi_pai.jobspec.job import PaiJob, TaskRole
from luigi_pai.jobspec.validate import validate_job
from luigi_pai.jobspec.validate_protocol import validate_protocol

CASES = cases("texts")


def of_v1(command="true", **fields):
    """Return the problems of a v1 job, each as level and text."""
    job = PaiJob("train", fields.pop("image", "python:3"), [TaskRole("main", command)], **fields)
    return [(problem.level.value, str(problem)) for problem in validate_job(job)]


def of_v2(*commands, uri="python:3"):
    """Return the problems of a protocol."""
    document = changed(protocol(*commands), {"prerequisites[0].uri": uri})
    return [(problem.level.value, str(problem)) for problem in validate_protocol(document)]


@pytest.mark.parametrize(("command", "text"), CASES["commands"])
def test_a_command_that_leads_to_nothing_is_warned_of(command, text):
    """In both formats, once, and at its place."""
    for problems, place in (
        (of_v1(command), "taskRoles[0].command: "),
        (of_v2("true", command), "taskRoles.main.commands[1]: "),
    ):
        ((level, said),) = problems
        assert level == "warning"
        assert said.startswith(place)
        assert text in said


@pytest.mark.parametrize("command", CASES["left_alone"])
def test_what_a_shell_understands_is_left_alone(command):
    assert of_v1(command) == of_v2(command) == []


@pytest.mark.parametrize(("api", "parts", "problems"), CASES["judged"])
def test_what_else_leads_to_nothing_is_named(api, parts, problems):
    """Variables that the job or its format does not set, references, blanks, and what has to be filled in."""
    found = of_v1(**parts) if api == "v1" else of_v2(*parts.pop("commands", []), **parts)
    assert [list(problem) for problem in found] == problems


@pytest.mark.parametrize(("image", "level", "text"), CASES["images"])
def test_an_image_that_no_docker_can_pull_is_named(image, level, text):
    for (found,), place in ((of_v1(image=image), "image: "), (of_v2(uri=image), "prerequisites[0].uri: ")):
        assert found[0] == level
        assert found[1].startswith(place + text)


@pytest.mark.parametrize("image", CASES["names_of_images"])
def test_names_of_images_are_left_alone(image):
    assert of_v1(image=image) == of_v2(uri=image) == []


@pytest.mark.parametrize("folder", CASES["not_on_the_cluster"])
@pytest.mark.parametrize("field", CASES["folders"])
def test_a_folder_that_is_not_on_the_cluster_is_named(folder, field):
    what, level = CASES["folders"][field]
    said = (
        f"{field}: {folder!r} is not a path on the cluster's file system, where the {what} of a job is; "
        "write $PAI_DEFAULT_FS_URI/PATH, and copy local files there with uploads or luigi-pai put"
    )
    assert of_v1(**{field: folder}) == [(level, said)]


@pytest.mark.parametrize("folder", CASES["on_the_cluster"])
def test_places_in_hdfs_are_left_alone(folder):
    assert of_v1(codeDir=folder) == []
