"""Which model reads handwriting best? Three jobs on an OpenPAI, and a report about them.

::

    StageData ── TrainDigits (one job a model) ── Report ── Digits (all of it)

``StageData`` puts the data on HDFS. Each ``TrainDigits`` is a job: it uploads the training script, and
its container downloads script and data, trains one model and uploads its metrics. ``Report`` reads the
metrics of all jobs and writes a page. The pipeline is the same for a cluster and for an OpenPAI on this
machine, which is configured in [OpenPai] of luigi.cfg.
"""

from __future__ import annotations

import atexit
import enum
import json
import logging
import os
from pathlib import Path
from typing import Any

import luigi
import numpy as np

from luigi_pai import HdfsTarget, OpenPai, PaiTask, TaskRole

HOME = "$PAI_DEFAULT_FS_URI/digits"
KEPT: set[str] = set()  # jobs that had succeeded before this run
log = logging.getLogger("digits")
log.setLevel(logging.INFO)


class Model(enum.Enum):
    """The models of train.py."""

    nearest = "nearest neighbours"
    network = "neural network"
    svm = "support vector machine"
    forest = "random forest"


class StageData(luigi.Task):
    """Put scikit-learn's handwritten digits on HDFS: 1,797 images, one per line."""

    def output(self) -> HdfsTarget:
        return HdfsTarget(f"{HOME}/data/digits.csv")

    def run(self) -> None:
        from sklearn.datasets import load_digits  # noqa: PLC0415  slow to import, and needed here only

        digits: Any = load_digits()
        table = np.column_stack([digits.data, digits.target]).astype(int)
        with self.output().open("w") as file:
            np.savetxt(file, table, fmt="%d", delimiter=",")
        log.info("staged    %d images: %s", len(table), self.output().path)


class TrainDigits(PaiTask):
    """Train one model in a job."""

    model = luigi.EnumParameter(enum=Model)
    rows = luigi.IntParameter(description="how many images to learn from, up to 1200")

    @property
    def uploads(self) -> dict[str, str]:
        return {"train.py": f"{self.code_dir}/train.py"}

    @property
    def name(self) -> str:
        return f"digits-{self.model.name}-{self.rows}"

    @property
    def image(self) -> str:
        return "openpai/pai.example.sklearn"

    @property
    def data_dir(self) -> str:
        return f"{HOME}/data"

    @property
    def code_dir(self) -> str:
        return f"{HOME}/code"

    @property
    def tasks(self) -> list[TaskRole]:
        return [
            TaskRole(
                "trainer",
                "hdfs dfs -get $PAI_DATA_DIR/digits.csv"
                f" && python code/train.py --model {self.model.name} --rows {self.rows}"
                " --data digits.csv --metrics metrics.json"
                " && hdfs dfs -put -f metrics.json $PAI_OUTPUT_DIR/",
                memoryMB=1024,
            )
        ]

    def requires(self) -> luigi.Task:
        return StageData()


class Report(luigi.Task):
    """Compare the models on one page, with the confusion matrix of the best one."""

    models = luigi.EnumListParameter(enum=Model)
    rows = luigi.IntParameter()
    folder = luigi.Parameter(description="folder of the reports")

    def requires(self) -> dict[str, Any]:
        jobs = [TrainDigits(model=model, rows=self.rows) for model in dict.fromkeys(self.models)]
        return {"data": StageData(), "jobs": jobs}

    def output(self) -> luigi.LocalTarget:
        models = "-".join(sorted({model.name for model in self.models}))
        return luigi.LocalTarget(Path(self.folder) / f"{models}-{self.rows}" / "report.html")

    def run(self) -> None:
        from report import write_report  # noqa: PLC0415  matplotlib is slow to import

        results = []
        inputs: Any = self.input()
        for job, output in zip(self.requires()["jobs"], inputs["jobs"], strict=True):
            with (output / "metrics.json").open() as file:
                results.append({**json.load(file), "job": job.name})
            log.info("result    %s: %.1f%% read correctly", job.name, 100 * results[-1]["accuracy"])
        with inputs["data"].open() as file:
            table = np.loadtxt(file, delimiter=",", dtype=int)
        self.output().makedirs()
        page = write_report(results, images=table[:, :64], folder=Path(self.output().path).parent)
        with self.output().open("w") as file:
            file.write(page)


class Digits(luigi.WrapperTask):
    """The whole pipeline."""

    models = luigi.EnumListParameter(
        enum=Model, default=(Model.nearest, Model.network, Model.svm), description="models to compare"
    )
    rows = luigi.IntParameter(default=1200, description="how many images to learn from, up to 1200")
    folder = luigi.Parameter(default="report", significant=False, description="folder of the reports")

    def requires(self) -> list[Any]:
        report = Report(models=self.models, rows=self.rows, folder=self.folder)
        return [*report.requires()["jobs"], report]


@TrainDigits.event_handler(luigi.Event.DEPENDENCY_PRESENT)
def keep(task: TrainDigits) -> None:
    """Record a job that need not run."""
    KEPT.add(task.name)


@Digits.event_handler(luigi.Event.SUCCESS)
def close(task: Digits) -> None:
    """Print what was done, and the report."""
    jobs = task.requires()[:-1]
    ran = len(jobs) - len(KEPT)
    kept = f"; {len(KEPT)} had succeeded before" if KEPT else ""
    where_to_go(task, f"Done: {ran} job{'' if ran == 1 else 's'} ran{kept}.")


@Digits.event_handler(luigi.Event.DEPENDENCY_PRESENT)
def nothing_to_do(task: Digits) -> None:
    """Print that nothing was submitted, after Luigi's own last line."""
    jobs = task.requires()[:-1]
    what_happened = (
        f"Nothing to do: all {len(jobs)} jobs already succeeded, nothing was submitted."
        " `make demo-clean` starts over."
    )
    atexit.register(where_to_go, task, what_happened)


def where_to_go(task: Digits, what_happened: str) -> None:
    """Print the last lines: the report, and what to try next."""
    print(f"\n{what_happened}\nReport: {task.requires()[-1].output().path}\n\nTry next:")
    pai = OpenPai()
    api = os.environ.get("DEMO_API", "v1")
    make, look = "make demo", f".venv/bin/luigi-pai local --api {api} --data demo-run/pai"
    if api != "v1":
        make, look = f"make demo API={api}", look.replace("demo-run", f"demo-run/{api}")
    elif pai.webhdfs_url != pai.pai_url:  # another HDFS than that of the local OpenPAI
        make += f" HDFS={pai.webhdfs_url} HDFS_USER={pai.username}"
        data = f"demo-run/{Path(task.folder).parent.name}/pai"  # one for each HDFS
        look = (
            f".venv/bin/luigi-pai local --api v1 --data {data} --hdfs {pai.webhdfs_url} --user {pai.username}"
        )
    more = f"{make} MODELS=nearest,network,svm,forest"
    lines = {
        make: "again: it submits nothing",
        more: "one more model: one more job",
        look: "the jobs, in a browser",
    }
    width = len(more)
    for command, what in lines.items():
        print(f"  {command:{width}}  {what}", flush=True)
