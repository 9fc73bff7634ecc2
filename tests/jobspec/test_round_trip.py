"""YAML to JobProtocol to YAML means the same, for real protocols and for made ones."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from job_files import parameters

from luigi_pai.errors import SpecError
from luigi_pai.jobspec.dialects.yaml_text import read_yaml, write_yaml
from luigi_pai.jobspec.protocol import JobProtocol

NAMES = st.text("abcXYZ019_-", min_size=1, max_size=8)
TEXTS = st.text(max_size=20)
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), TEXTS)
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(NAMES, inner, max_size=2)),
    max_leaves=4,
)
COMMANDS = st.lists(TEXTS, max_size=3)


def mapping(**fields):
    """Return a strategy of mappings with some of the fields, and further keys."""
    optional = st.fixed_dictionaries({}, optional=fields)
    further = st.dictionaries(NAMES.map("x{}".format), ANYTHING, max_size=1)
    return st.tuples(optional, further).map(lambda both: {**both[0], **both[1]})


def named(of):
    return st.dictionaries(NAMES, of, max_size=2)


CALLBACKS = st.lists(mapping(event=TEXTS, commands=COMMANDS), max_size=2)
PREREQUISITES = mapping(
    name=NAMES,
    type=st.sampled_from(["dockerimage", "script", "data", "output"]),
    uri=ANYTHING,
    plugin=TEXTS,
    require=st.lists(NAMES, max_size=2),
    failurePolicy=TEXTS,
    callbacks=CALLBACKS,
    auth=mapping(username=TEXTS, password=TEXTS, registryuri=TEXTS),
)
ROLES = mapping(
    dockerImage=NAMES,
    commands=COMMANDS,
    instances=LEAVES,
    resourcePerInstance=mapping(cpu=LEAVES, memoryMB=LEAVES, gpu=LEAVES, ports=named(LEAVES)),
    completion=mapping(minFailedInstances=LEAVES, minSucceededInstances=LEAVES),
    prerequisites=st.lists(NAMES, max_size=2),
    data=NAMES,
    extraContainerOptions=mapping(shmMB=LEAVES, infiniband=LEAVES),
)
EXTRAS = st.fixed_dictionaries(
    {},
    optional={
        "com.microsoft.pai.runtimeplugin": st.one_of(
            ANYTHING, st.lists(mapping(plugin=TEXTS, parameters=ANYTHING, taskroles=ANYTHING), max_size=2)
        ),
        "storages": st.one_of(ANYTHING, st.lists(mapping(name=NAMES, mountPath=TEXTS), max_size=2)),
        "hivedScheduler": st.one_of(ANYTHING, mapping(jobPriorityClass=TEXTS, taskRoles=ANYTHING)),
        "jobStatusChangeNotification": st.one_of(ANYTHING, mapping(running=LEAVES)),
        "further": ANYTHING,
    },
)
PROTOCOLS = mapping(
    protocolVersion=LEAVES,
    name=TEXTS,
    type=TEXTS,
    version=LEAVES,
    description=TEXTS,
    parameters=named(ANYTHING),
    secrets=named(ANYTHING),
    jobRetryCount=LEAVES,
    prerequisites=st.lists(PREREQUISITES, max_size=2),
    taskRoles=named(ROLES),
    deployments=st.lists(
        mapping(name=NAMES, taskRoles=named(mapping(preCommands=COMMANDS, postCommands=COMMANDS))), max_size=2
    ),
    defaults=mapping(virtualCluster=TEXTS, deployment=TEXTS),
    extras=EXTRAS,
)


@pytest.mark.parametrize("file", parameters("v2"))
def test_a_protocol_of_a_file_goes_through_unharmed(file):
    """Or it is not read, for a reason: 1.8.0 refuses it, or takes what is meant for another thing."""
    try:
        job = JobProtocol.from_file(file.path)
    except SpecError:
        odd = ("item_left_out.yaml", "taken_and_breaks_later.yaml", "words_and_numbers.yaml")
        assert not file.accepted("v1.8.0") or file.name in odd
        return
    assert job.to_yaml() == file.text
    document = read_yaml(file.text).value
    assert job.to_dict() == document
    rewritten = JobProtocol.from_dict(job.to_dict()).to_yaml()
    assert rewritten == write_yaml(document)
    assert read_yaml(rewritten).value == document
    assert yaml.safe_load(rewritten) == document


@pytest.mark.slow
@settings(deadline=None, database=None, max_examples=200)
@given(PROTOCOLS)
def test_a_made_protocol_goes_through_unharmed(document):
    text = write_yaml(document)
    job = JobProtocol.from_yaml(text)
    assert job.to_yaml() == text
    assert job.to_dict() == document
    assert list(job.to_dict()) == list(document)
    assert JobProtocol.from_dict(document).to_yaml() == text
    assert JobProtocol.from_dict(document) == job
