"""Ports for servers that are started later, or again at the same address.

They are below those that the system gives to connections and to servers at port 0: such a port may be taken
before its server starts, and a client of a server that is down could get it and hear itself."""

import contextlib
import random
import socket


def free_ports(n):
    ports = []
    while len(ports) < n:
        port = random.SystemRandom().randrange(15000, 32000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if port not in ports:
                ports.append(port)
    return ports


def free_port():
    return free_ports(1)[0]
