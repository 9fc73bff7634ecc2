"""One of two processes that claim the same submissions: python claiming.py NAME."""

import json
import sys
import time
from pathlib import Path

from train_task import Train

from luigi_pai.tasks.task_work import TaskWork
from luigi_pai.work.evidence import Evidence

me = sys.argv[1]
other = "b" if me == "a" else "a"
held = []
for number in range(100):
    name = f"train-{number}"
    evidence = Evidence(TaskWork(Train(name=name)))
    Path(f"at-{me}-{number}").touch()
    while not Path(f"at-{other}-{number}").exists():
        time.sleep(0)
    claim = evidence.claim(1, name)
    held.append([evidence.is_mine, claim.token, evidence.last().token])
Path(f"held-{me}.json").write_text(json.dumps(held))
