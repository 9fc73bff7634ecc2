"""Stands in for TensorFlow's benchmarks in tensorflow_job.yaml: same arguments, hosts, ports, a tiny model.

The four weights of a linear model lie on the servers, in turns. Each worker sends each server the gradients
of its weights, a line of JSON over TCP; the reply is the weights. Servers serve until they are stopped.
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
from typing import Any

SOUGHT = (3.0, -1.0, 0.5, 2.0)
RATE = 0.05


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

    socketserver.ThreadingTCPServer.allow_reuse_address = True
    host, _, port = servers[options.task_index].rpartition(":")
    with socketserver.ThreadingTCPServer((host, int(port)), Conversation) as server:
        print(f"ps {options.task_index}: serving at {host}:{port}", flush=True)
        server.serve_forever()


def connected(host: str) -> Any:
    """Return a connection to a server, which may start later than the workers."""
    name, _, port = host.rpartition(":")
    while True:
        try:
            return socket.create_connection((name, int(port))).makefile("rwb")
        except ConnectionRefusedError:
            time.sleep(0.05)


def work(options: argparse.Namespace) -> None:
    """Train for a number of batches."""
    draw = random.Random(options.task_index)  # noqa: S311  examples, not secrets
    hosts = options.ps_hosts.split(",")
    servers = [connected(host) for host in hosts]
    sent, received, weights = [0] * len(servers), [0] * len(servers), dict[str, float]()

    def exchange(index: int, gradients: dict[str, float]) -> None:
        message = json.dumps({"worker": options.task_index, "gradients": gradients}).encode() + b"\n"
        servers[index].write(message)
        servers[index].flush()
        reply = servers[index].readline()
        sent[index], received[index] = sent[index] + len(message), received[index] + len(reply)
        weights.update(json.loads(reply))

    for index in range(len(servers)):
        exchange(index, {})
    loss = 0.0
    for _ in range(options.num_batches):
        gradients, loss = dict.fromkeys(weights, 0.0), 0.0
        for _ in range(options.batch_size):
            example = [draw.uniform(-1, 1) for _ in SOUGHT]
            error = sum((weights[str(i)] - SOUGHT[i]) * x for i, x in enumerate(example))
            loss += error**2 / options.batch_size
            for i, x in enumerate(example):
                gradients[str(i)] += 2 * error * x / options.batch_size
        for index in range(len(servers)):
            exchange(index, {str(i): gradients[str(i)] for i in range(index, len(SOUGHT), len(servers))})
    for line in zip(hosts, sent, received, strict=True):
        print("worker {}: ps {}: {} bytes out, {} in".format(options.task_index, *line))
    print(f"worker {options.task_index}: {options.num_batches} steps, loss {loss:.6f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--job_name", choices=("ps", "worker"), required=True)
    parser.add_argument("--ps_hosts", required=True)
    for name in ("task_index", "batch_size", "num_batches"):
        parser.add_argument(f"--{name}", type=int, required=True)
    options, _ = parser.parse_known_args()
    if json.loads(os.environ["TF_CONFIG"])["cluster"]["ps"] != options.ps_hosts.split(","):
        parser.error("TF_CONFIG names other servers than the arguments")
    serve(options) if options.job_name == "ps" else work(options)
