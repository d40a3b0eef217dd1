"""The content of ``/delegation_token/tokens/ID`` (``DelegationTokenManagerZk``). Pure. The HMAC is not part of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from barnabas.zk.kafka.security_znodes import DelegationTokenInfoZNode
from barnabas.zk.kafka.znode_json import Reading, ZNodeError, desanitize, sanitize, shown

_VERSION: Final = 3


@dataclass(frozen=True, slots=True)
class TokenInformation:
    """A delegation token's facts. Principals are ``User:name``; times are wall clock milliseconds.

    `token_requester` made the token for `owner` (KIP-373); before that they were one.
    """

    token_id: str
    owner: str
    token_requester: str
    renewers: tuple[str, ...]
    issue_timestamp: int
    max_timestamp: int
    expiry_timestamp: int

    def encode(self) -> bytes:
        return json.dumps(
            {
                "version": _VERSION,
                "owner": sanitize(self.owner),
                "tokenRequester": sanitize(self.token_requester),
                "renewers": [sanitize(renewer) for renewer in self.renewers],
                "issueTimestamp": self.issue_timestamp,
                "maxTimestamp": self.max_timestamp,
                "expiryTimestamp": self.expiry_timestamp,
                "tokenId": self.token_id,
            },
            separators=(",", ":"),
            ensure_ascii=False,
        ).encode()

    @classmethod
    def decode(cls, token_id: str, data: bytes | None) -> TokenInformation | None:
        """Reads any version from 1 to 3; None for an empty znode. Raises `ZNodeError`."""
        if not data:
            return None
        path = DelegationTokenInfoZNode.path(token_id)
        with Reading(path, data) as fields:
            version = int(fields["version"])
            if not 0 < version <= _VERSION:
                raise ZNodeError(f"{path} has version {version}, not 1 to {_VERSION}: {shown(data)}")
            owner = desanitize(fields["owner"])
            return cls(
                str(fields["tokenId"]),
                owner,
                desanitize(fields["tokenRequester"]) if version >= 3 else owner,
                tuple(desanitize(renewer) for renewer in fields["renewers"]),
                int(fields["issueTimestamp"]),
                int(fields["maxTimestamp"]),
                int(fields["expiryTimestamp"]),
            )
