"""The operator's requests about users: SCRAM credentials (KIP-554) and delegation tokens (KIP-48, KIP-373)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from barnabas.client.admin_routing import AdminRouting
from barnabas.model.errors import KafkaError, check_code, outcome_of
from barnabas.security.principal import Principal
from barnabas.security.sasl.scram_credential import ITERATIONS_MIN, ScramMechanism
from barnabas.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from barnabas.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from barnabas.wire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from barnabas.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from barnabas.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from barnabas.wire.messages.renew_delegation_token import RenewDelegationTokenRequest

SALT_BYTES: Final = 20


class DelegationToken(NamedTuple):
    """Times are wall clock milliseconds. For SCRAM with ``tokenauth=true`` the password is `hmac` in base64."""

    token_id: str
    hmac: bytes
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    issue_ms: int
    expiry_ms: int
    max_ms: int

    def __repr__(self) -> str:
        return f"DelegationToken({self.token_id!r}, owner={self.owner})"


class SecurityAdmin(AdminRouting):
    async def set_scram_password(
        self, user: str, password: str, mechanism: ScramMechanism, *, iterations: int = ITERATIONS_MIN
    ) -> None:
        """Creates the user, or changes its password. Only the salted password is sent, never the password itself."""
        salt = self.cluster.runtime.entropy.token(SALT_BYTES)
        request = AlterUserScramCredentialsRequest()
        request.upsertions = [
            AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
                name=user,
                mechanism=int(mechanism),
                iterations=iterations,
                salt=salt,
                salted_password=mechanism.salted_password(password, salt, iterations),
            )
        ]
        await self._alter_scram(request)

    async def delete_scram_passwords(self, user: str, mechanisms: Sequence[ScramMechanism]) -> None:
        """Deletes passwords of a user: all, or none with RESOURCE_NOT_FOUND if the user lacks one of `mechanisms`."""
        request = AlterUserScramCredentialsRequest()
        request.deletions = [
            AlterUserScramCredentialsRequest.ScramCredentialDeletion(name=user, mechanism=int(mechanism))
            for mechanism in mechanisms
        ]
        await self._alter_scram(request)

    async def _alter_scram(self, request: AlterUserScramCredentialsRequest) -> None:
        answer = await self._to(
            self.cluster.controller, request, lambda answer: [result.error_code for result in answer.results]
        )
        for result in answer.results:
            check_code(result.error_code, result.error_message)

    async def scram_users(self, users: Sequence[str] = ()) -> dict[str, Mapping[ScramMechanism, int] | KafkaError]:
        """The mechanisms of `users`, or of all, each with its iterations."""
        request = DescribeUserScramCredentialsRequest(
            users=[DescribeUserScramCredentialsRequest.UserName(name=user) for user in users] or None
        )
        answer = await self._to(self.cluster.controller, request, lambda answer: [answer.error_code])
        check_code(answer.error_code, answer.error_message)
        found: dict[str, Mapping[ScramMechanism, int] | KafkaError] = {}
        for result in answer.results:
            infos = result.credential_infos
            found[result.user] = outcome_of(result.error_code, result.error_message) or {
                ScramMechanism(info.mechanism): info.iterations for info in infos
            }
        return found

    async def create_delegation_token(
        self, *, owner: Principal | None = None, renewers: Sequence[Principal] = (), lifetime_ms: int = -1
    ) -> DelegationToken:
        """Creates a token for `owner`, by default the caller. A `lifetime_ms` of -1 is as long as brokers grant."""
        request = CreateDelegationTokenRequest(
            renewers=[CreateDelegationTokenRequest.CreatableRenewers(*renewer) for renewer in renewers],
            max_lifetime_ms=lifetime_ms,
        )
        if owner is not None:
            request.owner_principal_type, request.owner_principal_name = owner
        made = await self._token(request)
        told_owner = Principal(made.principal_type, made.principal_name)
        requester = Principal(made.token_requester_principal_type, made.token_requester_principal_name)
        return DelegationToken(
            made.token_id,
            bytes(made.hmac),
            told_owner,
            requester if requester.name else told_owner,
            tuple(renewers),
            made.issue_timestamp_ms,
            made.expiry_timestamp_ms,
            made.max_timestamp_ms,
        )

    async def renew_delegation_token(self, hmac: bytes, period_ms: int = -1) -> int:
        """Returns the token's new expiry (ms of the wall clock); a `period_ms` of -1 is the brokers' default."""
        answer = await self._token(RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms))
        return int(answer.expiry_timestamp_ms)

    async def expire_delegation_token(self, hmac: bytes, period_ms: int = -1) -> int:
        """Returns the token's new expiry (ms of the wall clock); with -1 the token is removed at once."""
        answer = await self._token(ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms))
        return int(answer.expiry_timestamp_ms)

    async def delegation_tokens(self, owners: Sequence[Principal] | None = None) -> list[DelegationToken]:
        """The tokens of `owners`, or all that the caller may see."""
        owner_of = DescribeDelegationTokenRequest.DescribeDelegationTokenOwner
        request = DescribeDelegationTokenRequest(
            owners=None if owners is None else [owner_of(*principal) for principal in owners]
        )
        found = []
        for token in (await self._token(request)).tokens:
            owner = Principal(token.principal_type, token.principal_name)
            requester = Principal(token.token_requester_principal_type, token.token_requester_principal_name)
            found.append(
                DelegationToken(
                    token.token_id,
                    bytes(token.hmac),
                    owner,
                    requester if requester.name else owner,
                    tuple(Principal(renewer.principal_type, renewer.principal_name) for renewer in token.renewers),
                    token.issue_timestamp,
                    token.expiry_timestamp,
                    token.max_timestamp,
                )
            )
        return found

    async def _token(self, request: Any) -> Any:
        answer = await self._to(self.cluster.any, request, lambda answer: [answer.error_code])
        check_code(answer.error_code)
        return answer
