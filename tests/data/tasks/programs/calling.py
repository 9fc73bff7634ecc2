"""A script that calls functions: python calling.py URL USER PASSWORD PYTHON RUN."""

import pipes  # the module beside the script, and not that of the standard library
import sys

from luigi_pai import Cluster


class Model:
    def __init__(self, weight):
        self.weight = weight


url, user, password, python, run_id = sys.argv[1:]
cluster = Cluster(url, user, password=password)
data = [{"a", "b", "c", "d"}, {"x": 1, "y": (2, Model(3))}]
job = cluster.call(lambda values, _run: sorted(values[0]), data, run_id, image="python:3", python=python)
assert cluster.call(pipes.ordered, "ba", image="python:3", python=python).result() == ["a", "b"]
sys.stdout.write(f"{job.name} {job.result()}\n")
