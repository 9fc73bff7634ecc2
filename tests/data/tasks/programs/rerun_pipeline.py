"""The pipeline of tests/tasks/test_reruns.py: python rerun_pipeline.py FOLDER NAME [SCHEDULER]."""

import sys

import luigi

from luigi_pai import PaiTask, TaskRole

folder, name = sys.argv[1:3]


class First(PaiTask):
    name, image = name, "x"
    tasks = [TaskRole("main", f"echo $PAI_JOB_NAME >> {folder}/ran; ! test -e {folder}/fail", memoryMB=100)]


class Down(luigi.Task):
    def requires(self):
        return First()

    def output(self):
        return luigi.LocalTarget(f"{folder}/down")

    def run(self):
        with self.output().open("w"):
            pass


where = {"scheduler_url": sys.argv[3]} if len(sys.argv) > 3 else {"local_scheduler": True}
sys.exit(0 if luigi.build([Down()], workers=3, no_lock=True, log_level="INFO", **where) else 30)
