"""Fits a line by gradient descent, and writes how well that went to the job's output folder."""

import argparse
import json
import subprocess

import pai_runtime as pai

STEPS = 50

parser = argparse.ArgumentParser()
parser.add_argument("--rate", type=float, required=True)
rate = parser.parse_args().rate

slope = 0.0
points = [(x / 10, 3 * x / 10) for x in range(10)]
for _step in range(STEPS):
    slope -= rate * sum(2 * x * (slope * x - y) for x, y in points) / len(points)
    loss = sum((slope * x - y) ** 2 for x, y in points) / len(points)
pai.report(step=STEPS, steps=STEPS, loss=loss)

task = pai.current()
with open("metrics.json", "w", encoding="utf-8") as file:
    json.dump({"rate": rate, "loss": loss, "attempt": task.attempt}, file)
subprocess.run(["hdfs", "dfs", "-put", "-f", "metrics.json", f"{task.output_dir}/"], check=True)
