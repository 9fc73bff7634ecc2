"""What runs in the container: fits a line by gradient descent, and writes its loss to metrics.json."""

import json
import random
import sys

import pai_runtime

STEPS = 200
rate, batch = float(sys.argv[1]), int(sys.argv[2])
chance = random.Random(7)
points = [(x, 2 * x + 1 + chance.gauss(0, 0.1)) for x in (chance.uniform(-1, 1) for _ in range(500))]

slope = offset = 0.0
for step in range(1, STEPS + 1):
    errors = [(slope * x + offset - y, x) for x, y in chance.sample(points, batch)]
    slope -= rate * sum(error * x for error, x in errors) / batch
    offset -= rate * sum(error for error, _ in errors) / batch
    loss = sum((slope * x + offset - y) ** 2 for x, y in points) / len(points)
    if step % 50 == 0:
        pai_runtime.report(step=step, steps=STEPS, loss=loss)

with open("metrics.json", "w") as file:
    json.dump({"loss": loss, "slope": slope, "offset": offset}, file)
