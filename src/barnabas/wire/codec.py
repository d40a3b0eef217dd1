"""Compiles the decoder or the encoder of one message in one version.

The schema becomes the source of one straight Python function, which is then compiled: neighbouring fields of fixed
width (and the length, or the first byte of the length, of what follows them) are one ``struct.Struct``; structs are
inlined where they are used; fields that the version does not have become their defaults. The function that decodes
``HeartbeatRequest`` v0 reads:

    def decode(b, o, end):
        x0 = new(C_HeartbeatRequest)
        n1, = u1(b, o)
        o += 2
        p1 = o + n1
        if n1 < 0 or p1 > end: bad_length("group_id", n1, end - o)
        x0.group_id = b[o:p1].decode("utf-8", "replace")
        ...

No decoder reads beyond `end`, the end of the buffer: ``struct`` checks fixed widths, every length is checked before its
use, and an array's length against the least number of bytes of so many elements. Malformed bytes raise WireError, or
one of ``coding.BAD_INPUT``, which becomes a WireError.

Each function has a second form, for messages that may be long: a generator that yields after every `TURN` elements, so
that its caller can let other work go on, and that decodes no more elements than its last argument allows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, cast

from barnabas.wire.decoder_source import decoder_source
from barnabas.wire.encoder_source import encoder_source
from barnabas.wire.kernel import staying
from barnabas.wire.source import Source
from barnabas.wire.structs import Decoder, DecoderInTurns, Encoder, EncoderInTurns, Struct

KEPT_IN_TURNS: Final = 16
"""How many of these longer forms are kept: each takes 8 KB and 0.5 ms to make, and clients can ask for hundreds."""


class _Text:
    """Regenerates a compiled function's source for a traceback, which finds this loader in the function's globals. So
    no source is kept, and the loader is freed with the function.
    """

    def __init__(self, written: Callable[[], Source]) -> None:
        self._written = written

    def get_source(self, name: str) -> str:
        return self._written().text()


@staying
def _compiled(function: str, written: Callable[[], Source]) -> Any:
    source = written()
    file_name = f"{function} {source.schema.name} v{source.version}, compiled"
    source.namespace |= {"__name__": file_name, "__loader__": _Text(written)}
    exec(compile(source.text(), file_name, "exec"), source.namespace)
    return source.namespace[function]


def compile_decoder(cls: type[Struct], version: int) -> Decoder:
    decoder: Decoder = _compiled("decode", lambda: decoder_source(cls, version))
    return decoder


def _decoder_in_turns(cls: type[Struct], version: int) -> DecoderInTurns:
    decoder: DecoderInTurns = _compiled("decode", lambda: decoder_source(cls, version, in_turns=True))
    return decoder


def compile_encoder(cls: type[Struct], version: int) -> Encoder:
    encoder: Encoder = _compiled("encode", lambda: encoder_source(cls, version))
    return encoder


def _encoder_in_turns(cls: type[Struct], version: int) -> EncoderInTurns:
    encoder: EncoderInTurns = _compiled("encode", lambda: encoder_source(cls, version, in_turns=True))
    return encoder


# The type checker takes a class for unhashable because its instances, the messages, are.
compile_decoder_in_turns = cast(
    "Callable[[type[Struct], int], DecoderInTurns]", lru_cache(KEPT_IN_TURNS)(_decoder_in_turns)
)
compile_encoder_in_turns = cast(
    "Callable[[type[Struct], int], EncoderInTurns]", lru_cache(KEPT_IN_TURNS)(_encoder_in_turns)
)
