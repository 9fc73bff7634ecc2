"""Here your training; this one only looks like it."""

import json
import sys

rate = float(sys.argv[1])
with open("metrics.json", "w") as file:
    json.dump({"rate": rate, "accuracy": 0.99 - abs(rate - 0.01)}, file)
