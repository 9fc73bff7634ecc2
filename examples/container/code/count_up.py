"""Counts up, like a training, and saves a checkpoint four times on the way.

The checkpoint folder is on HDFS or on a storage. It is the same for every submission of the task.
"""

import argparse
import json
import os
import shutil
import subprocess

import pai_runtime as pai


def hdfs(*words):
    return subprocess.run(["hdfs", "dfs", *words], stdout=subprocess.PIPE, check=False)


def load(folder):
    """Return the last checkpoint, or None if there is none yet."""
    if folder.startswith("hdfs:"):
        found = hdfs("-cat", folder + "/state.json")
        return json.loads(found.stdout.decode()) if found.returncode == 0 else None
    path = folder + "/state.json"
    return json.load(open(path)) if os.path.exists(path) else None


def save(folder, state):
    """Write the new checkpoint beside the old one, then replace it: a kill leaves a complete one."""
    with open("state.json", "w") as file:
        json.dump(state, file)
    if folder.startswith("hdfs:"):
        hdfs("-mkdir", "-p", folder)
        hdfs("-put", "-f", "state.json", folder + "/state.new")
        hdfs("-rm", "-f", "-skipTrash", folder + "/state.json")
        hdfs("-mv", folder + "/state.new", folder + "/state.json")
    else:
        os.makedirs(folder, exist_ok=True)
        shutil.copy("state.json", folder + "/state.new")  # the folder may be on another file system
        os.replace(folder + "/state.new", folder + "/state.json")


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, required=True)
parser.add_argument("--stop-at", type=int, default=0)
options = parser.parse_args()

task = pai.current()
state = load(task.checkpoint_dir) or {"step": 0, "value": 0.0}
print("submission", task.attempt, "begins at step", state["step"])
every = max(1, options.steps // 4)
while state["step"] < options.steps:
    state = {"step": state["step"] + 1, "value": state["value"] + 0.5}
    if state["step"] == options.stop_at and task.attempt == 1:
        raise SystemExit("stopped at step %d" % state["step"])
    if state["step"] % every == 0:
        save(task.checkpoint_dir, state)
        pai.report(step=state["step"], steps=options.steps, value=state["value"])
print("done:", json.dumps(state))
