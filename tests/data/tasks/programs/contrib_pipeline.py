"""The pipeline of tests/tasks/migration/test_mocked_in_both_modules.py; MODULE is replaced."""

import luigi
import requests
from MODULE import PaiTask, Port, TaskRole  # noqa: F401  the jobs of a test use it


class Train(PaiTask):
    name = "train"
    image = "openpai/pai.example.sklearn"
    virtual_cluster = "spark"
    tasks = [TaskRole("test", "cd scikit-learn/benchmarks && python bench_mnist.py", memoryMB=4096)]


class Evaluate(PaiTask):
    name = "evaluate"
    image = "openpai/pai.example.sklearn"
    tasks = [TaskRole("test", "python evaluate.py")]

    def requires(self):
        return Train()


class Refused(PaiTask):
    name = "train"
    image = "openpai/pai.example.sklearn"
    tasks = [TaskRole("my-role", "python train.py")]


def run():
    return Train().run()


def complete():
    return Train().complete()


def build():
    return luigi.build([Train()], local_scheduler=True, log_level="CRITICAL")


def build_both():
    return luigi.build([Evaluate()], local_scheduler=True, log_level="CRITICAL")


def run_refused():
    return Refused().run()


def status_of_error():
    try:
        run()
    except requests.HTTPError as error:
        return error.response.status_code
