"""JKS stores, as keytool writes them and as no tool does: each byte of one may be wrong one day."""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from certificates import Authority, run
from hypothesis import given
from hypothesis import strategies as st

from barnabas.security.tls.java_key_store import JavaKeyStore

KEYTOOL = shutil.which("keytool")
KEY, LEAF, ISSUER, TRUSTED = os.urandom(75), b"0leaf", b"0issuer", b"0trusted"


def _block(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def _text(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def _der(tag: int, content: bytes) -> bytes:
    length = bytes([len(content)]) if len(content) < 128 else b"\x82" + struct.pack(">H", len(content))
    return bytes([tag]) + length + content


def _protected(key: bytes, password: str, algorithm: str = "2b060104012a02110101") -> bytes:
    secret, salt = password.encode("utf-16-be"), os.urandom(20)
    stream, block = b"", salt
    while len(stream) < len(key):
        block = hashlib.sha1(secret + block).digest()
        stream += block
    hidden = bytes(a ^ b for a, b in zip(key, stream, strict=False))
    kind = _der(0x30, _der(6, bytes.fromhex(algorithm)) + b"\x05\x00")
    return _der(0x30, kind + _der(4, salt + hidden + hashlib.sha1(secret + key).digest()))


def _store(version: int = 2, password: str = "geheim", key: bytes = KEY, **protector: str) -> bytes:
    def certificate(der: bytes) -> bytes:
        return (_text("X.509") if version > 1 else b"") + _block(der)

    entries = struct.pack(">I", 1) + _text("mine") + bytes(8) + _block(_protected(key, "schlüssel", **protector))
    entries += struct.pack(">I", 2) + certificate(LEAF) + certificate(ISSUER)
    entries += struct.pack(">I", 2) + _text("theirs") + bytes(8) + certificate(TRUSTED)
    store = b"\xfe\xed\xfe\xed" + struct.pack(">II", version, 2) + entries
    return store + hashlib.sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + store).digest()


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("password", ["geheim", ""])
def test_keys_chains_and_certificates_are_read(version: int, password: str) -> None:
    store = JavaKeyStore.read(_store(version), password)
    [key] = store.private_keys
    assert (key.alias, key.chain, key.opened("schlüssel")) == ("mine", [LEAF, ISSUER], KEY)
    assert store.trusted == [TRUSTED]


@pytest.mark.parametrize("length", [0, 1, 19, 20, 21, 2400])
def test_a_key_of_any_length_is_opened(length: int) -> None:
    key = os.urandom(length)
    [entry] = JavaKeyStore.read(_store(key=key), "").private_keys
    assert entry.opened("schlüssel") == key


def test_other_passwords_open_neither_the_store_nor_a_key() -> None:
    with pytest.raises(ValueError, match="checksum is of another password"):
        JavaKeyStore.read(_store(), "geheimer")
    [key] = JavaKeyStore.read(_store(), "geheim").private_keys
    with pytest.raises(ValueError, match="the password does not open it"):
        key.opened("geheim")


def test_what_is_another_format_is_told() -> None:
    whole = _store()
    for data, reason in (
        (b"\xce\xce\xce\xce" + whole[4:], "does not begin"),
        (whole[:4] + struct.pack(">I", 3) + whole[8:], "version is 3"),
        (whole.replace(b"X.509", b"X.510"), r"certificate of kind X\.510"),
    ):
        with pytest.raises(ValueError, match=reason):
            JavaKeyStore.read(data, "")
    [key] = JavaKeyStore.read(_store(algorithm="2b060104012a021301"), "").private_keys
    with pytest.raises(ValueError, match="not Java's KeyProtector"):
        key.opened("schlüssel")


def test_no_cut_store_is_read() -> None:
    whole = _store()
    for length in range(len(whole)):
        with pytest.raises(ValueError):
            JavaKeyStore.read(whole[:length], "geheim")


@given(place=st.integers(0, len(_store()) - 1), byte=st.integers(0, 255))
def test_a_wrong_byte_is_noticed_by_who_has_the_password(place: int, byte: int) -> None:
    """Without one an error is told, or what is there is read: nothing else is raised."""
    whole = bytearray(_store())
    changed = whole[place] != byte
    whole[place] = byte
    if changed:
        with pytest.raises(ValueError):
            JavaKeyStore.read(bytes(whole), "geheim")
    try:
        opened = [key.opened("schlüssel") for key in JavaKeyStore.read(bytes(whole), "").private_keys]
    except ValueError:
        return
    assert opened in ([KEY], [])


@pytest.mark.skipif(KEYTOOL is None, reason="keytool writes the store; it comes with Java")
def test_keytools_own_store_is_read(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    p12, store = authority.issue("broker").pkcs12("secret"), tmp_path / "broker.jks"
    run(
        *(KEYTOOL, "-importkeystore", "-srckeystore", p12, "-srcstorepass", "secret", "-srcalias", "entry"),
        *("-destkeystore", store, "-deststoretype", "JKS", "-deststorepass", "geheim", "-destkeypass", "schlüssel"),
    )
    [key] = JavaKeyStore.read(store.read_bytes(), "geheim").private_keys
    plain = subprocess.run(
        ["openssl", "pkcs12", "-in", p12, "-nodes", "-nocerts", "-passin", "pass:secret"],
        check=True,
        capture_output=True,
    ).stdout
    der = subprocess.run(
        ["openssl", "pkcs8", "-topk8", "-nocrypt", "-outform", "DER"], input=plain, check=True, capture_output=True
    )
    assert key.opened("schlüssel") == der.stdout
