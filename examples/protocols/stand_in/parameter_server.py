"""Stands in for TensorFlow's benchmarks in tensorflow_job.yaml: same arguments, hosts, ports, a tiny model.

The four weights of a linear model lie on the parameter servers, in turns. Each worker draws examples of its
own, fetches the weights from all servers, and sends each the gradients of what it holds, a line of JSON over
TCP either way. The servers serve until they are stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import socket
import socketserver
import threading
import time

SOUGHT = (3.0, -1.0, 0.5, 2.0)
RATE = 0.05
PATIENCE = 30.0  # seconds that a worker waits for a server to listen


def address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def serve(options: argparse.Namespace) -> None:
    """Keep every weight whose number leaves this server's index, until the job stops it."""
    servers = options.ps_hosts.split(",")
    own = {str(number): 0.0 for number in range(options.task_index, len(SOUGHT), len(servers))}
    alone = threading.Lock()

    class Conversation(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            for line in self.rfile:
                message = json.loads(line)
                with alone:
                    for number, gradient in message["gradients"].items():
                        own[number] -= RATE * gradient
                    reply = json.dumps(own)
                self.wfile.write(f"{reply}\n".encode())
            print(f"ps {options.task_index}: worker {message['worker']} is done", flush=True)

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True

    with Server(address(servers[options.task_index]), Conversation) as server:
        print(f"ps {options.task_index}: serving at {servers[options.task_index]}", flush=True)
        server.serve_forever()


class Connection:
    """A worker's line to one server, which counts the bytes."""

    def __init__(self, host: str, worker: int) -> None:
        self.host, self.worker = host, worker
        self.sent = self.received = 0
        self._socket = connected(host)
        self._replies = self._socket.makefile("rb")

    def exchange(self, gradients: dict[str, float]) -> dict[str, float]:
        """Send gradients and return the weights that the server holds."""
        message = json.dumps({"worker": self.worker, "gradients": gradients}).encode() + b"\n"
        self._socket.sendall(message)
        reply = self._replies.readline()
        self.sent += len(message)
        self.received += len(reply)
        weights: dict[str, float] = json.loads(reply)
        return weights

    def close(self) -> None:
        self._replies.close()
        self._socket.close()


def connected(host: str) -> socket.socket:
    """Return a connection; servers may start later than workers."""
    give_up = time.monotonic() + PATIENCE
    while True:
        try:
            return socket.create_connection(address(host), timeout=PATIENCE)
        except OSError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.05)


def work(options: argparse.Namespace) -> None:
    """Train for a number of batches."""
    draw = random.Random(options.task_index)  # noqa: S311  examples, not secrets
    servers = [Connection(host, options.task_index) for host in options.ps_hosts.split(",")]
    held = [server.exchange({}) for server in servers]
    loss = 0.0
    for _ in range(options.num_batches):
        weights = {number: weight for part in held for number, weight in part.items()}
        gradients = dict.fromkeys(weights, 0.0)
        loss = 0.0
        for _ in range(options.batch_size):
            example = [draw.uniform(-1, 1) for _ in SOUGHT]
            error = sum((weights[str(i)] - SOUGHT[i]) * x for i, x in enumerate(example))
            loss += error**2 / options.batch_size
            for i, x in enumerate(example):
                gradients[str(i)] += 2 * error * x / options.batch_size
        held = [
            server.exchange({number: gradients[number] for number in part})
            for server, part in zip(servers, held, strict=True)
        ]
    for server in servers:
        print(f"worker {options.task_index}: ps {server.host}: {server.sent} bytes out, {server.received} in")
        server.close()
    print(f"worker {options.task_index}: {options.num_batches} steps, loss {loss:.6f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--job_name", choices=("ps", "worker"), required=True)
    parser.add_argument("--task_index", type=int, required=True)
    parser.add_argument("--ps_hosts", required=True)
    parser.add_argument("--worker_hosts", required=True)
    parser.add_argument("--batch_size", type=int, required=True)
    parser.add_argument("--num_batches", type=int, required=True)
    options, _ = parser.parse_known_args()
    told = json.loads(os.environ["TF_CONFIG"])
    same = {
        "cluster": {"ps": options.ps_hosts.split(","), "worker": options.worker_hosts.split(",")},
        "task": {"type": options.job_name, "index": options.task_index},
    }
    if told != same:
        parser.error(f"TF_CONFIG says {told}, and the arguments {same}")
    serve(options) if options.job_name == "ps" else work(options)


if __name__ == "__main__":
    main()
