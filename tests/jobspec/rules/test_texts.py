"""Texts of jobs that servers accept and that lead to nothing: they are named, and valid ones left alone."""

from __future__ import annotations

import pytest

from luigi_pai.jobspec.job import PaiJob, TaskRole
from luigi_pai.jobspec.validate import validate_job
from luigi_pai.jobspec.validate_protocol import validate_protocol

NO_IMAGE = "and is no name of a Docker image"


def of_v1(command="true", **fields):
    """Return the problems of a v1 job, each as level and text."""
    job = PaiJob("train", fields.pop("image", "python:3"), [TaskRole("main", command)], **fields)
    return [(problem.level.value, str(problem)) for problem in validate_job(job)]


def of_v2(*commands, uri="python:3"):
    """Return the problems of a protocol."""
    document = {
        "protocolVersion": 2,
        "name": "train",
        "type": "job",
        "prerequisites": [{"name": "img", "type": "dockerimage", "uri": uri}],
        "taskRoles": {
            "main": {
                "instances": 1,
                "dockerImage": "img",
                "resourcePerInstance": {"cpu": 1, "memoryMB": 200, "gpu": 0},
                "commands": list(commands or ("true",)),
            }
        },
    }
    return [(problem.level.value, str(problem)) for problem in validate_protocol(document)]


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (
            "cp model $PAI_OUTPT_DIR",
            "$PAI_OUTPT_DIR is set by no release of OpenPAI, and is empty; did you mean",
        ),
        ("cp model ${PAI_OUTPUTDIR}/a", "did you mean $PAI_OUTPUT_DIR?"),
        ("echo $LUIGI_PAI_ATEMPT", "did you mean $LUIGI_PAI_ATTEMPT?"),
        (
            "echo $PAI_QUEUE",
            "$PAI_QUEUE is set by no release of OpenPAI, and is empty; the commands do not set",
        ),
        ("train --lr {{ lr }}", "has {{ lr }}, which no OpenPAI fills in"),
        ("train --lr ${{lr}}", "has {{lr}}, which no OpenPAI fills in"),
        ("train --lr {{ lr | default(1) }}", "has {{ lr | default(1) }}, which no OpenPAI fills in"),
        ("train --lr {self.lr}", "has {self.lr}, which Python fills in only with an f before"),
        ("train --lr {self.lr:.2f}", "has {self.lr:.2f}, which Python fills in only with an f before"),
        (
            "train \u2013\u2013lr 3",
            "has U+2013 (EN DASH) at character 7, outside quotes, where the shell takes it for a letter",
        ),
        ("train -\u2011lr 3", "has U+2011 (NON-BREAKING HYPHEN) at character 8, outside quotes"),
        ("train\u00a0--lr 3", "has U+00A0 (NO-BREAK SPACE) at character 6, outside quotes"),
        ("cd a &&\u200b train", "has U+200B (ZERO WIDTH SPACE) at character 8, outside quotes"),
        ("echo \u201ca b\u201d", "has U+201C (LEFT DOUBLE QUOTATION MARK) at character 6, outside quotes"),
        ("train > log &", "ends with &, so that the task does not wait for what it starts; take & away"),
    ],
)
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


@pytest.mark.parametrize(
    "command",
    [
        "cp model $PAI_OUTPUT_DIR && echo ${PAI_TASK_ROLE_worker_HOST_LIST} $PAI_PORT_LIST_main_0_http",
        "PAI_QUEUE=a; echo $PAI_QUEUE",
        "read PAI_QUEUE < file; echo ${PAI_QUEUE}",
        "docker ps --format '{{.Names}}' | awk '{{print $1}}'; find . -exec cat {} +",
        "echo {a,b} ${a} {{a,b},c}",
        "echo ${self.lr} \\{self.lr}",
        "echo 1 \u2013 2 \u2013",
        "echo '\u201cquoted\u201d\u00a0\u2013text' \"\u2013a\"",
        "echo Sch\u00f6n",
        "server & client && kill %1",
        "server & wait",
        "a && b",
        "a 2>&1",
        "set -o pipefail; a |& b",
        "echo a \\&",
    ],
)
def test_what_a_shell_understands_is_left_alone(command):
    assert of_v1(command) == of_v2(command) == []


def test_variables_of_the_job_itself_are_known():
    assert of_v1("echo $PAI_QUEUE", jobEnvs={"PAI_QUEUE": "a"}) == []
    assert of_v2("export PAI_QUEUE=a", "echo $PAI_QUEUE") == []


def test_references_of_protocols_are_none_in_a_v1_job():
    ((level, said),) = of_v1("train --lr <% $parameters.lr %>")
    assert (level, said.partition("; ")[0]) == (
        "warning",
        "taskRoles[0].command: has <% $parameters.lr %>, which only job protocols fill in",
    )


@pytest.mark.parametrize(
    ("image", "level", "text"),
    [
        ("https://hub.docker.com/python", "stricter", f"begins with https://, {NO_IMAGE}"),
        (" docker://python:3", "stricter", f"begins with docker://, {NO_IMAGE}; write 'python:3'"),
        ("python:3 ", "stricter", f"'python:3 ' has a blank, {NO_IMAGE}"),
        ("my image", "stricter", f"'my image' has a blank, {NO_IMAGE}"),
        (
            "\u201cpython:3\u201d",
            "stricter",
            f"'\u201cpython:3\u201d' {NO_IMAGE[4:]}; it has U+201C (LEFT DOUBLE QUOTATION MARK) at",
        ),
        ("python:3\u00a0", "stricter", f"'python:3\\xa0' {NO_IMAGE[4:]}; it has U+00A0 (NO-BREAK SPACE) at"),
        ("p\u200bython", "stricter", f"'p\\u200bython' {NO_IMAGE[4:]}; it has U+200B (ZERO WIDTH SPACE) at"),
        (
            "\u0440ython",
            "stricter",
            f"'\u0440ython' {NO_IMAGE[4:]}; it has U+0440 (CYRILLIC SMALL LETTER ER)",
        ),
        ("Python:3", "warning", "'Python:3' has capitals in 'Python'; Docker knows 'python' only"),
    ],
)
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
