"""Bytes that were right once: what rot, a torn write, a newer version or a stranger makes of them."""

from __future__ import annotations

from hypothesis import strategies as st

EXTREMES = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\x00\x00\x00", b"\x00\x00\x00\x00", b"\xff\xff\xff\xff\x0f")


@st.composite
def mutated(draw: st.DrawFn, data: bytes) -> bytes:
    """`data` with a few of its bytes changed, gone, or with others between them; or something else altogether."""
    kind = draw(st.sampled_from(("changed", "changed", "changed", "cut", "other", "nothing")))
    if kind == "nothing":
        return b""
    if kind == "other":
        return draw(st.binary(max_size=120))
    if kind == "cut":
        return data[: draw(st.integers(0, len(data)))]
    result = bytearray(data)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(result)))
        match draw(st.integers(0, 4)):
            case 0 if at < len(result):
                result[at] ^= 1 << draw(st.integers(0, 7))
            case 1:
                extreme = draw(st.sampled_from(EXTREMES))
                result[at : at + len(extreme)] = extreme
            case 2:
                result[at:at] = draw(st.binary(min_size=1, max_size=8))
            case 3:
                del result[at : at + draw(st.integers(1, 16))]
            case _:
                result[at : at + 32] = bytes(32)
    return bytes(result)
