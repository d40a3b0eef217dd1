"""Connections that want nothing: they are many, and a broker has only so many file descriptors."""

from __future__ import annotations

import os
import resource

from hostile_frame import Broken, Target, attack

IDLE = 400
ROOM = 160
"""So many more descriptors than it has does a broker get: connections may take a part of them."""


@attack("four hundred idle connections, and not as many descriptors")
def idle_connections(target: Target) -> None:
    pid = target.brokers[0]["pid"]
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    allowed = len(os.listdir(f"/proc/{pid}/fd")) + ROOM
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (allowed, before[1]))
    try:
        for _ in range(IDLE):
            try:
                target.caller()
            except Broken:  # closed before it was seen to be made
                continue
        target.topic("made meanwhile", partitions=4)
        assert len(os.listdir(f"/proc/{pid}/fd")) <= allowed
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
