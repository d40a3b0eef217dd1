"""The mechanisms of a listener, from ``sasl.enabled.mechanisms`` and the listener's JAAS options."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Mapping
from typing import Final

from barnabas.model.comma_list import comma_list
from barnabas.model.config import Config, broker_definitions
from barnabas.model.errors import ConfigError
from barnabas.runtime.doors import Runtime
from barnabas.security.listener_config import mechanism_key, of_listener, of_mechanism
from barnabas.security.sasl import gssapi, oauthbearer, plain
from barnabas.security.sasl.exchange import SaslMechanism
from barnabas.security.sasl.gssapi import Gssapi
from barnabas.security.sasl.http import ALLOWED_URLS, HttpRequest, allowed_url, tls_options
from barnabas.security.sasl.jaas import DISALLOWED_LOGIN_MODULES, LoginModule, login_module
from barnabas.security.sasl.jwt import Expectations, Keys, SignedTokens, UnsecuredTokens
from barnabas.security.sasl.login import CALLBACK_HANDLERS, SETTINGS, Login, login_of_module
from barnabas.security.sasl.oauthbearer import OAuthBearer
from barnabas.security.sasl.plain import Plain
from barnabas.security.sasl.scram import Scram, ScramUsers
from barnabas.security.sasl.scram_credential import MECHANISMS as SCRAM

logger = logging.getLogger(__name__)

LOGIN_MODULES: Final = {
    plain.MECHANISM: "org.apache.kafka.common.security.plain.PlainLoginModule",
    **dict.fromkeys(SCRAM, "org.apache.kafka.common.security.scram.ScramLoginModule"),
    oauthbearer.MECHANISM: "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
    gssapi.MECHANISM: gssapi.LOGIN_MODULE,
}
"""The login module class of each mechanism's JAAS options."""
BETWEEN_BROKERS: Final = "sasl.mechanism.inter.broker.protocol"
WITH_CONTROLLERS: Final = "sasl.mechanism.controller.protocol"
"""The keys that name a broker's own login mechanism: at other brokers, and at KRaft controllers."""
_OAUTHBEARER: Final = "org.apache.kafka.common.security.oauthbearer"
_SECURED_VALIDATORS: Final = (
    f"{_OAUTHBEARER}.OAuthBearerValidatorCallbackHandler",
    f"{_OAUTHBEARER}.secured.OAuthBearerValidatorCallbackHandler",
)
_UNSECURED_VALIDATOR: Final = f"{_OAUTHBEARER}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
_VALIDATORS: Final = (*_SECURED_VALIDATORS, _UNSECURED_VALIDATOR)
"""The Kafka classes whose work this module does itself."""
_SERVER_HANDLER: Final = "sasl.server.callback.handler.class"
_LOGIN_HANDLER: Final = "sasl.login.callback.handler.class"


def enabled_mechanisms(config: Config, listener: str) -> tuple[str, ...]:
    """The ``sasl.enabled.mechanisms`` of this listener, in order."""
    return of_listener(config, listener).items("sasl.enabled.mechanisms")


def offered_mechanisms(config: Config, listener: str, users: ScramUsers, runtime: Runtime) -> dict[str, SaslMechanism]:
    """The mechanisms by name, in the order of ``sasl.enabled.mechanisms``, which SaslHandshake answers, too.

    Raises `ConfigError`, with the key's name, for a mechanism that is unknown or lacks a setting.
    """
    names = enabled_mechanisms(config, listener)
    if not names:
        raise ConfigError(f"sasl.enabled.mechanisms is empty for listener {listener}: nobody could log in there.")
    return {name: _mechanism(config, listener, name, users, runtime) for name in names}


def login_of_broker(config: Config, listener: str, key: str = BETWEEN_BROKERS) -> Login:
    """A broker's login at other brokers on `listener`: by the mechanism that `key` names, whose options serve both
    sides in Kafka. Raises `ConfigError`."""
    name = of_listener(config, listener).text(key)
    if name not in LOGIN_MODULES:
        raise ConfigError(f"{key} is {name}: this broker speaks {', '.join(LOGIN_MODULES)}.")
    module = jaas_of_broker(config, listener, name)
    settings = _settings(of_mechanism(config, listener, name))
    try:
        return login_of_module(name, module, settings)
    except ConfigError as error:
        raise ConfigError(f"{mechanism_key(listener, name, 'sasl.jaas.config')}, between brokers: {error}") from None


def jaas_of_broker(config: Config, listener: str, mechanism: str) -> LoginModule:
    """A broker's options for one mechanism of a listener (``JaasContext.loadServerContext``). Raises `ConfigError`."""
    key = mechanism_key(listener, mechanism, "sasl.jaas.config")
    text = config.overrides.get(key)
    if text is None:
        beside = " sasl.jaas.config without this prefix does not count." if config.is_set("sasl.jaas.config") else ""
        raise ConfigError(f"{key} is not set, and sasl.enabled.mechanisms has {mechanism}.{beside}")
    try:
        module = login_module(text, config.overrides.get(DISALLOWED_LOGIN_MODULES))
    except ValueError as error:
        raise ConfigError(f"{key} cannot be read: {error}.") from None
    expected = LOGIN_MODULES[mechanism]
    if module.class_name != expected:
        raise ConfigError(f"{key} names the login module {module.class_name}: {mechanism} takes {expected}.")
    return module


def _mechanism(config: Config, listener: str, name: str, users: ScramUsers, runtime: Runtime) -> SaslMechanism:
    if name not in LOGIN_MODULES:
        raise ConfigError(
            f"sasl.enabled.mechanisms has {name} for {listener}: this broker speaks {', '.join(LOGIN_MODULES)}."
        )
    module = jaas_of_broker(config, listener, name)
    _refuse_classes(config, listener, name)
    if name == plain.MECHANISM:
        prefix = plain.USER_PREFIX
        return Plain({key[len(prefix) :]: text for key, text in module.options.items() if key.startswith(prefix)})
    if name == oauthbearer.MECHANISM:
        return _oauthbearer(config, listener, module.options, runtime)
    if name == gssapi.MECHANISM:
        rules = of_mechanism(config, listener, name).items("sasl.kerberos.principal.to.local.rules")
        return Gssapi(module.options, rules)
    return Scram(SCRAM[name], users, runtime.clock, lambda: runtime.entropy.token(20).hex())


def _oauthbearer(config: Config, listener: str, options: Mapping[str, str], runtime: Runtime) -> OAuthBearer:
    key = mechanism_key(listener, oauthbearer.MECHANISM, _SERVER_HANDLER)
    handler = config.overrides.get(key, "")
    mine = of_mechanism(config, listener, oauthbearer.MECHANISM)
    name = "sasl.oauthbearer.jwks.endpoint.url"
    url = mine.text(name)
    if handler == _UNSECURED_VALIDATOR:
        if url:
            raise ConfigError(f"{key} takes tokens that nobody signed, and {name} is set as well: it takes one.")
        logger.warning("listener %s takes OAUTHBEARER tokens that nobody signed: anybody can be anyone there", listener)
        return OAuthBearer(UnsecuredTokens(options, runtime.clock))
    if not url:
        raise ConfigError(
            f"{name} is not set for listener {listener}: it names the keys by which tokens are checked. Kafka would "
            f"take tokens that nobody signed; for that, set {key}={_UNSECURED_VALIDATOR}."
        )
    if importlib.util.find_spec("joserfc") is None:
        raise ConfigError("OAUTHBEARER needs the Python package joserfc: pip install 'barnabas[oauth]'.")
    allowed = comma_list(config.overrides.get(ALLOWED_URLS, ""))
    request = HttpRequest(allowed_url(name, url, allowed), headers=(("Accept", "*/*"),), tls=tls_options(options))
    keys = Keys(runtime, request, mine.number("sasl.oauthbearer.jwks.endpoint.refresh.ms"))
    expected = Expectations(
        mine.items("sasl.oauthbearer.expected.audience"),
        mine.text("sasl.oauthbearer.expected.issuer"),
        mine.text("sasl.oauthbearer.scope.claim.name"),
        mine.text("sasl.oauthbearer.sub.claim.name"),
        1000 * mine.number("sasl.oauthbearer.clock.skew.seconds"),
    )
    return OAuthBearer(SignedTokens(keys, expected, runtime.clock))


def _settings(config: Config) -> dict[str, str]:
    """The broker's settings for a login."""
    found = {name: config.text(name) for name in SETTINGS if name in broker_definitions()}
    found.pop("sasl.jaas.config", None)
    return {name: text for name, text in found.items() if text}


def _refuse_classes(config: Config, listener: str, mechanism: str) -> None:
    known = {_SERVER_HANDLER: _VALIDATORS, _LOGIN_HANDLER: CALLBACK_HANDLERS, "sasl.login.class": ()}
    for name, classes in known.items():
        key = mechanism_key(listener, mechanism, name)
        given = config.overrides.get(key)
        if given and not (mechanism == oauthbearer.MECHANISM and given in classes):
            raise ConfigError(f"{key} is {given}: this broker does not run it.")
