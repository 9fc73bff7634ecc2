"""Tasks of which tests/tasks/python/test_python_payload.py shows what they send."""

import luigi
from luigi.parameter import ParameterVisibility

from luigi_pai import PaiProtocolTask, PaiPythonTask, PaiTask, TaskRole

TABLE = {"a": [1, 2]}


def helper(task):
    return task.rate


class PayloadFit(PaiPythonTask):
    rate = luigi.FloatParameter()
    key = luigi.Parameter(default="s3cret-key", visibility=ParameterVisibility.PRIVATE)
    image = "x"

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.url = "x/" + self.key

    def work(self):
        return {"rate": helper(self), "table": TABLE, "url": self.url}


class PayloadLeaking(PayloadFit):
    def work(self):
        return {"url": f"{'s3cret-key'}"}


class PayloadSends(PaiTask):
    name = image = "x"
    uploads = {"code": "/Data/code"}
    tasks = [TaskRole("main", "true")]


class PayloadBare(PayloadSends):
    uploads = {}


class PayloadProtocol(PaiProtocolTask):
    protocol = "job.yaml"
