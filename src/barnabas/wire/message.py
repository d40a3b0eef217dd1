"""The base of all message classes; the classes themselves are generated, see ``generate``.

A class holds one message in every version. Its decoder and encoder for one version are made when that version is first
used (`plans`), so that importing a message costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import ClassVar, Self, TypeVar

from barnabas.wire.coding import BAD_INPUT, BAD_MESSAGE, decoded, encoded_into
from barnabas.wire.errors import UnsupportedVersionError, WireError
from barnabas.wire.kernel import staying
from barnabas.wire.structs import Bytes, Decoder, DecoderInTurns, Encoder, EncoderInTurns, Framer, ShortDecoder, Struct

T = TypeVar("T")


class Message(Struct):
    """A whole message of Kafka's protocol or of its internal topics."""

    __slots__ = ()

    name: ClassVar[str]
    api_key: ClassVar[int]
    """-1 for a message that is neither a request nor a response."""
    min_version: ClassVar[int]
    max_version: ClassVar[int]
    flexible_since: ClassVar[int]
    """The first version with compact lengths and tagged fields; beyond every version if there is none."""
    _decoders: ClassVar[dict[int, Decoder]]
    _encoders: ClassVar[dict[int, Encoder]]
    _framers: ClassVar[dict[int, Framer]]
    _short_decoders: ClassVar[dict[int, ShortDecoder]]
    _decoders_in_turns: ClassVar[dict[int, DecoderInTurns]]

    def __init_subclass__(cls) -> None:
        cls._decoders = {}
        cls._encoders = {}
        cls._framers = {}
        cls._short_decoders = {}
        cls._decoders_in_turns = {}

    @classmethod
    def decode(cls, buffer: Bytes, version: int, offset: int = 0) -> tuple[Self, int]:
        """The message that begins at `offset`, and the offset after it; never reads beyond `buffer`."""
        return decoded(cls, buffer, version, offset)

    @classmethod
    def decode_in_turns(
        cls, buffer: bytes | bytearray, version: int, offset: int, elements: int
    ) -> Generator[None, None, tuple[Self, int]]:
        """As ``decode``, but yields after every 256 elements of arrays, so that other tasks may run. More than
        `elements` of them are a `WireError` before they are decoded."""
        decoder = cls._decoders_in_turns.get(version) or cls._make_decoder_in_turns(version)
        try:
            return (yield from decoder(buffer, offset, len(buffer), elements))
        except BAD_INPUT as error:
            raise WireError(f"{cls.name} v{version} ends too early or holds a bad value: {error}") from None

    def encode(self, version: int) -> bytes:
        parts: list[Bytes] = []
        parts.append(self.encode_into(version, bytearray(), parts))
        return b"".join(parts)

    def encode_into(self, version: int, buffer: bytearray, parts: list[Bytes]) -> bytearray:
        """Appends to `buffer`; at each field of records, moves `buffer` and them to `parts`. Returns the open
        buffer."""
        return encoded_into(self, version, buffer, parts)

    def encode_into_in_turns(
        self, version: int, buffer: bytearray, parts: list[Bytes]
    ) -> Generator[int, None, bytearray]:
        """As ``encode_into``, but yields the length of the open buffer after every 256 elements of arrays."""
        encoder = self.compile_encoder_in_turns(version)
        try:
            return (yield from encoder(self, buffer, parts))
        except BAD_MESSAGE as error:
            raise WireError(f"{self.name} v{version} cannot be written: {error}") from error

    @classmethod
    def compile_encoder_in_turns(cls, version: int) -> EncoderInTurns:
        """Makes the codec, which stays in memory, before slices of passing objects begin (`barnabas.runtime.turns`)."""
        from barnabas.wire.codec import compile_encoder_in_turns

        cls._check_version(version)
        return compile_encoder_in_turns(cls, version)

    @classmethod
    def _check_version(cls, version: int) -> None:
        if not cls.min_version <= version <= cls.max_version:
            raise UnsupportedVersionError(
                f"{cls.name} has versions {cls.min_version} to {cls.max_version}, not {version}"
            )

    @classmethod
    @staying
    def _planned(cls, version: int, planner: str, kept: dict[int, T]) -> T:
        """The result of `planner`, of `barnabas.wire.plans`, for this message in a version; kept from now on."""
        from barnabas.wire import plans  # imported late: it loads the schemas

        cls._check_version(version)
        made: T = getattr(plans, planner)(cls, version)
        kept[version] = made
        return made

    @classmethod
    def _compile_decoder(cls, version: int) -> Decoder:
        return cls._planned(version, "decoder", cls._decoders)

    @classmethod
    def _make_decoder_in_turns(cls, version: int) -> DecoderInTurns:
        return cls._planned(version, "decoder_in_turns", cls._decoders_in_turns)

    @classmethod
    def _make_short_decoder(cls, version: int) -> ShortDecoder:
        return cls._planned(version, "short_decoder", cls._short_decoders)

    @classmethod
    def _make_framer(cls, version: int) -> Framer:
        return cls._planned(version, "framer", cls._framers)

    @classmethod
    def _compile_encoder(cls, version: int) -> Encoder:
        return cls._planned(version, "encoder", cls._encoders)
