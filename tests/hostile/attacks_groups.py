"""Consumer groups that nobody needs."""

from __future__ import annotations

import contextlib
import os
import time

from hostile_frame import PATIENCE_S, Caller, Target, attack

from barnabas.model.errors import ErrorCode
from barnabas.wire.frames import decode_response, encode_request
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

GROUPS = 500
ROUNDS = 4
METADATA_BYTES = 100_000


def until_no_error(ask, code):
    """The first answer that is no error which passes, such as of a coordinator that loads."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        answer = ask()
        error = ErrorCode(code(answer))
        if not error.retriable or time.monotonic() > deadline:
            assert error is ErrorCode.NONE, error.name
            return answer
        time.sleep(0.1)


def coordinator_of(target: Target, name: str, key_type: int = 0) -> int:
    """The broker that coordinates a group, or a transactional id (`key_type` 1)."""
    find = FindCoordinatorRequest(key=name, key_type=key_type)
    with contextlib.closing(target.caller()) as caller:
        return int(until_no_error(lambda: caller.ask(find, 2), lambda answer: answer.error_code).node_id)


@attack("five hundred groups with 100 KB of metadata each")
def large_groups(target: Target) -> None:
    callers: dict[int, Caller] = {0: target.caller()}
    for number in range(GROUPS):
        group_id = f"large-{number}"
        find = FindCoordinatorRequest(key=group_id, key_type=0)
        found = until_no_error(lambda find=find: callers[0].ask(find, 2), lambda answer: answer.error_code)
        if found.node_id not in callers:
            callers[found.node_id] = target.caller(found.node_id)
        join = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=6000,
            rebalance_timeout_ms=6000,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol("range", os.urandom(METADATA_BYTES))],
        )
        caller = callers[found.node_id]
        until_no_error(lambda join=join, caller=caller: caller.ask(join, 3), lambda answer: answer.error_code)


@attack("two thousand members that join anew, again and again")
def members_that_join_anew(target: Target) -> None:
    group = "restless"
    broker = coordinator_of(target, group)
    callers = [target.caller(broker) for _ in range(2_000 if target.thorough else 300)]
    names = [""] * len(callers)
    for turn in range(ROUNDS):
        for caller, name in zip(callers, names, strict=True):
            protocol = JoinGroupRequest.JoinGroupRequestProtocol("range", bytes([turn]) * 200)
            join = JoinGroupRequest(
                group_id=group, session_timeout_ms=6000, rebalance_timeout_ms=6000, member_id=name,
                protocol_type="consumer", protocols=[protocol],
            )  # fmt: skip
            caller.send(b"".join(encode_request(join, 3, 1, "restless")))
        for number, caller in enumerate(callers):
            answer = decode_response(JoinGroupResponse, 3, caller.answer())[1]
            names[number] = answer.member_id
