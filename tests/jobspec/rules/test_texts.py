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


def test_variables_of_the_job_itself_are_known():
    assert of_v1("echo $PAI_QUEUE", jobEnvs={"PAI_QUEUE": "a"}) == []
    assert of_v2("export PAI_QUEUE=a", "echo $PAI_QUEUE") == []


def test_folders_of_v1_are_not_set_in_a_protocol():
    said = "unbound variable'; export it first, or give a task the attribute output_dir"
    for command in (
        "cp model $PAI_OUTPUT_DIR/",
        "cp model ${PAI_OUTPUT_DIR}/",
        "cp model ${PAI_DATA_DIR%/}/",
    ):
        ((level, text),) = of_v2(command)
        assert level == "warning"
        assert text.endswith(said)
        assert of_v1(command) == []
    for command in ("echo ${PAI_OUTPUT_DIR:-none}", "export PAI_OUTPUT_DIR=/mnt; cp model $PAI_OUTPUT_DIR/"):
        assert of_v2(command) == []


def test_a_blank_after_a_backslash_ends_the_command():
    ((_, text),) = of_v2("true\ntrain \\ \n  --lr 3")
    assert text.endswith("has a blank after the backslash at the end of line 2; take it away")
    assert of_v2("train \\\n  --lr 3") == []


def test_a_blank_image_is_none():
    ((level, text),) = of_v2(uri=" ")
    assert level == "stricter"
    assert text == "prerequisites[0].uri: ' ' is not the name of a Docker image"


def test_references_of_protocols_are_none_in_a_v1_job():
    ((level, said),) = of_v1("train --lr <% $parameters.lr %>")
    assert (level, said.partition("; ")[0]) == (
        "warning",
        "taskRoles[0].command: has <% $parameters.lr %>, which only job protocols fill in",
    )


@pytest.mark.parametrize(("image", "level", "text"), CASES["images"])
def test_an_image_that_no_docker_can_pull_is_named(image, level, text):
    for (found,), place in ((of_v1(image=image), "image: "), (of_v2(uri=image), "prerequisites[0].uri: ")):
        assert found[0] == level
        assert found[1].startswith(place + text)


@pytest.mark.parametrize(
    "image", ["python", "Registry.example:5000/a/b_c:V1.2-Beta", "a/b@sha256:0Af", "localhost/x:latest"]
)
def test_names_of_images_are_left_alone(image):
    assert of_v1(image=image) == of_v2(uri=image) == []


@pytest.mark.parametrize("folder", ["./code", "code", ".", "~/code", "https://host/x", "file:///x", "C:\\x"])
@pytest.mark.parametrize(
    ("field", "what", "level"),
    [
        ("codeDir", "code folder", "stricter"),
        ("authFile", "account of a registry", "stricter"),
        ("dataDir", "data folder", "warning"),
    ],
)
def test_a_folder_that_is_not_on_the_cluster_is_named(folder, field, what, level):
    """A job without its code fails when it starts; what a data folder is, its command may know."""
    ((found, said),) = of_v1(**{field: folder})
    assert found == level
    assert said == (
        f"{field}: {folder!r} is no path on the cluster's file system, where the {what} of a job is; "
        "write $PAI_DEFAULT_FS_URI/PATH, and copy local files there with uploads or luigi-pai put"
    )


def test_a_placeholder_in_a_path_is_only_warned_of():
    """Whoever fills it in makes a path of it."""
    ((level, _),) = of_v1(codeDir="HDFS_URI/code")
    assert level == "warning"


@pytest.mark.parametrize(
    "folder",
    ["$PAI_DEFAULT_FS_URI/a", "/a/b", "hdfs://nn:9000/a", "viewfs://a/b", "s3a://bucket/a", "${X}/a"],
)
def test_places_in_hdfs_are_left_alone(folder):
    assert of_v1(codeDir=folder) == []
