"""A Python function as a job: Cluster.call() and Cluster.map()."""

from __future__ import annotations

import functools
import math
import re
import shutil
import subprocess
import sys
import threading

import luigi
import pytest
from places import PROGRAMS, ROOT
from python_clusters import on
from python_functions import (
    Locked,
    Model,
    added,
    asynchronous,
    broken,
    counted,
    generated,
    held,
    nothing,
    returning,
    scaled,
)

from luigi_pai import Cluster, OpenPai, PaiError, PaiJobFailed, SpecError

on_two = on(("v1", True), ("v2", False))
on_v2 = on(("v2", False))


@pytest.fixture
def cluster(any_cluster):  # noqa: ARG001  it sets [OpenPai]
    """The cluster of luigi.cfg."""
    return OpenPai.current().cluster()


@pytest.fixture
def settings_of_call(bare_python):
    """What each call gets."""
    return {"image": "python:3", "python": bare_python, "memory_mb": 100}


@pytest.fixture
def nowhere(settings):
    """A cluster that is not there: nothing may be sent."""
    settings(pai_url="http://127.0.0.1:1", username="anna", password="secret-of-anna")
    return OpenPai.current().cluster()


@pytest.mark.slow
def test_a_function_runs_in_an_image_that_has_python_alone(cluster, settings_of_call, run_id, caplog):
    """Its value is the result; the same call again, by name or position, is the same job."""
    job = cluster.call(scaled, 7, run_id, **settings_of_call)
    assert job.result() == {"scaled": 21, "run": run_id, "luigi": False}
    assert job.done()
    assert job.status().succeeded
    again = cluster.call(scaled, kwargs={"run_id": run_id, "number": 7, "offset": 0}, **settings_of_call)
    assert again.name == job.name
    assert again.result() == job.result()
    assert again.exception() is None
    assert len([each for each in cluster.list() if each.name == job.name]) == 1
    assert "another definition" not in caplog.text


@on_two
def test_a_failure_has_the_traceback_of_the_function_alone(cluster, settings_of_call, run_id):
    """result() raises it each time; the same call then submits the next attempt."""
    job = cluster.call(broken, run_id, **settings_of_call)
    for _ in range(2):
        with pytest.raises(PaiJobFailed) as caught:
            job.result()
    assert caught.value.last_line == f"KeyError: 'no {run_id}'"
    assert job.exception() is caught.value
    assert "in broken" in str(caught.value)
    assert "luigi_pai>" not in str(caught.value)
    assert "in work" not in str(caught.value)
    assert job.done()
    assert cluster.call(broken, run_id, **settings_of_call).name == f"{job.name}__attempt2"


@on_v2
def test_a_call_is_cancelled(cluster, settings_of_call, run_id):
    """As a future is; the error is that of a stopped job."""
    job = cluster.call(held, run_id, **settings_of_call)
    job.cancel()
    assert "ended as STOPPED" in str(job.exception())


@on_v2
def test_further_attempts_are_made_by_result(cluster, settings_of_call, run_id):
    """The handle is that of the last one."""
    job = cluster.call(broken, run_id, max_attempts=2, **settings_of_call)
    with pytest.raises(PaiJobFailed):
        job.result()
    assert job.name.endswith("__attempt2")


@on_two
def test_map_has_a_job_for_each_element(cluster, settings_of_call, run_id, caplog):
    """Equal elements share one."""
    jobs = cluster.map(
        scaled, [1, 2, 2], [run_id] * 3, kwargs={"offset": 5}, tags=["mine"], **settings_of_call
    )
    assert [job.result()["scaled"] for job in jobs] == [8, 11, 11]
    assert jobs[1] is jobs[2]
    assert "map(scaled): 1 of 3 calls equal an earlier call, and share its job and result;" in caplog.text
    assert {job.name for job in jobs} == {each.name for each in cluster.list() if each.name in str(jobs)}
    assert cluster.map(scaled, [], **settings_of_call) == []


@on_v2
def test_any_callable_runs(cluster, settings_of_call, run_id):
    """Lambdas, closures, partials, methods, objects, builtins, functions of libraries; several instances."""
    number = 4
    calls = [
        (lambda: [number, run_id], (), [4, run_id]),
        (functools.partial(scaled, 1, offset=2), (run_id,), {"scaled": 5, "run": run_id, "luigi": False}),
        (Model(2).predict, (10, run_id), [23, run_id]),
        (Model(5), (run_id,), [5, run_id]),
        (nothing, (run_id,), None),
        (math.sqrt, (16,), 4.0),
        (subprocess.list2cmdline, ([run_id, "a b"],), f'{run_id} "a b"'),
        (returning, ({(1, 2), (3, 4)}, run_id), {"value": [[1, 2], [3, 4]]}),
    ]
    jobs = [cluster.call(function, *args, **settings_of_call) for function, args, _ in calls]
    first = cluster.call(counted, run_id, instances=2, **settings_of_call)
    assert [job.result() for job in jobs] == [expected for *_, expected in calls]
    assert first.result() == [0, 2, run_id]


@on_v2
def test_a_result_that_json_does_not_have_fails_the_job(cluster, settings_of_call, run_id):
    """And is not returned as its repr."""
    with pytest.raises(
        PaiJobFailed, match=r"TypeError: returning\(\) returned a object as 'value', which JSON does not"
    ) as caught:
        cluster.call(returning, None, run_id, **settings_of_call).result()
    assert "Traceback" not in str(caught.value)
    assert [entry.name for entry in caught.traceback][1:] == ["result"]


@on_v2
def test_a_cluster_that_luigi_cfg_does_not_have(any_cluster, settings_of_call, run_id):
    """Its settings are those of its own; the claims of this machine hold for both."""
    server = any_cluster.server
    own = Cluster(server.url, server.username, password=server.password)
    OpenPai.current().cluster().reset()
    luigi.configuration.get_config().set("OpenPai", "pai_url", "http://127.0.0.1:1")
    job = own.call(scaled, 1, run_id, **settings_of_call)
    assert job.result()["run"] == run_id
    assert own.call(scaled, 1, run_id, **settings_of_call).name == job.name


@on_v2
@pytest.mark.parametrize(
    "fault", [{"fault": "limit", "seconds": 1}, {"fault": "error", "status": 503, "count": 2}]
)
def test_a_result_is_read_again_after_a_transient_error(
    any_cluster, cluster, settings_of_call, run_id, fault
):
    """The end of the log has it, whose requests may be refused for a while."""
    job = cluster.call(scaled, 5, run_id, **settings_of_call)
    job.wait()
    any_cluster.server.set_faults([{"count": 1, "path": "*/logs*", **fault}])
    try:
        assert job.result()["scaled"] == 15
    finally:
        any_cluster.server.set_faults()


@on_v2
def test_several_threads_may_wait_for_one_result(cluster, settings_of_call, run_id):
    """Each gets it."""
    job, found = cluster.call(added, 1, len(run_id), **settings_of_call), []
    threads = [threading.Thread(target=lambda: found.append(job.result())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [9, 9, 9, 9]


@on_v2
def test_two_processes_that_call_the_same_have_one_job(any_cluster, bare_python, run_id, tmp_path):
    """Whatever the seed of their hashes is, and whoever is first."""
    script = shutil.copy(PROGRAMS / "calling.py", tmp_path)
    (tmp_path / "pipes.py").write_text("def ordered(values):\n    return sorted(values)\n")
    server = any_cluster.server
    words = [sys.executable, script, server.url, server.username, server.password, bare_python, run_id]

    def started(seed):
        env = {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed, "HOME": str(tmp_path)}
        return subprocess.Popen(words, env=env, text=True, stdout=subprocess.PIPE, cwd=tmp_path)

    both = [started(seed) for seed in "12"]
    printed = {process.communicate(timeout=120)[0] for process in both}
    (line,) = printed
    name, _, value = line.partition(" ")
    assert value == "['a', 'b', 'c', 'd']\n"
    assert [each.name for each in OpenPai.current().cluster().list() if each.name.startswith(name)] == [name]


# names


def named(cluster, monkeypatch, function, *args, **kwargs):
    """Return the name of a call's job, without a request."""
    from luigi_pai.functions import call  # noqa: PLC0415  loads cloudpickle

    monkeypatch.setattr(call.Run, "start", lambda _: None)
    return cluster.call(function, *args, kwargs=kwargs, image="python:3").name


def test_whatever_the_result_depends_on_is_in_the_name(nowhere, monkeypatch):
    """The source, variables of enclosing functions, constants of the module, and the arguments."""
    name = functools.partial(named, nowhere, monkeypatch)

    def closing(number):
        return lambda: number

    first_arguments = (1, 2, [1, 2], [2, 1], {"a": 1}, {"a": 2})
    names = [
        *(name(added, first) for first in first_arguments),
        name(added, 1, second=2),
        name(math.sqrt, 1),
        name(math.floor, 1),
        name(scaled, 1, "x"),
        name(Model(2), "x"),
    ]
    for number in (1, 2):
        names += [name(closing(number)), name(functools.partial(added, number))]
        names += [name(Model(number).predict, 1, "x")]
    assert len(set(names)) == len(names)
    assert names[0].startswith("added_")
    assert name(closing(1)).startswith("lambda_")
    before = name(scaled, 1, "x")
    assert before in names
    monkeypatch.setattr("python_functions.SCALE", 4)
    assert name(scaled, 1, "x") != before


def test_the_files_of_packages_are_in_the_name(nowhere, monkeypatch, tmp_path):
    """A changed module makes a new job; the order of the packages does not."""
    monkeypatch.syspath_prepend(tmp_path)
    for package in ("mine_one", "mine_two"):
        (tmp_path / f"{package}.py").write_text("RATE = 1\n")
    monkeypatch.setattr("luigi_pai.functions.call.Run.start", lambda _: None)

    def name(*packages):
        return nowhere.call(added, 1, image="python:3", packages=packages).name

    before = name("mine_one", "mine_two")
    assert before == name("mine_two", "mine_one")
    assert len({before, name("mine_one"), name()}) == 3
    (tmp_path / "mine_two.py").write_text("RATE = 2\n")
    assert name("mine_one", "mine_two") != before


def test_what_the_result_does_not_depend_on_is_not_in_the_name(nowhere, monkeypatch):
    """The way to give an argument, the order of a dict or set, and the settings of the job."""
    name = functools.partial(named, nowhere, monkeypatch)
    assert name(added, 1) == name(added, first=1) == name(added, 1, 1)
    assert name(added, {"a": 1, "b": {2, 3}}) == name(added, {"b": {3, 2}, "a": 1})
    loop: list[object] = []
    loop.append(loop)
    assert name(added, loop) == name(added, loop)


# mistakes

LOCK = threading.Lock()

MISTAKES = [  # function, arguments, settings besides the image, a part of the error
    (3.5, (), {}, "function: 3.5 is not a function: write call(fit, 0.1), not call(fit(0.1))"),
    (added, (1,), {"image": None}, 'image: is missing; name a Docker image, such as image="python:3.11"'),
    (added, (1,), {"gpu": 1}, "gpu: is not a setting of a job (did you mean 'gpus'?)"),
    (added, (1,), {"second": 2}, "second: is an argument of added(): write kwargs={'second': 2}"),
    (added, (), {}, "added(): cannot be called with these arguments: missing a required argument: 'first'"),
    (asynchronous, (), {}, "asynchronous(): is async: pass a function that runs it"),
    (generated, (), {}, "generated(): is a generator, which returns no result: return a list"),
    (added, ("x" * 2_000_000,), {}, "is 2,000,0"),
    (added, ("my secret-of-anna",), {}, "added(): args contains a password or token from luigi.cfg"),
    (added, (sys.argv,), {}, "write `import sys` and sys.argv in added()"),
    (Locked().go, (), {}, "go(): the function cannot be pickled: cannot pickle '_thread.lock' object"),
    (luigi.build, ([],), {}, "build(): comes from luigi or luigi_pai; the container has no luigi"),
    (added, (1,), {"gpus": "two"}, "gpuNumber: 'two' is not an integer of at least 0"),
    (added, (1,), {"packages": ["no_such"]}, "no_such"),
]


@pytest.mark.parametrize(("function", "args", "more", "text"), MISTAKES)
def test_a_mistake_is_named_and_nothing_is_sent(nowhere, function, args, more, text):
    """In the words of a caller."""
    about = {key: value for key, value in {"image": "p", **more}.items() if value is not None}
    with pytest.raises(SpecError) as caught:
        nowhere.call(function, *args, **about)
    assert text in str(caught.value)
    assert "secret-of-anna" not in str(caught.value)
    assert "was not submitted" in str(caught.value)


def test_a_missing_cloudpickle_is_named(nowhere, monkeypatch):
    """As what the caller has written needs it."""
    monkeypatch.setitem(sys.modules, "luigi_pai.payload.file", None)
    with pytest.raises(PaiError, match=r"^Cluster.call\(\) needs cloudpickle here: pip install cloudpickle$"):
        nowhere.call(added, 1, image="python:3")


PAIRS = "a list for each argument, as in map(scaled, [0.1, 0.2], [10, 20]) or map(scaled, *zip(*pairs))"
BOTH = "the same for all calls, or map(added, ..., [3, 4]), one for each"
MAPS = [  # function, lists, settings besides the image, the error
    (added, ([1, LOCK],), {}, SpecError, "cannot pickle '_thread.lock'"),
    (added, (0.1,), {}, TypeError, "calls a function for each element of a list: write [0.1]"),
    (added, ([1, 2], [1]), {}, ValueError, "shorter"),
    (added, ([1, 2],), {"name": "one"}, SpecError, "name: is the same for all calls of map(); leave it out"),
    (
        added,
        (),
        {"kwargs": {"first": 1}},
        TypeError,
        "list of values: write map(fit, [0.1, 0.2], ...), without",
    ),
    (
        scaled,
        ([(1, "x")] * 2,),
        {},
        SpecError,
        f"argument: 'run_id'; a tuple is one argument: give map() {PAIRS}",
    ),
    (added, ([1, 2],), {"second": [3, 4]}, SpecError, f"write kwargs={{'second': [3, 4]}}, {BOTH}"),
]


@pytest.mark.parametrize(("function", "lists", "more", "error", "text"), MAPS)
def test_map_checks_all_before_the_first_is_sent(nowhere, function, lists, more, error, text):
    """Lengths and names, too."""
    with pytest.raises(error, match=re.escape(text)):
        nowhere.map(function, *lists, image="python:3", **more)


def test_a_function_is_not_submitted(nowhere):
    """But called."""
    with pytest.raises(TypeError, match=r"is not a job: a function runs as one with call\(\), such as call"):
        nowhere.submit(added)


def test_a_result_that_is_not_there_is_an_error(nowhere, monkeypatch):
    """And not None, which a function may return."""
    from luigi_pai.functions import call  # noqa: PLC0415  loads cloudpickle

    monkeypatch.setattr(call.Run, "start", lambda _: None)
    monkeypatch.setattr(call.FunctionTask, "result", lambda _: {})
    job = nowhere.call(added, 1, image="python:3")
    assert job.done()
    with pytest.raises(PaiError, match=rf"the result of job '{job.name}' is missing"):
        job.result()
