"""GSSAPI (Kerberos, RFC 4752), both sides, by the ``gssapi`` package: ``pip install 'barnabas[kerberos]'``.

A client gets its tickets from the system's credential cache (``kinit``), or by the ``keyTab`` of its JAAS options,
which renews them when they expire; a broker's key is in its ``keyTab``. As in Kafka, TLS protects connections, never
GSSAPI's own layers.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from barnabas.model.errors import ConfigError
from barnabas.security.principal import USER, Principal
from barnabas.security.sasl.exchange import Authenticated, InvalidCredentials, SaslRefused

MECHANISM: Final = "GSSAPI"
LOGIN_MODULE: Final = "com.sun.security.auth.module.Krb5LoginModule"
_NO_LAYER: Final = 1
_NO_CACHE: Final = 0x96C73AC3
"""``KRB5_FCC_NOFILE``: the error of MIT's library for a key tab that cannot fill a cache."""
_RULE: Final = re.compile(r"(DEFAULT)|RULE:\[(\d*):([^\]]*)\](?:\(([^)]*)\))?(?:s/([^/]*)/([^/]*)/(g)?)?/?(L|U)?")
_PRINCIPAL: Final = re.compile(r"([^/@]*)(?:/([^/@]*))?@([^/@]*)")


def gssapi_package() -> Any:
    """Raises `ConfigError` if it is not installed."""
    try:
        import gssapi
    except (ImportError, OSError) as error:
        raise ConfigError(
            f"GSSAPI needs the Python package gssapi and the system's Kerberos libraries ({error}): "
            "pip install 'barnabas[kerberos]'."
        ) from None
    return gssapi


class Tickets(NamedTuple):
    """The source of a client's tickets: the options of Java's ``Krb5LoginModule``. The default is the system's."""

    principal: str = ""
    key_tab: str = ""
    cache: str = ""

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Tickets:
        """Raises `ConfigError` for tickets that could never be used."""
        gssapi_package()
        principal = options.get("principal", "")
        by_key, by_cache = (options.get(name, "").lower() == "true" for name in ("useKeyTab", "useTicketCache"))
        if by_key and not options.get("keyTab"):
            raise ConfigError("the JAAS options of GSSAPI have useKeyTab=true and no keyTab.")
        return cls(principal, options["keyTab"] if by_key else "", options.get("ticketCache", "") if by_cache else "")

    def __str__(self) -> str:
        source = f"key tab {self.key_tab}" if self.key_tab else f"ticket cache {self.cache or 'of the system'}"
        return f"{self.principal or 'whoever is there'}, {source}"


def client_tokens(server: str, tickets: Tickets) -> Generator[bytes, bytes, None]:
    """A client's side; `server` is a principal with its realm, or ``service@host``, whose realm Kerberos finds.

    Asks the Kerberos KDC before it returns, and takes as long as the KDC does. Raises `SaslRefused`.
    """
    gssapi = gssapi_package()
    form = gssapi.NameType.kerberos_principal if "/" in server else gssapi.NameType.hostbased_service
    try:
        context = gssapi.SecurityContext(
            name=gssapi.Name(server, form),
            creds=_initiating(gssapi, tickets),
            usage="initiate",
            mech=gssapi.MechType.kerberos,
            flags=[gssapi.RequirementFlag.mutual_authentication, gssapi.RequirementFlag.integrity],
        )
        first = context.step() or b""
    except gssapi.exceptions.GSSError as error:
        no_key = tickets.key_tab and error.min_code == _NO_CACHE
        why = "the file is not there, or has no key of this principal" if no_key else _said(error)
        raise SaslRefused(f"Kerberos, towards {server} by {tickets}: {why}") from None
    return _exchange(gssapi, context, first)


def _exchange(gssapi: Any, context: Any, first: bytes) -> Generator[bytes, bytes, None]:
    try:
        answer = yield first
        while not context.complete:
            answer = yield context.step(answer) or b""
        offer = context.unwrap(answer).message
        if len(offer) != 4 or not offer[0] & _NO_LAYER:
            raise SaslRefused("the server wants a security layer of GSSAPI's, and TLS is spoken")
        yield context.wrap(bytes((_NO_LAYER, 0, 0, 0)), False).message
    except gssapi.exceptions.GSSError as error:
        raise SaslRefused(f"Kerberos: {_said(error)}") from None


def _said(error: Any) -> str:
    """The Kerberos part of a ``GSSError``, if it has one."""
    told = error.get_all_statuses(error.min_code, False) if error.min_code else ()
    return "; ".join(told) or str(error)


class Gssapi:
    """A broker's side (``SaslServerCallbackHandler`` and Java's ``GssKrb5Server``)."""

    name = MECHANISM

    def __init__(self, options: Mapping[str, str], rules: Sequence[str]) -> None:
        """Raises `ConfigError`."""
        self.gssapi = gssapi_package()
        principal, key_tab = options.get("principal", ""), options.get("keyTab", "")
        if not key_tab:
            raise ConfigError("the JAAS options of GSSAPI need keyTab, the file with the broker's key.")
        try:
            self.credentials = _credentials(self.gssapi, principal, "accept", {"keytab": key_tab})
        except self.gssapi.exceptions.GSSError as error:
            raise ConfigError(f"the key tab {key_tab} cannot be used: {error}") from None
        self.rules = ShortNames(rules, (principal or str(self.credentials.name)).rpartition("@")[2])

    def begin(self) -> GssapiServer:
        return GssapiServer(self)


class GssapiServer:
    """One exchange: Kerberos' own tokens, then the offer of no security layer, and the client's assent to it."""

    def __init__(self, mechanism: Gssapi) -> None:
        self._mechanism = mechanism
        self._context = mechanism.gssapi.SecurityContext(creds=mechanism.credentials, usage="accept")
        self._offered = False
        self._over = False
        self.authenticated: Authenticated | None = None

    async def evaluate(self, token: bytes) -> bytes:
        if self._over:
            raise SaslRefused("The exchange is over.")
        try:
            return self._evaluate(token)
        except self._mechanism.gssapi.exceptions.GSSError as error:
            self._over = True
            raise InvalidCredentials(MECHANISM, str(error)) from None
        except SaslRefused:
            self._over = True
            raise

    def _evaluate(self, token: bytes) -> bytes:
        context = self._context
        if not context.complete:
            answer = context.step(token)
            if answer or not context.complete:
                return answer or b""
        elif self._offered:
            return self._chosen(token)
        elif token:
            raise InvalidCredentials(MECHANISM, "a token where none was due")
        self._offered = True
        return bytes(context.wrap(bytes((_NO_LAYER, 0, 0, 0)), False).message)

    def _chosen(self, token: bytes) -> bytes:
        self._over = True
        chosen = self._context.unwrap(token).message
        if len(chosen) < 4 or chosen[0] != _NO_LAYER:
            raise InvalidCredentials(MECHANISM, "the client chose a security layer that was not offered")
        # After it comes the authorization id, which is ignored, as in Kafka: kafka-python and aiokafka name the broker
        # there.
        short = self._mechanism.rules.short_name(str(self._context.initiator_name))
        self.authenticated = Authenticated(Principal(USER, short))
        return b""


class ShortNames:
    """``sasl.kerberos.principal.to.local.rules``: ``User:`` names of ``name/host@REALM`` (``KerberosShortNamer``)."""

    def __init__(self, rules: Sequence[str], realm: str) -> None:
        """`realm` is the broker's own; the rule DEFAULT applies only to its principals. Raises `ConfigError`."""
        self._realm = realm
        self._rules = []
        for text in rules or ("DEFAULT",):
            match = _RULE.fullmatch(text.strip())
            if match is None:
                raise ConfigError(f"sasl.kerberos.principal.to.local.rules has {text!r}, which is no rule.")
            self._rules.append(match)

    def short_name(self, principal: str) -> str:
        """Raises `InvalidCredentials` if no rule fits."""
        parts = _PRINCIPAL.fullmatch(principal)
        if parts is None:
            if "/" in principal or "@" in principal:
                raise InvalidCredentials(MECHANISM, f"{principal!r} is no Kerberos name")
            return principal
        service, host, realm = parts.groups()
        for rule in self._rules:
            default, count, form, pattern, old, new, everywhere, case = rule.groups()
            if default:
                if realm == self._realm:
                    return str(service)
                continue
            components = [realm, service, *([host] if host is not None else [])]
            if int(count or 0) != len(components) - 1:
                continue
            name = re.sub(r"\$(\d)", lambda found, known=components: known[int(found[1])], form)
            if pattern and not re.fullmatch(pattern, name):
                continue
            if old is not None:
                name = re.sub(old, re.sub(r"\$(\d)", r"\\\1", new), name, count=0 if everywhere else 1)
            if "/" in name or "@" in name:
                raise InvalidCredentials(MECHANISM, f"the rules make {name!r} of {principal!r}, which is no short name")
            return {"L": name.lower(), "U": name.upper()}.get(case, name)
        raise InvalidCredentials(MECHANISM, f"no rule of sasl.kerberos.principal.to.local.rules fits {principal!r}")


def _initiating(gssapi: Any, tickets: Tickets) -> Any:
    """None stands for the system's own."""
    principal, key_tab, cache = tickets
    if key_tab:
        # In a cache of their own: the system's cache may be another principal's, and must not be changed here.
        store = {"client_keytab": key_tab, "ccache": f"MEMORY:{principal} {key_tab}"}
        return _credentials(gssapi, principal, "initiate", store)
    if not principal and not cache:
        return None
    return _credentials(gssapi, principal, "initiate", {"ccache": cache} if cache else None)


def _credentials(gssapi: Any, principal: str, usage: str, store: Mapping[str, str] | None) -> Any:
    name = gssapi.Name(principal, gssapi.NameType.kerberos_principal) if principal else None
    # Kerberos alone: SPNEGO could negotiate another mechanism.
    return gssapi.Credentials(name=name, usage=usage, mechs=[gssapi.MechType.kerberos], store=store)
