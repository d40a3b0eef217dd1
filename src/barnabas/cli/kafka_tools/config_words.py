"""``kafka-configs``: its options, checked as ``ConfigCommand.ConfigCommandOptions`` checks them."""

from __future__ import annotations

import re
import socket
from typing import Final

from barnabas.cli.kafka_tools.errors import illegal_argument
from barnabas.cli.kafka_tools.options import OptionParser, Options, ToolWords
from barnabas.cli.kafka_tools.session import load_properties

TOPICS: Final = "topics"
CLIENTS: Final = "clients"
USERS: Final = "users"
BROKERS: Final = "brokers"
IPS: Final = "ips"
BROKER_LOGGERS: Final = "broker-loggers"
CLIENT_METRICS: Final = "client-metrics"

_BY_BROKERS: Final = (TOPICS, CLIENTS, USERS, BROKERS, IPS, BROKER_LOGGERS, CLIENT_METRICS)
_BY_ZOOKEEPER: Final = (USERS, BROKERS)

_OUTSIDE_BRACKETS: Final = r"(?=[^\]]*(?:\[|$))"


class ConfigWords(ToolWords):
    def __init__(self, words: list[str]) -> None:
        parser = self.parser = OptionParser()
        self.zookeeper = parser.takes(
            "zookeeper",
            "DEPRECATED. The ZooKeeper to write to, host:port and more of them: for SCRAM credentials of users, and "
            "for brokers that do not run.",
            "urls",
        )
        self.server = parser.takes("bootstrap-server", "The brokers to ask first.", "server to connect to")
        self.controller = parser.takes(
            "bootstrap-controller", "The controllers to ask first.", "controller to connect to"
        )
        self.config_file = parser.takes(
            "command-config", "A file of client properties.", "command config property file"
        )
        self.alter = parser.flag("alter", "Change configurations.")
        self.describe = parser.flag("describe", "Show configurations.")
        self.all = parser.flag("all", "Also show configurations that were not set, and a broker's static ones.")
        self.entity_type = parser.takes(
            "entity-type", "topics, clients, users, brokers, broker-loggers, ips or client-metrics."
        )
        self.entity_name = parser.takes(
            "entity-name", "A topic's name, a client's id, a user's principal name, a broker's id, or an IP address."
        )
        self.entity_default = parser.flag(
            "entity-default", "The defaults, for all that have no configuration of their own."
        )
        self.add_config = parser.takes(
            "add-config", "Keys and values, k1=v1,k2=[v1,v2],k3=v3: brackets keep commas together."
        )
        self.add_config_file = parser.takes("add-config-file", "A properties file of keys and values.")
        self.delete_config = parser.takes("delete-config", "Keys, k1,k2.", separator=",")
        self.force = parser.flag("force", "Ask nothing.")
        self.named = {
            TOPICS: parser.takes("topic", "The topic."),
            CLIENTS: parser.takes("client", "The client's id."),
            USERS: parser.takes("user", "The user's principal name."),
            BROKERS: parser.takes("broker", "The broker's id."),
            BROKER_LOGGERS: parser.takes("broker-logger", "The id of the broker whose loggers these are."),
            IPS: parser.takes("ip", "The IP address."),
        }
        self.defaults = {
            CLIENTS: parser.flag("client-defaults", "The defaults of all clients."),
            USERS: parser.flag("user-defaults", "The defaults of all users."),
            BROKERS: parser.flag("broker-defaults", "The defaults of all brokers."),
            IPS: parser.flag("ip-defaults", "The defaults of all IP addresses."),
        }
        self.zk_tls_config_file = parser.takes(
            "zk-tls-config-file", "A file of properties for TLS towards ZooKeeper.", "ZooKeeper TLS configuration"
        )
        self.options = parser.read(
            words,
            "This tool helps to manipulate and describe entity config for a topic, client, user, broker, ip or "
            "client-metrics",
        )
        self._check(self.options)

    @property
    def entity_types(self) -> list[str]:
        flags = [*self.named.items(), *self.defaults.items()]
        return [*self.options.values(self.entity_type), *(kind for kind, flag in flags if self.has(flag))]

    @property
    def entity_names(self) -> list[str]:
        """In the order in which they were given; empty for a default."""
        given = iter(self.options.values(self.entity_name))
        names: list[str] = []
        for option in self.options.found:
            if option is self.entity_name:
                names.append(next(given))
            elif option is self.entity_default:
                names.append("")
        names += [self.value(flag) for flag in self.named.values() if self.has(flag)]
        return names + ["" for flag in self.defaults.values() if self.has(flag)]

    def to_add(self) -> dict[str, str]:
        """Raises `JavaError`."""
        configs: dict[str, str] = {}
        if self.has(self.add_config_file):
            configs.update(load_properties(self.value(self.add_config_file)))
        if self.has(self.add_config):
            parts = re.split("," + _OUTSIDE_BRACKETS, self.value(self.add_config))
            while len(parts) > 1 and not parts[-1]:
                parts.pop()
            pairs = [re.split(r"\s*=\s*" + _OUTSIDE_BRACKETS, part) for part in parts]
            if any(len(pair) != 2 for pair in pairs):
                raise illegal_argument(
                    "requirement failed: Invalid entity config: all configs to be added must be in the format "
                    '"key=val".'
                )
            configs.update((name.strip(), re.sub(r"[\[\]]", "", value).strip()) for name, value in pairs)
        for name in configs:
            if not re.fullmatch(r"[a-zA-Z0-9._-]*", name):
                raise illegal_argument(f"Invalid character found for config key: {name}")
        return configs

    def to_delete(self) -> list[str]:
        return [str(key).strip() for key in self.options.values(self.delete_config)]

    def _check(self, options: Options) -> None:
        if sum(map(options.has, (self.alter, self.describe))) != 1:
            self.parser.usage_and_exit("Command must include exactly one action: --describe, --alter")
        self.parser.forbid(options, self.describe, (self.alter, self.add_config, self.delete_config))
        types = self.entity_types
        self._check_types(options, types)
        self._check_connection(options)
        self._check_names(options, types)
        if options.has(self.alter):
            self._check_alter(options, types)

    def _check_types(self, options: Options, types: list[str]) -> None:
        if len(set(types)) != len(types):
            twice = [kind for place, kind in enumerate(types) if kind in types[:place]]
            raise illegal_argument(f"Duplicate entity type(s) specified: {','.join(twice)}")
        by_brokers = options.has_any((self.server, self.controller))
        allowed = _BY_BROKERS if by_brokers else _BY_ZOOKEEPER
        connect = "--bootstrap-server or --bootstrap-controller" if by_brokers else "--zookeeper"
        for kind in types:
            if kind not in allowed:
                raise illegal_argument(
                    f"Invalid entity type {kind}, the entity type must be one of {', '.join(allowed)} with a "
                    f"{connect} argument"
                )
        if not types:
            raise illegal_argument("At least one entity type must be specified")
        if len(types) > 1 and set(types) != {USERS, CLIENTS}:
            raise illegal_argument("Only 'users' and 'clients' entity types may be specified together")
        general = (self.entity_name, self.entity_type, self.entity_default)
        special = (*self.named.values(), *self.defaults.values())
        if options.has_any(general) and options.has_any(special):
            raise illegal_argument(
                "--entity-{type,name,default} should not be used in conjunction with specific entity flags"
            )

    def _check_connection(self, options: Options) -> None:
        connections = sum(map(options.has, (self.server, self.controller, self.zookeeper)))
        if connections == 0:
            raise illegal_argument(
                "One of the required --bootstrap-server, --boostrap-controller, or --zookeeper arguments must be "
                "specified"
            )
        if connections > 1:
            raise illegal_argument(
                "Only one of --bootstrap-server, --boostrap-controller, and --zookeeper can be specified"
            )
        if options.has(self.all) and options.has(self.zookeeper):
            raise illegal_argument("--bootstrap-server must be specified for --all")
        if options.has(self.zk_tls_config_file) and not options.has(self.zookeeper):
            raise illegal_argument("Only the --zookeeper option can be used with the --zk-tls-config-file option.")

    def _check_names(self, options: Options, types: list[str]) -> None:
        has_name = any(self.entity_names)
        if has_name and (BROKERS in types or BROKER_LOGGERS in types):
            for option in (self.entity_name, self.named[BROKERS], self.named[BROKER_LOGGERS]):
                if options.has(option) and not re.fullmatch(r"[+-]?[0-9]+", options.value(option)):
                    raise illegal_argument(
                        f"The entity name for {types[0]} must be a valid integer broker id, but it is: "
                        f"{options.value(option)}"
                    )
        if has_name and IPS in types:
            for option in (self.entity_name, self.named[IPS]):
                if options.has(option) and not _is_host(options.value(option)):
                    raise illegal_argument(
                        f"The entity name for {types[0]} must be a valid IP or resolvable host, but it is: "
                        f"{options.value(option)}"
                    )
        if options.has(self.describe) and BROKER_LOGGERS in types and not has_name:
            raise illegal_argument(f"an entity name must be specified with --describe of {','.join(types)}")

    def _check_alter(self, options: Options, types: list[str]) -> None:
        names = self.entity_names
        if {USERS, CLIENTS, BROKERS, IPS} & set(types):
            if not names:
                raise illegal_argument(
                    "an entity-name or default entity must be specified with --alter of users, clients, brokers or ips"
                )
        elif not any(names):
            raise illegal_argument(f"an entity name must be specified with --alter of {','.join(types)}")
        if options.has(self.add_config) and options.has(self.add_config_file):
            raise illegal_argument("Only one of --add-config or --add-config-file must be specified")
        if not options.has_any((self.add_config, self.add_config_file, self.delete_config)):
            raise illegal_argument(
                "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"
            )


def _is_host(name: str) -> bool:
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return False
    return True
