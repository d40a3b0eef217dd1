"""A certificate's subject as Java writes it (RFC 2253, ``X500Principal.getName``), as users and ACLs name it.

Java knows nine attributes by their keywords. For any other it prints the number and, in hexadecimal, the value's bytes
in the certificate. So this module reads the certificate itself, up to its subject.
"""

from __future__ import annotations

from typing import Final

from barnabas.security.tls.der import elements

_KEYWORDS: Final = {
    bytes.fromhex("550403"): "CN",
    bytes.fromhex("550406"): "C",
    bytes.fromhex("550407"): "L",
    bytes.fromhex("550408"): "ST",
    bytes.fromhex("55040a"): "O",
    bytes.fromhex("55040b"): "OU",
    bytes.fromhex("550409"): "STREET",
    bytes.fromhex("0992268993f22c640119"): "DC",
    bytes.fromhex("0992268993f22c640101"): "UID",
}
_TEXTS: Final = {0x0C: "utf-8", 0x13: "ascii", 0x14: "latin-1", 0x16: "ascii", 0x1B: "ascii", 0x1E: "utf-16-be"}
"""Encodings by the tag of the value: UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString."""
_VERSION: Final = 0xA0
_EXTENSIONS: Final = 0xA3
_ALTERNATIVE_NAMES: Final = bytes.fromhex("551d11")
_SPECIAL: Final = ',=+<>#;"\\'


def subject_of(certificate: bytes) -> str:
    """The subject of a DER certificate, the last name first. Raises ``ValueError`` for any other bytes."""
    try:
        [(_, _, whole)] = elements(certificate)
        (_, _, signed), *_ = elements(whole)
        fields = [content for tag, _, content in elements(signed) if tag != _VERSION]
        subject = fields[4]  # after the serial number, signature algorithm, issuer and validity
        names = [
            "+".join(_attribute(attribute) for _, _, attribute in elements(name)) for _, _, name in elements(subject)
        ]
    except (IndexError, ValueError) as error:
        raise ValueError(f"no certificate: {error}") from None
    return ",".join(reversed(names))


def alternative_names_of(certificate: bytes) -> frozenset[bytes]:
    """The subject's alternative names of a DER certificate, each in its encoding. Raises ``ValueError``."""
    try:
        [(_, _, whole)] = elements(certificate)
        (_, _, signed), *_ = elements(whole)
        for tag, _, explicit in elements(signed):
            if tag != _EXTENSIONS:
                continue
            [(_, _, extensions)] = elements(explicit)
            for _, _, extension in elements(extensions):
                (_, _, kind), *_, (_, _, value) = elements(extension)
                if kind == _ALTERNATIVE_NAMES:
                    [(_, _, names)] = elements(value)
                    return frozenset(name for _, name, _ in elements(names))
    except (IndexError, ValueError) as error:
        raise ValueError(f"no certificate: {error}") from None
    return frozenset()


def _attribute(encoded: bytes) -> str:
    (_, _, kind), (tag, whole, value) = elements(encoded)
    keyword = _KEYWORDS.get(kind)
    if keyword is None or tag not in _TEXTS:
        return f"{_dotted(kind) if keyword is None else keyword}=#{whole.hex()}"
    return f"{keyword}={_escaped(value.decode(_TEXTS[tag]))}"


def _escaped(value: str) -> str:
    inner = value.lstrip(" ")
    leading = len(value) - len(inner)
    inner = inner.rstrip(" ")
    trailing = len(value) - leading - len(inner)
    escaped = "".join(f"\\{character}" if character in _SPECIAL else character for character in inner)
    return "\\ " * leading + escaped + "\\ " * trailing


def _dotted(kind: bytes) -> str:
    """An object identifier's number."""
    numbers: list[int] = []
    number = 0
    for byte in kind:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
