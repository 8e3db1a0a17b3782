#!/usr/bin/env python3
"""A worker over <rota/queue.h> while one of three nodes hangs: test_queue_hang.py ROTA QUEUE_WORKER.

Prints TAP."""

import os
import queue
import signal
import subprocess
import sys
import threading

from test_cluster import TIMEOUT, nodes, tap, wait_until

tap.TESTS.clear()  # those of the other file
test = tap.test


class Worker:
    def __init__(self, all_nodes, slots):
        self.lines = queue.Queue()
        self.process = subprocess.Popen([sys.argv[2], ",".join(node.address for node in all_nodes), "work", str(slots)],
                                        stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line)

    def await_lines(self, n):
        """Lines from now on; each stands for a hundred jobs."""
        while not self.lines.empty():
            self.lines.get()
        for _ in range(n):
            self.lines.get(timeout=TIMEOUT)


@test
def a_node_that_hangs_does_not_stop_a_worker():
    with nodes(3) as all_nodes:
        worker = Worker(all_nodes, 6)
        stopped = all_nodes[1].process.pid
        try:
            for _ in range(3):
                worker.await_lines(5)
                os.kill(stopped, signal.SIGSTOP)
                worker.await_lines(15)
                os.kill(stopped, signal.SIGCONT)
            before = all_nodes[1].nodes()["jobs"]
            wait_until(lambda: all_nodes[1].nodes()["jobs"] != before, "that the node gets calls again")
        finally:
            os.kill(stopped, signal.SIGCONT)
            worker.process.kill()
            worker.process.wait(TIMEOUT)


sys.exit(tap.run())
