"""No step of a broker's loop goes over all that a request names: others would wait for it.

A step is what the loop does between two looks at everybody else. It is measured in calls of Python functions, of which
each element costs one at least: on a machine that is slow or busy they are as many as on any other.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest
from bulk_requests import FILTER, MANY, NAMES, REQUESTS

from barnabas.broker.acl_store import ACL_AUTHORIZER
from barnabas.security.acls import AclFilter
from barnabas.testing import KafkaCluster
from barnabas.testing.loop import background
from barnabas.wire.frames import decode_response, encode_request, response_class
from barnabas.wire.messages.delete_acls import DeleteAclsRequest

pytestmark = pytest.mark.long(3)

CALLS_MAX = MANY * 3 // 2
"""Whoever goes over all elements calls two functions for each, if it does anything with them. The count of an answer's
errors, one for each, is let pass. 128 elements in a step have some hundred each."""


class Steps:
    """Counts the calls of each step of the loop that all clusters of this process run on."""

    def __init__(self) -> None:
        self.longest = 0
        self.looks = 0
        """How often a filter of ACLs looked at a resource."""
        self._calls = 0
        self._base: FrameType | None = None

    def watch(self) -> None:
        """Called by the loop: what called this is what calls every step."""
        self._base = sys._getframe().f_back
        while self._base is not None and self._base.f_code.co_name != "_run":
            self._base = self._base.f_back
        assert self._base is not None
        sys.setprofile(self._seen)

    def _seen(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_back is self._base:
            self._calls = 0
        elif event in ("call", "c_call"):
            self.looks += event == "call" and frame.f_code is AclFilter.takes_resource.__code__
            self._calls += 1
            self.longest = max(self.longest, self._calls)


@pytest.fixture(scope="module")
def steps() -> Iterator[Steps]:
    counted = Steps()
    loop = background().loop
    loop.call_soon_threadsafe(counted.watch)
    yield counted
    loop.call_soon_threadsafe(sys.setprofile, None)


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    config = {"authorizer.class.name": ACL_AUTHORIZER, "super.users": "User:ANONYMOUS"}
    with KafkaCluster(1, config=config) as cluster:
        cluster.create_topic("t", partitions=1, replication_factor=1)
        cluster.group("g").committed("t")
        yield cluster


def asked(cluster: KafkaCluster, message: Any, version: int) -> Any:
    host, _, port = cluster.bootstrap.rpartition(":")
    with contextlib.closing(socket.create_connection((host, int(port)))) as connection:
        connection.sendall(b"".join(encode_request(message, version, 1, "")))
        answer = bytearray()
        while len(answer) < 4 or len(answer) < 4 + struct.unpack_from(">i", answer)[0]:
            received = connection.recv(1 << 20)
            assert received, "the broker closed the connection"
            answer += received
    return decode_response(response_class(message.api_key), version, bytes(answer[4:]))[1]


@pytest.mark.parametrize("name", REQUESTS)
def test_a_step_of_the_loop_is_short_however_much_is_asked_for(cluster: KafkaCluster, steps: Steps, name: str) -> None:
    message, version = REQUESTS[name]
    steps.longest = 0
    assert asked(cluster, message, version) is not None
    assert steps.longest < CALLS_MAX


def test_filters_of_acls_that_name_one_resource_do_not_look_at_all_others(cluster: KafkaCluster, steps: Steps) -> None:
    steps.looks = 0
    filters = [FILTER(2, name, 3, "User:x", "*", 3, 3) for name in NAMES[:500]]
    assert len(asked(cluster, DeleteAclsRequest(filters), 2).filter_results) == 500
    assert steps.looks <= 500
