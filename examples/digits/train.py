"""Train a model to read handwritten digits, and write its metrics.

Runs in the job's container or by hand; it needs only numpy and scikit-learn::

    python train.py --model svm --rows 1200 --data digits.csv --metrics metrics.json

The data have one image per line: 64 grey values (0 to 16, row by row) and the digit. The model is trained on
the first ``--rows`` lines and tested on the last 597.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import confusion_matrix, f1_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC

TEST_ROWS = 597

MODELS: dict[str, tuple[str, Any]] = {
    "nearest": ("Nearest neighbours, k = 3", KNeighborsClassifier(n_neighbors=3)),
    "network": (
        "Neural network, one layer of 64",
        MLPClassifier(hidden_layer_sizes=(64,), max_iter=1000, random_state=0),
    ),
    "svm": ("Support vector machine, RBF kernel", SVC(C=10.0)),
    "forest": ("Random forest of 200 trees", RandomForestClassifier(n_estimators=200, random_state=0)),
}


def train(model: str, images: np.ndarray, digits: np.ndarray, rows: int) -> dict[str, Any]:
    """Train one model and judge it on images that it has not seen.

    Args:
        model: a key of ``MODELS``.
        images: grey values from 0 to 1, one image a row.
        digits: what the images show.
        rows: how many of the images to learn from.

    Returns:
        The metrics, ready for JSON: ``mistakes`` holds one (row, digit, read as) for each image
        that was misread, ``confusion`` counts them by digit (row) and reading (column).
    """
    title, classifier = MODELS[model]
    started = time.perf_counter()
    classifier.fit(images[:rows], digits[:rows])
    trained = time.perf_counter()
    truth = digits[-TEST_ROWS:]
    read_as = classifier.predict(images[-TEST_ROWS:])
    first = len(digits) - TEST_ROWS
    wrong = np.flatnonzero(read_as != truth)
    return {
        "model": model,
        "title": title,
        "rows": rows,
        "tested": TEST_ROWS,
        "accuracy": float(np.mean(read_as == truth)),
        "f1": float(f1_score(truth, read_as, average="macro")),
        "train_seconds": round(trained - started, 3),
        "predict_seconds": round(time.perf_counter() - trained, 3),
        "confusion": confusion_matrix(truth, read_as, labels=list(range(10))).tolist(),
        "mistakes": [[int(first + i), int(truth[i]), int(read_as[i])] for i in wrong],
    }


def main() -> None:
    """Read the data, train, write the metrics."""
    parser = argparse.ArgumentParser(description=__doc__ and __doc__.splitlines()[0])
    parser.add_argument("--model", choices=sorted(MODELS), required=True)
    parser.add_argument("--rows", type=int, required=True, help="how many images to learn from")
    parser.add_argument("--data", type=Path, required=True, help="CSV: 64 grey values and the digit")
    parser.add_argument("--metrics", type=Path, required=True, help="where to write the result (JSON)")
    args = parser.parse_args()

    table = np.loadtxt(args.data, delimiter=",", dtype=np.int64, ndmin=2)
    most = len(table) - TEST_ROWS
    if not 0 < args.rows <= most:
        parser.error(f"--rows {args.rows}: {args.data} has {most} images to learn from, beside the test's")
    print(f"{args.model}: learning from {args.rows} images", flush=True)
    metrics = train(args.model, table[:, :64] / 16.0, table[:, 64], args.rows)
    print(
        f"{metrics['title']}: {metrics['accuracy']:.1%} of {TEST_ROWS} unseen images read correctly, "
        f"after {metrics['train_seconds']:.2f} s of training",
        flush=True,
    )
    args.metrics.write_text(json.dumps(metrics, indent=1) + "\n")


if __name__ == "__main__":
    main()
