"""What is kept of a password."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import cast

import pytest

from barnabas.broker.scram_credentials import CredentialChange, alter
from barnabas.model.errors import ErrorCode
from barnabas.runtime.turns import SLICE
from barnabas.security.sasl.scram_credential import ScramCredential, ScramMechanism
from barnabas.zk.kafka.zk_client import KafkaZkClient


def test_a_credential_proves_the_client_of_rfc_7677() -> None:
    """The RFC's example: user "user", password "pencil". Its proof, taken apart with the stored key, must fit."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    exchange = (f"n=user,r=rOprNGfwEbeRWgbNEkqO,r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r={nonce}").encode()
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", salt, 4096)
    credential = ScramCredential.of(ScramMechanism.SCRAM_SHA_256, salt, salted, 4096)
    proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    signature = hmac.digest(credential.stored_key, exchange, "sha256")
    client_key = bytes(left ^ right for left, right in zip(proof, signature, strict=True))
    assert hashlib.sha256(client_key).digest() == credential.stored_key
    server = base64.b64encode(hmac.digest(credential.server_key, exchange, "sha256")).decode()
    assert server == "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert ScramCredential.decode(credential.encode()) == credential


@pytest.mark.parametrize("text", ["", "salt=YQ==", "salt=YQ==,stored_key=YQ==,server_key=YQ==,iterations=x"])
def test_what_is_no_credential_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        ScramCredential.decode(text)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (CredentialChange("", 1), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (CredentialChange("..", 1, delete=True), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (CredentialChange("kate", 3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (CredentialChange("kate", 1, iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (CredentialChange("kate", 2, iterations=16385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (CredentialChange("kate", 1, salt=b"salt", salted_password=b""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
    ],
)
def test_a_change_that_is_wrong_in_itself_is_refused(change: CredentialChange, code: ErrorCode) -> None:
    refusal = change.refusal()
    assert refusal is not None
    assert refusal.code is code


def test_thousands_of_changes_are_refused_in_slices() -> None:
    class Nowhere:
        """A ZooKeeper that nobody asks."""

    changes = [CredentialChange(f"user-{number}", 3) for number in range(2_000)]
    altering = alter(cast(KafkaZkClient, Nowhere()), changes)
    for _ in range(2 * (2_000 // SLICE)):
        altering.send(None)  # another slice is done
    with pytest.raises(StopIteration) as end:
        altering.send(None)
    assert {error.code for error in end.value.value.values()} == {ErrorCode.UNSUPPORTED_SASL_MECHANISM}
    assert len(end.value.value) == 2_000
