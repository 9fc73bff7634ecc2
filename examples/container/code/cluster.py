"""Shows how the tasks of two roles find each other, once all of them are there."""

import json
import os

import pai_runtime as pai

os.environ["TF_CONFIG"] = pai.tf_config()
config = json.loads(os.environ["TF_CONFIG"])
pai.barrier("all are there", timeout=120)
task = pai.current()
assert config["cluster"][task.role][task.index] == task.own.address()
print("TF_CONFIG", os.environ["TF_CONFIG"])
print("mpirun -np", task.world_size, "-H", pai.mpi_hosts(slots=1))
