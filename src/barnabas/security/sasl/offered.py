"""Which mechanisms a listener offers, by ``sasl.enabled.mechanisms`` and the listener's JAAS options."""

from __future__ import annotations

from typing import Final

from barnabas.model.config import Config
from barnabas.model.errors import ConfigError
from barnabas.runtime.doors import Runtime
from barnabas.security.listener_config import mechanism_key, of_listener
from barnabas.security.sasl import plain
from barnabas.security.sasl.exchange import SaslMechanism
from barnabas.security.sasl.jaas import LoginModule, login_module
from barnabas.security.sasl.plain import Plain
from barnabas.security.sasl.scram import Scram, ScramUsers
from barnabas.security.sasl.scram_credential import MECHANISMS as SCRAM

LOGIN_MODULES: Final = {
    plain.MECHANISM: "org.apache.kafka.common.security.plain.PlainLoginModule",
    **dict.fromkeys(SCRAM, "org.apache.kafka.common.security.scram.ScramLoginModule"),
}
"""The class that a mechanism's JAAS options are written for."""


def enabled_mechanisms(config: Config, listener: str) -> tuple[str, ...]:
    """What ``sasl.enabled.mechanisms`` says for this listener, in its order."""
    return of_listener(config, listener).items("sasl.enabled.mechanisms")


def offered_mechanisms(config: Config, listener: str, users: ScramUsers, runtime: Runtime) -> dict[str, SaslMechanism]:
    """By name, in the order of ``sasl.enabled.mechanisms``, which is what SaslHandshake answers.

    Raises `ConfigError`, with the key's name, for a mechanism that is not there or lacks what it needs.
    """
    names = enabled_mechanisms(config, listener)
    if not names:
        raise ConfigError(f"sasl.enabled.mechanisms is empty for listener {listener}: nobody could log in there.")
    return {name: _mechanism(config, listener, name, users, runtime) for name in names}


def jaas_of_broker(config: Config, listener: str, mechanism: str) -> LoginModule:
    """A broker's options for one mechanism of a listener (``JaasContext.loadServerContext``). Raises `ConfigError`."""
    key = mechanism_key(listener, mechanism, "sasl.jaas.config")
    text = config.overrides.get(key)
    if text is None:
        beside = " sasl.jaas.config without this prefix does not count." if config.is_set("sasl.jaas.config") else ""
        raise ConfigError(f"{key} is not set, and sasl.enabled.mechanisms has {mechanism}.{beside}")
    try:
        module = login_module(text)
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
    return Scram(SCRAM[name], users, runtime.clock, lambda: runtime.entropy.token(20).hex())


def _refuse_classes(config: Config, listener: str, mechanism: str) -> None:
    for key in ("sasl.server.callback.handler.class", "sasl.login.class", "sasl.login.callback.handler.class"):
        full = mechanism_key(listener, mechanism, key)
        if config.overrides.get(full):
            raise ConfigError(f"{full} is {config.overrides[full]}: this broker does not run it.")
