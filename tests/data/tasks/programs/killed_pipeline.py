"""The pipeline of tests/tasks/test_killed_workers.py."""

import luigi

from luigi_pai import PaiTask, TaskRole


class Train(PaiTask):
    name = luigi.Parameter()
    ready = luigi.Parameter()
    timeout = luigi.IntParameter()
    image = "x"

    @property
    def tasks(self):
        return [TaskRole("main", f"while [ ! -e {self.ready} ]; do sleep 0.1; done", memoryMB=100)]

    @property
    def worker_timeout(self):
        return self.timeout or None


class Other(luigi.Task):
    number = luigi.IntParameter()

    def output(self):
        return luigi.LocalTarget(f"other-{self.number}")

    def run(self):
        with self.output().open("w"):
            pass


class All(luigi.WrapperTask):
    name = luigi.Parameter()
    ready = luigi.Parameter()
    timeout = luigi.IntParameter()
    others = luigi.IntParameter()

    def requires(self):
        yield Train(name=self.name, ready=self.ready, timeout=self.timeout)
        for number in range(self.others):
            yield Other(number=number)
