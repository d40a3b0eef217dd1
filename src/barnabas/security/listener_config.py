"""A configuration as one listener sees it, and one mechanism of it: ``listener.name.<listener>.[<mechanism>.]<key>``.

A value with the listener's prefix wins over the one without, and one with listener and mechanism over both
(``AbstractConfig.valuesWithPrefixOverride``, ``ConfigurationUtils``). Listeners and mechanisms are in lower case.
"""

from __future__ import annotations

from barnabas.model.config import Config


def listener_prefix(listener: str) -> str:
    return f"listener.name.{listener.lower()}."


def of_listener(config: Config, listener: str) -> Config:
    """The configuration with the listener's own values. Raises `ConfigError` for an invalid one of these."""
    return _overridden(config, listener_prefix(listener))


def of_mechanism(config: Config, listener: str, mechanism: str) -> Config:
    """Raises `ConfigError` as `of_listener` does."""
    prefix = listener_prefix(listener)
    return _overridden(_overridden(config, prefix), f"{prefix}{mechanism.lower()}.")


def mechanism_key(listener: str, mechanism: str, name: str) -> str:
    """A mechanism's key on a listener: ``sasl.jaas.config`` and callback handlers' classes count only in this form."""
    return f"{listener_prefix(listener)}{mechanism.lower()}.{name}"


def _overridden(config: Config, prefix: str) -> Config:
    own = {name[len(prefix) :]: text for name, text in config.overrides.items() if name.startswith(prefix)}
    return config.with_overrides(own) if own else config
