"""Agreement with real rest-servers on the files of OpenPAI's own examples, docs and tests."""

from __future__ import annotations

import json

import pytest
from places import DATA

from luigi_pai.errors import Level
from luigi_pai.spec.dialects.yaml_text import read_yaml
from luigi_pai.spec.templates.commands import entrypoints
from luigi_pai.spec.validate import validate_job
from luigi_pai.spec.validate_protocol import refused, validate_protocol

V1 = json.loads((DATA / "corpus_v1" / "verdicts.json").read_text(encoding="utf-8"))
V2 = json.loads((DATA / "corpus_v2" / "verdicts.json").read_text(encoding="utf-8"))


def test_the_corpus_is_there():
    """32 v1 files, judged by 0.7.1 and 0.14.0; 53 v2 files, judged by 1.8.0."""
    assert {path.name for path in (DATA / "corpus_v1").glob("*.json")} == {*V1, "verdicts.json"}
    assert {path.name for path in (DATA / "corpus_v2").glob("*.yaml")} == {*V2}
    assert (len(V1), len(V2)) == (32, 53)
    assert sum(not verdict["v1.8.0"]["accept"] for verdict in V2.values()) == 6
    assert sum(not verdict["v0.7.1"]["accept"] for verdict in V1.values()) == 2


@pytest.mark.parametrize("lenient", [False, True], ids=["strict", "lenient"])
@pytest.mark.parametrize("name", sorted(V2))
def test_a_protocol_is_valid_if_and_only_if_1_8_0_takes_it(name, lenient):
    """Strict or lenient, the verdict is the server's: no real file needs leniency."""
    text = (DATA / "corpus_v2" / name).read_text(encoding="utf-8")
    document = read_yaml(text, name)
    problems = validate_protocol(
        document.value, lines=document.lines, size=len(text.encode()), release="1.8.0"
    )
    assert (not refused(problems, lenient=lenient)) == V2[name]["v1.8.0"]["accept"]
    assert all(problem.line for problem in problems)


@pytest.mark.parametrize("name", sorted(name for name, of in V2.items() if of["v1.8.0"]["accept"]))
def test_commands_are_rendered_byte_for_byte_as_1_8_0_rendered_them(name):
    """The entrypoints are those that the real server recorded."""
    document = read_yaml((DATA / "corpus_v2" / name).read_text(encoding="utf-8"), name)
    assert entrypoints(document.value) == V2[name]["v1.8.0"]["entrypoints"]


@pytest.mark.parametrize("lenient", [False, True], ids=["strict", "lenient"])
@pytest.mark.parametrize("release", ["0.7.1", "0.14.0"])
@pytest.mark.parametrize("name", sorted(V1))
def test_a_v1_job_is_valid_if_and_only_if_the_release_takes_it(name, release, lenient):
    """The two servers differ in jobEnvs; both verdicts are met."""
    job = json.loads((DATA / "corpus_v1" / name).read_text(encoding="utf-8"))
    problems = refused(validate_job(job, release=release), lenient=lenient)
    assert (not problems) == V1[name][f"v{release}"]["accept"]
    assert all(problem.level is Level.REFUSED for problem in problems)


@pytest.mark.parametrize("name", sorted(V1))
def test_a_v1_job_that_some_release_takes_is_valid_for_any(name):
    """Without a release nothing that a real 0.14.0 or 0.7.1 takes is refused."""
    assert validate_job(json.loads((DATA / "corpus_v1" / name).read_text(encoding="utf-8"))) == []


def test_what_1_8_0_refuses_is_refused_for_its_own_reason():
    """Every reason of the server is among ours, at the place that the server names."""
    name = "examples_item_protocols_old_templates_couplet_dataset__12655a5844.yaml"
    document = read_yaml((DATA / "corpus_v2" / name).read_text(encoding="utf-8"), name)
    problems = refused(validate_protocol(document.value, lines=document.lines), lenient=True)
    assert [str(problem) for problem in problems] == [
        (
            "name: 'Couplet Dataset' is not a name of 1 to 255 letters, digits, '-' and '_' "
            f"(line {document.lines['name',]})"
        ),
        (
            "prerequisites[1].uri: '/mnt/confignfs/couplet_data' is not a list of URIs "
            f"(line {document.lines['prerequisites', 1, 'uri']})"
        ),
    ]
