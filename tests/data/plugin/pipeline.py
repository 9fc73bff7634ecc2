"""The task of the tests with the plugin; test files that are written in a test begin with all of it."""

import luigi
import pytest  # noqa: F401  of those files
import requests  # noqa: F401  as above

from luigi_pai import Cluster, OpenPai, PaiJobFailed, PaiJobTimeout, PaiTask, TaskRole  # noqa: F401  as above


class Train(PaiTask):
    name = luigi.Parameter(default="train")
    command = luigi.Parameter(default="echo it ran >&2; exit 3", significant=False)
    image = "python"

    @property
    def tasks(self):
        return [TaskRole("main", self.command)]
