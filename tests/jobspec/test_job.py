"""PaiJob, TaskRole, Port and slot_to_dict, beside those of luigi.contrib.pai."""

from __future__ import annotations

import inspect
import json
import math

import luigi
import luigi.contrib.pai as contrib
import pytest
from luigi.freezing import FrozenOrderedDict

import luigi_pai.jobspec.job as ours
from luigi_pai.jobspec.job import UNSET, PaiJob, Port, TaskRole, slot_to_dict


def roles(module) -> list:
    """Return the same task roles, built with one module or the other."""
    ports = [module.Port("tensorboard"), module.Port("metrics", 8080, 3)]
    numbers = {"taskNumber": 2, "cpuNumber": 4, "memoryMB": 8192, "shmMB": 128, "gpuNumber": 1}
    return [
        module.TaskRole("worker", 'python train.py --note "grüße"', portList=ports, **numbers),
        module.TaskRole("ps", "python ps.py"),
    ]


# ---------------------------------------------------------------- the contract with luigi.contrib.pai


@pytest.mark.parametrize("name", ["PaiJob", "TaskRole", "Port", "slot_to_dict"])
def test_signatures_begin_as_those_of_contrib(name):
    """contrib's arguments come first, with their names, order and defaults; new ones have a default."""
    theirs = list(inspect.signature(getattr(contrib, name)).parameters.values())
    here = list(inspect.signature(getattr(ours, name)).parameters.values())
    old, new = here[: len(theirs)], here[len(theirs) :]
    assert [(p.name, p.kind, p.default) for p in old] == [(p.name, p.kind, p.default) for p in theirs]
    assert all(p.default is not inspect.Parameter.empty for p in new)


@pytest.mark.parametrize("name", ["PaiJob", "TaskRole", "Port"])
def test_slots_contain_those_of_contrib_in_their_order(name):
    """Whatever attribute users set on an object of luigi.contrib.pai, they can set here."""
    theirs = getattr(contrib, name).__slots__
    assert [slot for slot in getattr(ours, name).__slots__ if slot in theirs] == list(theirs)


@pytest.mark.parametrize("filled", [False, True], ids=["required-fields", "all-fields"])
def test_json_is_byte_for_byte_what_contrib_posts(filled):
    """The same job serializes to the same text as luigi.contrib.pai posts, field order included."""
    texts = []
    for module in (contrib, ours):
        job = module.PaiJob("train-1", "openpai/pai.example.sklearn", roles(module))
        fields = {"virtualCluster": "default", "retryCount": 0, "gpuType": None, "dataDir": None}
        fields |= {"authFile": "$PAI_DEFAULT_FS_URI/auth", "codeDir": "$PAI_DEFAULT_FS_URI/code"}
        fields |= {"outputDir": "$PAI_DEFAULT_FS_URI/train-1/output"}
        for field, value in fields.items() if filled else ():
            setattr(job, field, value)
        texts.append(json.dumps(job, default=module.slot_to_dict))
    assert texts[0] == texts[1] == job.to_json()


def test_arguments_of_the_job_are_its_fields():
    """What contrib's users set as attributes can be given as arguments, with the same text."""
    values = ("auth", "data", "out", "code", "vc1", "K80", 3)
    by_argument, by_attribute = PaiJob("a", "i", roles(ours), *values), PaiJob("a", "i", roles(ours))
    fields = ("authFile", "dataDir", "outputDir", "codeDir", "virtualCluster", "gpuType", "retryCount")
    for field, value in zip(fields, values, strict=True):
        setattr(by_attribute, field, value)
    assert by_argument == by_attribute
    assert by_argument.to_json() == by_attribute.to_json()


# ---------------------------------------------------------------- slot_to_dict


def test_none_is_dropped_and_null_kept_where_it_means_never():
    """None leaves a field out, except in the two counts, where the server reads null as never."""
    role = TaskRole("w", "c", minFailedTaskCount=None, minSucceededTaskCount=2)
    role.shmMB = None
    fields = slot_to_dict(role)
    assert "shmMB" not in fields
    assert fields["minFailedTaskCount"] is None
    assert fields["minSucceededTaskCount"] == 2


def test_counts_not_given_are_left_to_the_server():
    """Without the two counts the posted role does not mention them, and reading them says so."""
    role = TaskRole("w", "c")
    assert not {"minFailedTaskCount", "minSucceededTaskCount"} & set(slot_to_dict(role))
    assert role.minFailedTaskCount is UNSET
    assert repr(UNSET) == "UNSET"


class Pinned(TaskRole):
    """It adds fields and loses none."""

    __slots__ = ("gpuModel", "neverSet")


class Private:
    """Names with two underscores, and attributes outside the slots, are no fields."""

    __slots__ = ("__dict__", "__secret", "shown")


class Label:
    """Its slot is one field, and not five of a letter."""

    __slots__ = "label"  # noqa: PLC0205  what this test is about


@pytest.mark.parametrize(
    ("made", "attributes", "fields"),
    [
        (Pinned("w", "c"), {"gpuModel": "K80"}, slot_to_dict(TaskRole("w", "c")) | {"gpuModel": "K80"}),
        (Private(), {"_Private__secret": "s", "shown": 1, "loose": 2}, {"shown": 1}),
        (Label(), {"label": "x"}, {"label": "x"}),
    ],
)
def test_the_slots_of_a_class_and_its_bases_are_the_fields(made, attributes, fields):
    """Those of bases come first."""
    for name, value in attributes.items():
        setattr(made, name, value)
    assert list(slot_to_dict(made).items()) == list(fields.items())


@pytest.mark.parametrize(
    "foreign", [{1, 2}, object(), 1j, math.nan, -math.inf], ids=lambda value: type(value).__name__
)
def test_foreign_objects_are_refused_by_name(foreign):
    """What is neither a JSON value nor part of a job; NaN and the infinities, which no server reads."""
    message = f"^{type(foreign).__name__} is neither a JSON value nor part of a job$"
    job = PaiJob("a", "i", [TaskRole("w", "c")], extras={"x": foreign})
    with pytest.raises((TypeError, ValueError), match="compliant" if isinstance(foreign, float) else message):
        job.to_json()
    with pytest.raises(TypeError, match=message):
        slot_to_dict(foreign)


# ---------------------------------------------------------------- the three classes


def test_ports_are_not_shared_between_roles():
    """Appending a port to one role leaves the others, and the default, alone."""
    first, second = TaskRole("a", "c"), TaskRole("b", "c")
    first.portList.append(Port("http2"))
    assert second.portList == []
    assert TaskRole("c", "c").portList == []


def test_a_list_given_for_ports_or_tasks_stays_the_callers():
    """What is added to it later is sent, as luigi.contrib.pai does."""
    ports, tasks = [Port("a")], [TaskRole("w", "c")]
    role, job = TaskRole("w", "c", portList=ports), PaiJob("j", "i", tasks)
    ports.append(Port("b"))
    tasks.append(role)
    assert role.portList == [Port("a"), Port("b")]
    assert job.taskRoles == [TaskRole("w", "c"), role]


def test_no_list_of_ports_is_no_field():
    """As in luigi.contrib.pai."""
    theirs, here = (module.TaskRole("w", "c", portList=None) for module in (contrib, ours))
    assert slot_to_dict(theirs) == slot_to_dict(here)


@pytest.mark.parametrize("tasks", [[], (), None, "worker", TaskRole("w", "c"), {"w": 1}, "".upper])
def test_a_job_without_a_list_of_roles_is_a_type_error(tasks):
    """Also if they are the property of a task whose decorator was forgotten; the job is named."""
    message = "a method; put @property above it$" if callable(tasks) else ".*; it must be a list with at"
    with pytest.raises(TypeError, match=f"^job 'j': tasks is {message}"):
        PaiJob("j", "i", tasks)


def test_jobs_are_equal_by_their_fields_and_show_them():
    """Equality and repr go by fields, without values of jobEnvs; there is no hash of what can be changed."""
    assert PaiJob("j", "i", [TaskRole("w", "c")]) == PaiJob("j", "i", [TaskRole("w", "c")])
    assert PaiJob("j", "i", [TaskRole("w", "c")]) != PaiJob("j", "i", [TaskRole("w", "d")])
    assert Port("a") != "a"
    assert repr(Port("a", 1, 2)) == "Port(label='a', beginAt=1, portNumber=2)"
    job = PaiJob("j", "i", [TaskRole("r", "c")], jobEnvs={"KEY": "hunter2"})
    assert "jobEnvs={'KEY': '...'}" in repr(job)
    with pytest.raises(TypeError, match="unhashable"):
        hash(Port("a"))


def test_frozen_dict_parameters_of_luigi_are_json_objects():
    """A DictParameter's frozen value serves as jobEnvs, extras, or a whole role."""
    frozen = luigi.DictParameter().parse('{"LR": "0.1", "deep": {"a": [1, {"b": 2}]}}')
    assert isinstance(frozen, FrozenOrderedDict)
    job = PaiJob("j", "i", (luigi.DictParameter().parse('{"name": "w", "command": "c"}'),), extras=frozen)
    assert job.to_dict()["extras"] == {"LR": "0.1", "deep": {"a": [1, {"b": 2}]}}
    assert job.to_dict()["taskRoles"] == [{"name": "w", "command": "c"}]


def test_new_fields_come_after_the_old_ones():
    """killAllOnCompletedTaskNumber, jobEnvs and extras are the last of the text, and absent if not given."""
    new = {"killAllOnCompletedTaskNumber": 1, "jobEnvs": {"A": "1"}, "extras": {"b": 2}}
    plain, job = (PaiJob("j", "i", [TaskRole("w", "c")], retryCount=1, **more) for more in ({}, new))
    assert job.to_json() == plain.to_json()[:-1] + (
        ', "killAllOnCompletedTaskNumber": 1, "jobEnvs": {"A": "1"}, "extras": {"b": 2}}'
    )
