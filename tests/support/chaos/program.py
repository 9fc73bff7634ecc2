"""The pipelines of the rounds, as a user writes them; ``program.py JSON`` runs one with Luigi.

Each command appends the name of its submission to the file ``history``. A label says how the command ends:
``ok`` succeeds, ``flaky`` fails in its first submission, ``hopeless`` in all.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import luigi
from luigi.execution_summary import _summary_dict

from chaos import seeded_bugs
from chaos.crash_points import kill_at_request
from chaos.disk_faults import fail_files
from luigi_pai import OpenPai, PaiJobFailed, PaiPythonTask, PaiSweep, PaiTask, TaskRole

given = json.loads(sys.argv[1])
folder, prefix, seconds = Path(given["folder"]), given["prefix"], given["seconds"]

ENDS = {
    "ok": "true",
    "flaky": 'case "$PAI_JOB_NAME" in *__attempt*) true;; *) false;; esac',
    "hopeless": "false",
}


class Step(PaiTask):
    """A task by itself, or a point of a sweep."""

    label = luigi.Parameter()
    image = "x"

    @property
    def name(self):
        return f"{prefix}-{self.label}"

    @property
    def tasks(self):
        end = ENDS[self.label.partition("-")[0]]
        command = f'echo "$PAI_JOB_NAME" >> {folder}/history; sleep {seconds}; {end}'
        return [TaskRole("main", command, memoryMB=100)]


class Method(PaiPythonTask):
    """A step that is a Python method."""

    label = luigi.Parameter()
    image = "python:3"
    memory_mb = 100
    python = sys.executable

    @property
    def name(self):
        return f"{prefix}-{self.label}"

    def work(self):
        import os  # noqa: PLC0415  that of the container
        import time  # noqa: PLC0415  as above

        job, kind = os.environ["PAI_JOB_NAME"], self.label.partition("-")[0]
        with (folder / "history").open("a") as history:
            history.write(f"{job}\n")
        time.sleep(seconds)
        if kind == "hopeless" or (kind == "flaky" and "__attempt" not in job):
            raise RuntimeError(kind)


Point = Method if given["python"] else Step


class Retried(Step):
    """A task that one run submits twice if it fails."""

    max_attempts = 2


class Whole(Retried):
    """A task with uploads and kept logs; its command fails if it finds a part of a file."""

    keep_logs = True
    code_dir = f"$PAI_DEFAULT_FS_URI/{prefix}/code"

    @property
    def uploads(self):
        code = folder / "code"
        for number in range(4):
            file = code / f"part-{number % 2}" / f"{number}.txt"
            file.parent.mkdir(parents=True, exist_ok=True)
            if not file.exists():
                file.write_text("line\n" * 1000 + "end\n")
        return {str(code): self.code_dir}

    @property
    def tasks(self):
        (role,) = super().tasks
        whole = "[ $(cat code/part-*/*.txt | wc -l) = 4004 ] || exit 9; echo said"
        return [TaskRole("main", f"{whole}; {role.command}", memoryMB=100)]


class Link(Step):
    """A task of a chain: each requires the one before."""

    def requires(self):
        number = int(self.label.partition("-")[2])
        return Link(label=f"ok-{number - 1}") if number else []


class MethodLink(Method):
    """A method of a chain: it is sent when the one before has a result."""

    before = luigi.ListParameter()
    max_attempts = 2

    def requires(self):
        return [MethodLink(label=self.before[-1], before=self.before[:-1])] if self.before else []

    def work(self):
        super().work()
        return {"label": self.label}


def results(name):
    """Return the folder of a sweep's results."""
    return f"{given['results']}/{prefix}-{name}"


class Study(PaiSweep):
    """A sweep; where it has packs, its points share jobs."""

    labels = luigi.ListParameter()
    parallel_jobs = 4
    max_attempts = 2
    tolerance = 1

    @property
    def name(self):
        return f"study-{self.labels[0]}"

    @property
    def results_dir(self):
        return results(self.name)

    def points(self):
        return [Point(label=label) for label in self.labels]


class Search(PaiSweep):
    """A search: what it asks for depends on what it was told, and in which order."""

    parallel_jobs = 2
    name = "search"

    @property
    def results_dir(self):
        return results(self.name)

    def points(self):
        self.seen = ""
        for number in range(given["budget"]):
            digest = hashlib.sha256(f"{number} {self.seen}".encode()).hexdigest()[:8]
            yield Step(label=f"ok-{digest}")

    def tell(self, point, row):
        self.seen += f"{point.label} {row['state']} "


def function(label, job, history):
    """Do what the command of a step does."""
    import os  # noqa: PLC0415  that of the container

    name = os.environ["PAI_JOB_NAME"]
    with open(history, "a") as file:  # noqa: PTH123
        file.write(f"{name}\n")
    if label.startswith("flaky") and name == job:
        raise RuntimeError(label)
    return label


def call_functions():
    """Run the workload of functions, as a script does, and return its exit code and what it says of each."""
    cluster = OpenPai.current().cluster()
    settings = {"image": "python:3", "memory_mb": 100, "python": sys.executable, "max_attempts": 2}
    names = [f"{prefix}-{label}" for label in given["labels"][0]]
    jobs = [
        cluster.call(function, label, name, f"{folder}/history", name=name, **settings)
        for label, name in zip(given["labels"][0], names, strict=True)
    ]
    done = []
    for job, label, name in zip(jobs, given["labels"][0], names, strict=True):
        try:
            assert job.result() == label, job.result()
        except PaiJobFailed as error:
            sys.stderr.write(f"{error}\n")
        else:
            done.append(name)
    if len(done) == len(names):
        (folder / f"report-{given['turn']}").touch()
    return 0 if len(done) == len(names) else 30, {"done": done, "failed": sorted(set(names) - set(done))}


class Report(luigi.Task):
    """Comes after all of them, in each run."""

    turn = luigi.Parameter()

    def requires(self):
        workload, labels = given["workload"], given["labels"]
        if workload == "chain":
            return Link(label=labels[0][-1])
        if workload == "failing":
            return [Retried(label=label) for label in labels[0]]
        if workload == "files":
            return [Whole(label=label) for label in labels[0]]
        if workload == "search":
            return Search()
        if workload == "methods":
            return MethodLink(label=labels[0][-1], before=labels[0][:-1])
        if workload == "dynamic":
            return []
        studies = zip(labels, given["packs"], strict=True)
        return [
            *(Study(labels=each, points_per_job=pack) for each, pack in studies),
            *(Point(label=label) for label in given["beside"]),
        ]

    def output(self):
        return luigi.LocalTarget(f"{folder}/report-{self.turn}")

    def run(self):
        if given["workload"] == "dynamic":
            for label in given["labels"][0]:
                yield Retried(label=label)
        if given["workload"] == "methods":
            assert self.requires().result() == {"label": given["labels"][0][-1]}
        with self.output().open("w"):
            pass


def run_luigi():
    """Run the pipeline, and return its exit code and what Luigi says of each task."""
    outcome = luigi.build(
        [Report(turn=given["turn"])],
        workers=given["workers"],
        no_lock=True,
        local_scheduler=True,
        log_level="INFO",
        detailed_summary=True,
    )
    kinds = _summary_dict(outcome.worker)
    done = [
        task.name for kind in ("completed", "already_done") for task in kinds[kind] if hasattr(task, "name")
    ]
    failed = [
        task.name for kind in ("failed", "ever_failed") for task in kinds[kind] if hasattr(task, "name")
    ]
    said = {"done": sorted(done), "failed": sorted(set(failed) - set(done))}
    return 0 if outcome.scheduling_succeeded else 30, said


if __name__ == "__main__":
    seeded_bugs.apply(given["bug"])
    kill_at_request(given["kill_at"], folder / f"count-{given['turn']}")
    fail_files(given["files"], folder / f"changes-{given['turn']}")
    code, said = call_functions() if given["workload"] == "functions" else run_luigi()
    whole = folder / f"said-{given['turn']}.part"  # a kill may come while it is written
    whole.write_text(json.dumps(said))
    whole.rename(folder / f"said-{given['turn']}")
    sys.exit(code)
