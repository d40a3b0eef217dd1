"""Subjects of certificates as Java writes them; the expectations are what ``X500Principal.getName`` answered."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from certificates import run

from barnabas.security.tls.names import subject_of


@pytest.mark.parametrize(
    ("asked", "subject"),
    [
        ("/CN=alice/OU=team/O=org/L=Town/ST=State/C=DE", "C=DE,ST=State,L=Town,O=org,OU=team,CN=alice"),
        ("/CN= lead/O=trail ", r"O=trail\ ,CN=\ lead"),
        (
            "/emailAddress=a@b.c/CN=mail/serialNumber=123/title=Dr",
            "2.5.4.12=#0c024472,2.5.4.5=#1303313233,CN=mail,1.2.840.113549.1.9.1=#16056140622e63",
        ),
        ("/DC=com/DC=example/UID=joe/street=Road 1/CN=Jürgen", "CN=Jürgen,STREET=Road 1,UID=joe,DC=example,DC=com"),
        ("/CN=one+OU=two/O=three", "O=three,CN=one+OU=two"),
        (r"""/CN=a,b=c\+d<e>f#g;h"i\\j/O=x\\ """, r"""O=x\\\ ,CN=a\,b\=c\+d\<e\>f\#g\;h\"i\\j"""),
        ("/CN=  /O=b", r"O=b,CN=\ \ "),
        ("/CN=日本/O=a  b", "O=a  b,CN=日本"),
    ],
)
def test_a_subject_is_written_as_java_does(asked: str, subject: str, tmp_path: Path) -> None:
    pem = tmp_path / "c.pem"
    run(
        *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-utf8", "-multivalue-rdn", "-nodes", "-days", "3"),
        *("-keyout", tmp_path / "k.pem", "-out", pem, "-subj", asked),
    )
    assert subject_of(ssl.PEM_cert_to_DER_cert(pem.read_text())) == subject


@pytest.mark.parametrize("cut", [0, 1, 5, 40, 200])
def test_what_is_no_certificate_is_a_value_error(cut: int) -> None:
    with pytest.raises(ValueError, match=r"no certificate|unpack"):
        subject_of((bytes.fromhex("3082030a308201f2a003020102") + bytes(300))[:cut])
