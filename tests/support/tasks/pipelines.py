"""What tests of whole pipelines share: code on HDFS, a build, and a process that remembers nothing."""

from __future__ import annotations

import luigi

from luigi_pai import HdfsTarget, reset_clusters


class Code(luigi.Task):
    """Puts code on HDFS."""

    name = luigi.Parameter()

    def output(self):
        return HdfsTarget(f"$PAI_DEFAULT_FS_URI/{self.name}/code/lib/hello.txt")

    def run(self):
        with self.output().open("w") as file:
            file.write("from HDFS")


class CodeFolder:
    """Of a PaiTask with a ``name``: it needs that code."""

    def requires(self):
        return Code(self.name)

    @property
    def code_dir(self):
        return f"$PAI_DEFAULT_FS_URI/{self.name}/code/lib"


def new_process() -> None:
    """Forget what this process remembers, as a new one would."""
    reset_clusters()


def build(*tasks: luigi.Task) -> bool:
    return luigi.build(list(tasks), local_scheduler=True, log_level="WARNING")
