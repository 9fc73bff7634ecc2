"""Many tasks in one build: python many_trains.py HOW COUNT WORKERS; luigi_process.py runs it."""

import json
import sys

import luigi

from luigi_pai import PaiTask, TaskRole


class Train(PaiTask):
    name = luigi.Parameter()
    image = "x"
    tasks = [TaskRole("main", "true")]


class All(luigi.WrapperTask):
    count = luigi.IntParameter()

    def requires(self):
        return [Train(name=f"train-{number}") for number in range(self.count)]


if __name__ == "__main__":
    what, count, workers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    wrapper = All(count=count)
    complete = wrapper.complete() if what == "complete" else None
    tasks = wrapper.requires() if what == "apart" else [wrapper]
    done = luigi.build(tasks, workers=workers, local_scheduler=True, log_level="INFO")
    sys.stdout.write(json.dumps({"done": done, "complete": complete}) + "\n")
