"""The pipeline of tests/tasks/test_uploads.py, which replaces HOME."""

import luigi

from luigi_pai import PaiTask, TaskRole


class Train(PaiTask):
    name = luigi.Parameter()
    image = "x"
    uploads = {
        "src/": "$PAI_DEFAULT_FS_URI/HOME/code",
        "data.csv": "/HOME/data/",
        "extra": "/HOME/code/extra",
    }
    code_dir = "$PAI_DEFAULT_FS_URI/HOME/code"
    data_dir = "/HOME/data"
    tasks = [TaskRole("main", "sh code/train.sh")]


class Sweep(luigi.WrapperTask):
    def requires(self):
        return [Train(f"HOME-{number}") for number in range(4)]
