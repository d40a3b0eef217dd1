"""Passwords of a broker's dynamic configuration, encrypted in ZooKeeper (``EncryptingPasswordEncoder``, KIP-226).

PBKDF2 derives the key from ``password.encoder.secret``, and AES in CBC mode encrypts the password. The parameters are
stored beside it, so that brokers of either kind can decrypt it. Needs ``cryptography`` (``barnabas[tls]``).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from barnabas.model.config import Config
from barnabas.model.errors import ConfigError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.modes import CBC

CIPHER: Final = "AES/CBC/PKCS5Padding"
_FACTORIES: Final = {f"PBKDF2WithHmac{name}": name.lower() for name in ("SHA1", "SHA224", "SHA256", "SHA384", "SHA512")}
_FACTORY: Final = "PBKDF2WithHmacSHA512"
_KEY_BITS: Final = (128, 192, 256)
_BLOCK_BYTES: Final = 16
_SALT_BYTES: Final = 256


@dataclass(frozen=True, slots=True)
class PasswordEncoder:
    """`old_secrets` decrypt older values; `secret` decrypts and encrypts."""

    secret: str = field(repr=False)
    old_secrets: Sequence[str] = field(default=(), repr=False)
    factory: str = _FACTORY
    key_bits: int = 128
    iterations: int = 4096

    def encode(self, password: str, token: Callable[[int], bytes]) -> str:
        """`token` makes random bytes."""
        salt, vector = token(_SALT_BYTES), token(_BLOCK_BYTES)
        plain = password.encode()
        padding = _BLOCK_BYTES - len(plain) % _BLOCK_BYTES
        key = _key(self.secret, self.factory, salt, self.iterations, self.key_bits)
        encryptor = _cipher(key, vector).encryptor()
        encrypted = encryptor.update(plain + bytes([padding]) * padding) + encryptor.finalize()
        fields = {
            "keyFactoryAlgorithm": self.factory,
            "cipherAlgorithm": CIPHER,
            "keyLength": str(self.key_bits),
            "iterations": str(self.iterations),
            "salt": base64.b64encode(salt).decode(),
            "initializationVector": base64.b64encode(vector).decode(),
            "encryptedPassword": base64.b64encode(encrypted).decode(),
            "passwordLength": str(_utf16_units(password)),
        }
        return ",".join(f"{name}:{text}" for name, text in fields.items())

    def decode(self, encoded: str) -> str:
        """Decodes a password. Raises `ConfigError` if neither the secret nor an old one opens it."""
        for secret in (self.secret, *self.old_secrets):
            password = _opened(secret, encoded)
            if password is not None:
                return password
        raise ConfigError("it cannot be decoded by password.encoder.secret, nor by password.encoder.old.secret")

    def renewed(self, encoded: str, token: Callable[[int], bytes]) -> str:
        """A password that the old secret opens, encoded anew by the present one; any other text unchanged."""
        if _opened(self.secret, encoded) is None:
            for secret in self.old_secrets:
                password = _opened(secret, encoded)
                if password is not None:
                    return self.encode(password, token)
        return encoded


def password_encoder(config: Config) -> PasswordEncoder | None:
    """The encoder of a broker's configuration, None if that has no secret. Raises `ConfigError`."""
    secret = config.text("password.encoder.secret")
    if not secret:
        return None
    factory = config.text("password.encoder.keyfactory.algorithm") or _FACTORY
    cipher, bits = config.text("password.encoder.cipher.algorithm"), config.number("password.encoder.key.length")
    if factory not in _FACTORIES:
        raise ConfigError(f"password.encoder.keyfactory.algorithm is {factory}: it takes {', '.join(_FACTORIES)}.")
    if cipher != CIPHER:
        raise ConfigError(f"password.encoder.cipher.algorithm is {cipher}: it takes {CIPHER}.")
    if bits not in _KEY_BITS:
        raise ConfigError(f"password.encoder.key.length is {bits}: {CIPHER} takes 128, 192 or 256.")
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise ConfigError(
            "password.encoder.secret needs cryptography: `pip install 'barnabas[tls]'` brings it."
        ) from None
    old = config.text("password.encoder.old.secret")
    return PasswordEncoder(secret, (old,) if old else (), factory, bits, config.number("password.encoder.iterations"))


def _opened(secret: str, encoded: str) -> str | None:
    try:
        return _decoded(secret, encoded)
    except (KeyError, ValueError, binascii.Error):
        return None


def _decoded(secret: str, encoded: str) -> str:
    fields = dict(part.partition(":")[::2] for part in encoded.split(","))
    if fields["cipherAlgorithm"] != CIPHER:
        raise ValueError("another cipher")
    salt, vector, encrypted = (
        base64.b64decode(fields[name], validate=True) for name in ("salt", "initializationVector", "encryptedPassword")
    )
    iterations, bits = int(fields["iterations"]), int(fields["keyLength"])
    if not 0 < iterations <= 10_000_000 or bits not in _KEY_BITS:
        raise ValueError("it would take too long")
    decryptor = _cipher(_key(secret, fields["keyFactoryAlgorithm"], salt, iterations, bits), vector).decryptor()
    padded = decryptor.update(encrypted) + decryptor.finalize()
    padding = padded[-1] if padded else 0
    if not 0 < padding <= _BLOCK_BYTES or padded[-padding:] != bytes([padding]) * padding:
        raise ValueError("another secret")
    password = padded[:-padding].decode()
    if _utf16_units(password) != int(fields["passwordLength"]):
        raise ValueError("another secret")
    return password


def _utf16_units(text: str) -> int:
    """The length of `text` in Java."""
    return len(text.encode("utf-16-le")) // 2


def _key(secret: str, factory: str, salt: bytes, iterations: int, bits: int) -> bytes:
    return hashlib.pbkdf2_hmac(_FACTORIES[factory], secret.encode(), salt, iterations, bits // 8)


def _cipher(key: bytes, vector: bytes) -> Cipher[CBC]:
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import AES
    from cryptography.hazmat.primitives.ciphers.modes import CBC

    return Cipher(AES(key), CBC(vector))
