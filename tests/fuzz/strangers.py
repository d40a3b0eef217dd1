"""Bytes from strangers, for minutes: ``python tests/fuzz --minutes 30`` (`make fuzz-protocol`).

Inputs are what real clients say (and batches that none should, of ``tests/verdicts``), changed by chance, through every
door of `fuzzed_world`. What finds something is written below ``build/fuzz`` and named; kept in ``corpus.json``, it is
tried again by every run of the tests. ``--door`` and ``--seed`` narrow a search down.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import hashlib
import json
import random
import ssl
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.fuzzed_world import DOORS, PASSWORD, TOPIC, Finding, World
from verdicts.batches import cases
from wire_messages import ByChance, message_by

from barnabas.security.sasl import scram
from barnabas.security.sasl.scram_credential import ScramMechanism
from barnabas.wire.api import SUPPORTED, ApiKey
from barnabas.wire.frames import encode_request, request_class
from barnabas.wire.messages.produce import ProduceRequest
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest
from barnabas.zk.protocol.frames import ConnectRequest, framed
from barnabas.zk.protocol.frames import encode_request as zk_request
from barnabas.zk.protocol.ops import Create, Delete, Exists, GetChildren, GetData, Multi, SetData

CORPUS: Final = Path(__file__).with_name("corpus.json")
FOUND: Final = Path(__file__).parents[2] / "build" / "fuzz"
_NUMBERS: Final = (
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\x80\0\0\0",
    b"\0\0\0\0",
    b"\xff\xff\xff\xff\x0f",
    b"\0\xff",
)


def frame(message: Any, version: int, client_id: str = "fuzz") -> bytes:
    return b"".join(bytes(part) for part in encode_request(message, version, 1, client_id))


# What strangers begin with


def any_request(chance: random.Random) -> bytes:
    api_key = chance.choice([ApiKey(key) for key in SUPPORTED])
    low, high = SUPPORTED[api_key]
    version = chance.randint(low, high)
    name = request_class(api_key).__name__
    return frame(message_by(ByChance(chance.random()), name, version), version)


def any_batch(chance: random.Random) -> bytes:
    case = chance.choice(_CASES)
    records = case.records
    if chance.random() < 0.5:
        records = mutated(records, chance)
    data = ProduceRequest.PartitionProduceData(0, records)
    topic = ProduceRequest.TopicProduceData(TOPIC, [data])
    request = ProduceRequest(None, chance.choice((-1, 0, 1)), 100, [topic])
    return frame(request, case.version) * chance.choice((1, 1, 2))


_CASES: Final = cases()


def any_login(chance: random.Random) -> bytes:
    mechanism = chance.choice(("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER", "GSSAPI", "x" * chance.randint(0, 300)))
    said = {
        "PLAIN": [f"\0alice\0{PASSWORD}".encode()],
        "SCRAM-SHA-256": _scram_tokens(),
        "OAUTHBEARER": [b"n,,\x01auth=Bearer " + _unsecured_token() + b"\x01\x01", b"\x01"],
    }.get(mechanism, [b"token"])
    tokens = [mutated(each, chance) if chance.random() < 0.5 else each for each in said]
    version = chance.randint(0, 1)
    if version:
        behind = b"".join(frame(SaslAuthenticateRequest(auth_bytes=each), chance.randint(0, 2)) for each in tokens)
    else:
        behind = b"".join(struct.pack(">i", len(each)) + each for each in tokens)
    return frame(SaslHandshakeRequest(mechanism=mechanism), version) + behind + any_request(chance)


def _scram_tokens() -> list[bytes]:
    first = next(scram.client_tokens(ScramMechanism.SCRAM_SHA_256, "alice", PASSWORD, "nonce"))
    return [first, b"c=biws,r=nonce,p=" + base64.b64encode(bytes(32))]


def _unsecured_token() -> bytes:
    def part(value: object) -> bytes:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")

    return part({"alg": "none"}) + b"." + part({"sub": "alice", "exp": 4_000_000_000}) + b"."


def any_hello(world: World) -> Callable[[random.Random], bytes]:
    def hello(chance: random.Random) -> bytes:
        outgoing = ssl.MemoryBIO()
        context = world.client_context()
        if chance.random() < 0.5:
            context.maximum_version = ssl.TLSVersion.TLSv1_2
        client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
        with contextlib.suppress(ssl.SSLWantReadError):
            client.do_handshake()
        kind, size = chance.choice((20, 21, 22, 23, 24)), chance.randint(0, 200)
        return outgoing.read() + struct.pack(">BHH", kind, 0x0303, size) + chance.randbytes(size)

    return hello


def any_secured(chance: random.Random) -> bytes:
    """A request as it should be, or a record of TLS that nobody encrypted."""
    version = bytes([chance.choice((1, 0x81))])
    if chance.random() < 0.7:
        return version + any_request(chance)
    kind, size = chance.choice((20, 21, 22, 23, 24)), chance.randint(0, 200)
    return bytes([version[0] - 1]) + struct.pack(">BHH", kind, 0x0303, size) + chance.randbytes(size)


_CONNECT: Final = framed(ConnectRequest(10_000).encode())


def any_operations(chance: random.Random) -> bytes:
    path = chance.choice(("/", "/fuzz", "/fuzz/a", "/controller", "/brokers/ids/0", "/" + "d/" * 40 + "e"))
    operations = [
        GetData(path), Exists(path, watch=True), GetChildren(path), Create("/fuzz", b"value"), Delete("/fuzz", -1),
        SetData("/fuzz", b"v", -1), Multi([Create("/fuzz/a", b""), Delete("/fuzz/a", -1)]),
    ]  # fmt: skip
    frames = [framed(zk_request(number, chance.choice(operations))) for number in range(chance.randint(1, 5))]
    words = chance.choice((b"", b"", b"", b"ruok", b"wchp", b"mntr"))
    return words + _CONNECT + b"".join(frames)


def seeds(world: World) -> dict[str, Callable[[random.Random], bytes]]:
    """For each door what makes something to begin with."""
    makers = (any_request, any_batch, any_login, any_hello(world), any_operations, any_secured)
    return dict(zip(DOORS, makers, strict=True))


def mutated(data: bytes, chance: random.Random) -> bytes:
    made = bytearray(data)
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(made) + 1)
        match chance.randrange(6):
            case 0:
                made[at : at + 1] = bytes([chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))])
            case 1:
                number = chance.choice(_NUMBERS)
                made[at : at + len(number)] = number
            case 2:
                made[at:at] = chance.randbytes(chance.randint(1, 9))
            case 3:
                del made[at : at + chance.randint(1, 9)]
            case 4:
                made[at:at] = made[at : at + chance.randint(1, 200)] * chance.randint(1, 20)
            case 5 if len(made) > 4:  # the size fits again
                made[:4] = struct.pack(">i", len(made) - 4)
    return bytes(made)


def cut(data: bytes, chance: random.Random) -> bytes:
    """With the two bytes that say how it arrives."""
    return data + (chance.randbytes(2) if chance.random() < 0.3 else b"\0\0")


def kept() -> dict[str, list[bytes]]:
    """What was found once, or leads far: by door."""
    read: dict[str, Sequence[str]] = json.loads(CORPUS.read_text())
    return {door: [base64.b64decode(each) for each in inputs] for door, inputs in read.items()}


# The search


def search(world: World, seconds: float, seed: int, doors: Sequence[str]) -> dict[str, int]:
    """How many inputs were tried through each door. Raises `Finding`, with the input written to a file."""
    made, tried, inputs = seeds(world), dict.fromkeys(doors, 0), kept()
    chance = random.Random(seed)
    ends = time.monotonic() + seconds
    count = 0
    while time.monotonic() < ends:
        count += 1
        door = chance.choice(doors)
        data = chance.choice(inputs[door]) if inputs.get(door) and chance.random() < 0.2 else made[door](chance)
        if chance.random() < 0.9:
            data = mutated(data, chance)
        data = cut(data, chance)
        try:
            world.feed(door, data)
            if count % 500 == 0:
                world.grown_kb()
        except Finding as finding:
            FOUND.mkdir(parents=True, exist_ok=True)
            path = FOUND / f"{door}-{hashlib.sha256(data).hexdigest()[:12]}"
            path.write_bytes(data)
            raise Finding(f"{door}, input {count} of seed {seed}, kept as {path}: {finding}") from finding
        tried[door] += 1
    return tried


def main(form: str) -> None:
    """`form`: how the hot path runs."""
    parser = argparse.ArgumentParser(prog="strangers", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--door", choices=DOORS, action="append")
    parser.add_argument("--input", type=Path, help="only this one, through --door")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="barnabas-fuzz-") as place:
        world = World(Path(place))
        try:
            if arguments.input:
                world.feed(arguments.door[0], arguments.input.read_bytes())
                return
            tried = search(world, arguments.minutes * 60, arguments.seed, arguments.door or DOORS)
            told = ", ".join(f"{count} {door}" for door, count in tried.items())
            print(f"{sum(tried.values())} inputs ({told}), {form}, nothing found; grown by {world.grown_kb()} KB")
        except Finding as finding:
            sys.exit(f"FOUND: {finding}")
        finally:
            world.close()
