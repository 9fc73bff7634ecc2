"""PaiProtocolTask: what it submits, and that it lives as a PaiTask does."""

from __future__ import annotations

import pickle
from pathlib import Path

import luigi
import pytest
from lives import Life, lives

from luigi_pai import JobProtocol, PaiJobTarget, PaiProtocolTask
from luigi_pai.api.dialects.v2 import V2Dialect
from luigi_pai.errors import PaiJobFailed, SpecError
from luigi_pai.jobspec.submission import submission_text

TEXT = """\
# a comment that is kept
protocolVersion: 2
name: study
type: job
prerequisites:
  - {name: image, type: dockerimage, uri: ubuntu}
parameters: {rate: 0.1, steps: 5}
taskRoles:
  worker:
    instances: 1
    dockerImage: image
    resourcePerInstance: {cpu: 1, memoryMB: 1024, gpu: 0}
    commands: ["train <% $parameters.rate %> <% $parameters.steps %>"]
"""


class Study(PaiProtocolTask):
    """The plainest one."""

    protocol = TEXT


class Sweep(PaiProtocolTask):
    """One with parameters and secrets."""

    rate = luigi.FloatParameter(default=0.5)
    protocol = TEXT

    @property
    def parameters(self):
        return {"rate": self.rate}

    @property
    def secrets(self):
        return {"key": "hush-hush"}


def task_of(protocol=TEXT, **attributes):
    """Return a task with this protocol."""
    return type("Own", (PaiProtocolTask,), {"protocol": protocol, **attributes})()


@pytest.fixture
def cluster(pai):
    pai.release = "1.8.0"
    return pai


@pytest.mark.usefixtures("cluster")
def test_the_protocol_is_sent_as_it_was_written(monkeypatch):
    """Comments, order and style of a text that nothing was merged into reach the server."""
    posted = []
    submit = V2Dialect.submit

    def note(dialect, job):
        posted.append(submission_text(job))
        submit(dialect, job)

    monkeypatch.setattr(V2Dialect, "submit", note)
    Study().run()
    assert posted == [TEXT]


def test_each_set_of_parameters_is_a_job_of_its_own(cluster):
    """The name of a task with parameters is the protocol's, with a hash of their values."""
    tasks = [Sweep(rate=rate) for rate in (0.1, 0.2)]
    assert luigi.build(tasks, local_scheduler=True, no_lock=True)
    assert len(cluster.posts()) == 2
    assert all(name.startswith("study_") and len(name) == len("study_") + 10 for name in cluster.posts())
    assert Sweep(rate=0.1).name == Sweep(rate=0.1).name != Sweep(rate=0.2).name
    assert Study().name == "study"


def test_its_output_exists_when_the_job_has_succeeded(cluster):
    """Not before, and not after a failure."""
    output = Study().output()
    assert isinstance(output, PaiJobTarget)
    assert not output.exists()
    cluster.plan = {"ends_as": "FAILED", "exit_code": 255}
    with pytest.raises(PaiJobFailed):
        Study().run()
    assert not output.exists()
    cluster.plan = {}
    Study().run()
    assert output.exists()
    assert cluster.posts() == ["study", "study__attempt2"]
    assert repr(output) == "PaiJobTarget(Study())"


def test_it_is_run_once(cluster):
    """A second run finds the job; a downstream task runs after it."""

    class After(luigi.Task):
        ran = False

        def requires(self):
            return Study()

        def complete(self):
            return self.ran

        def run(self):
            assert self.input().exists()
            type(self).ran = True

    assert luigi.build([After()], local_scheduler=True, no_lock=True)
    assert luigi.build([After()], local_scheduler=True, no_lock=True)
    assert cluster.posts() == ["study"]


def test_its_outputs_outlive_the_servers_memory(cluster, tmp_path):
    """When the server has forgotten the job, targets of the user's own decide."""
    path = tmp_path / "model"
    task = task_of(output=lambda _: luigi.LocalTarget(str(path)))
    assert not task.complete()
    path.touch()
    assert task.complete()
    task.run()
    assert cluster.posts() == []


def test_its_own_target_may_be_one_of_several(cluster, tmp_path):
    """It asks for the job alone, not for the outputs that it is one of."""
    path = tmp_path / "model"

    class Writes(Study):
        def output(self):
            return {"job": super().output(), "model": luigi.LocalTarget(str(path))}

    assert not Writes().complete()
    path.touch()
    assert not Writes().complete()
    Writes().run()
    assert Writes().complete()
    assert Writes().output()["job"].exists()
    assert cluster.posts() == ["study"]


@lives("protocol")
def test_a_life(pai, settings, caplog, steps):
    Life(pai, settings, caplog, Study).play(steps)


# ---------------------------------------------------------------- forms of protocol


def test_a_path_is_relative_to_the_module(tmp_path, monkeypatch, load):
    """Not to the folder in which luigi was started."""
    monkeypatch.setattr(Path, "cwd", lambda: tmp_path / "elsewhere")
    (tmp_path / "job.yaml").write_text(TEXT)
    source = "from luigi_pai import PaiProtocolTask as Base\nclass File(Base):\n    protocol = 'job.yaml'\n"
    assert load(source).File().job().to_yaml() == TEXT


@pytest.mark.usefixtures("cluster")
def test_a_corrected_file_is_read_by_the_next_run(tmp_path):
    """Luigi has one task for the same parameters as long as a process lives, in a notebook for days."""
    path = tmp_path / "job.yaml"
    task = task_of(str(path), name="corrected")
    for text in ("nonsense: [", None, TEXT.replace("commands:", "command:")):
        if text is not None:
            path.write_text(text)
        else:
            path.unlink()
        with pytest.raises((OSError, SpecError)):
            task.run()
    path.write_text(TEXT)
    task.run()
    assert task.complete()
    path.write_text(TEXT.replace("name: study", "name: study\ndescription: changed"))
    assert task.complete()
    assert "description: changed" in task.job().to_yaml()


def test_forms_of_protocol(tmp_path):
    """A JobProtocol, a path object, flow YAML in one line, a property."""
    (tmp_path / "job.yaml").write_text(TEXT)
    forms = [
        JobProtocol.from_yaml(TEXT),
        tmp_path / "job.yaml",
        str(tmp_path / "job.yaml"),
        '{"protocolVersion": 2, "name": "study", "type": "job", "taskRoles": {}}',
        property(lambda _: TEXT),
    ]
    assert [task_of(form).job().name for form in forms] == ["study"] * len(forms)


@pytest.mark.parametrize(
    ("about", "error", "message"),
    [
        ({"protocol": 7}, TypeError, "protocol of Own is int; use a JobProtocol, a YAML string or a path"),
        ({"protocol": PaiProtocolTask.protocol}, TypeError, "abstract"),
        ({"protocol": "protocolVersion: 2\nname: [x\n"}, SpecError, r"line \d"),
        ({"protocol": "missing/no.yaml"}, OSError, r"no\.yaml"),
        ({"name": "x" * 244}, SpecError, "name: has 244 characters; the limit for a task's job is 243"),
    ],
)
def test_what_protocol_must_not_be(about, error, message):
    """One clear error, with where it is, before anything is sent."""
    with pytest.raises(error, match=message):
        task_of(**about).run()


def test_problems_are_found_before_anything_is_sent(pai):
    """All at once, with path and line; not a request."""
    text = TEXT.replace("dockerImage: image", "dockerImage: imag").replace(
        "parameters.steps", "parameters.step"
    )
    with pytest.raises(SpecError) as caught:
        task_of(text).run()
    parts = ["job 'study' was not submitted: 2 problems", "taskRoles.worker.dockerImage"]
    parts += ["taskRoles.worker.commands[0]", "(line 13)"]
    assert [part for part in parts if part not in str(caught.value)] == []
    assert pai.calls == []


@pytest.mark.usefixtures("cluster")
def test_warnings_are_logged(caplog):
    """What the server reads in a surprising way, and what the runtime is known to do, without the value."""
    text = TEXT.replace("steps: 5", "steps: 2020-01-02") + "secrets: {key: a<hush}\n"
    task_of(text.replace("<% $parameters.rate %>", "<% $secrets.key %>")).run()
    assert "Job study: parameters.steps: the server reads this as a date" in caplog.text
    assert "Job study: secrets.key: has one of the characters" in caplog.text
    assert "hush" not in caplog.text


@pytest.mark.slow
def test_a_job_that_grows_too_large_is_not_sent(pai):
    """What prerequisites require is added to each role; the limit counts for what is sent."""
    roles = "".join(f"  r{number}: {{<<: *role}}\n" for number in range(60))
    required = ", ".join(f"'{number:0>40}'" for number in range(50))
    names = "".join(f"  - {{name: '{number:0>40}', type: script}}\n" for number in range(50))
    text = (
        "protocolVersion: 2\nname: study\ntype: job\nprerequisites:\n"
        "  - {name: image, type: dockerimage, uri: ubuntu}\n"
        f"  - {{name: all, type: script, require: [{required}]}}\n{names}"
        "taskRoles:\n  worker: &role\n    instances: 1\n    dockerImage: image\n    prerequisites: [all]\n"
        "    resourcePerInstance: {cpu: 1, memoryMB: 1024, gpu: 0}\n    commands: [x]\n" + roles
    )
    pai.release = "1.8.0"
    message = r"has \d{3},\d{3} bytes as it is sent; servers accept at most 102,400"
    with pytest.raises(SpecError, match=message):
        task_of(text).run()
    assert pai.posts() == []


# ---------------------------------------------------------------- secrets


def test_secrets_are_shown_nowhere(cluster, caplog):
    """Not in Luigi's log, not in the error of a failed task, though the job's own diagnostics repeat one."""
    cluster.plan = {"ends_as": "FAILED", "exit_code": 1, "diagnostics": "cannot log in with hush-hush"}
    caplog.set_level("DEBUG")
    task = Sweep()
    with pytest.raises(PaiJobFailed) as caught:
        task.run()
    assert "cannot log in with ******" in str(caught.value)
    shown = [caplog.text, str(caught.value), repr(task), repr(task.job()), repr(task.output()), task.task_id]
    assert not [text for text in shown if "hush" in text]


@pytest.mark.parametrize(
    ("secret", "logged"),
    [
        ("first-hush\nlast-hush\n", "using: last-hush"),
        (1234567890, "using: 1234567890"),
        ("hush<hush", "using: hush&lt;hush"),
        ({"a": ["hush-hush"]}, "using: hush-hush"),
    ],
)
def test_secrets_are_known_in_any_form(cluster, secret, logged):
    """In lines, as a number, as the runtime escapes them: not in the failure, its status or its pickle."""
    cluster.plan = {"ends_as": "FAILED", "exit_code": 1, "diagnostics": logged}
    with pytest.raises(PaiJobFailed) as caught:
        task_of(secrets={"key": secret}).run()
    assert "using: ******" in str(caught.value)
    assert caught.value.status.diagnostics == "using: ******"
    assert logged[-4:].encode() not in pickle.dumps(caught.value)


@pytest.mark.usefixtures("cluster")
def test_a_lookup_needs_no_secrets():
    """They may be there only where jobs are submitted."""

    class Elsewhere(Study):
        @property
        def secrets(self):
            raise KeyError("STORAGE_KEY")

    assert not Elsewhere().complete()
    with pytest.raises(KeyError, match="STORAGE_KEY"):
        Elsewhere().run()


def test_secrets_are_not_in_a_problem():
    """A secret of the wrong kind is named, not shown."""
    text = TEXT.replace("steps %>", "steps %> <% $secrets.key[3] %>") + "secrets: {key: [hush-hush]}\n"
    with pytest.raises(SpecError) as caught:
        task_of(text).run()
    assert "hush" not in str(caught.value)


def test_it_is_rendered_without_its_secrets():
    """The text that is sent, with stars; filled, the commands."""
    assert Study().render() == TEXT
    assert Study().render(filled=True) == "# taskRoles.worker\ntrain 0.1 5\n"
    shown = Sweep(rate=0.25).render()
    assert "rate: 0.25" in shown
    assert "key: '******'" in shown
    assert "hush" not in shown


def test_a_secret_in_a_mapping_is_rendered_as_stars():
    """Also where the command refers to a part of it."""
    text = TEXT.replace("steps %>", "steps %> <% $secrets.key.a[0] %>")
    task = task_of(text, secrets={"key": {"a": ["hush-hush"]}})
    assert task.render(filled=True) == "# taskRoles.worker\ntrain 0.1 5 ******\n"
    assert "hush" not in task.render()


def test_it_is_picklable():
    """Luigi hands tasks to worker processes."""
    task = pickle.loads(pickle.dumps(Study()))
    assert task.job().to_yaml() == TEXT
    assert pickle.loads(pickle.dumps(Study().output())).task.name == "study"
