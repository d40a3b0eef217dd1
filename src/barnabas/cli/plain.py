"""Servers in the background: their address, and how they report to the process that started them."""

from __future__ import annotations

import os
from typing import Final

HOST: Final = "127.0.0.1"
"""The address of a cluster on this machine."""
READY_FD: Final = "BARNABAS_READY_FD"
"""The environment variable with the file descriptor on which a server reports that it is ready, or why it failed."""
KAFKA_OPTS: Final = "KAFKA_OPTS"
"""The environment variable with the JVM options that Kafka's operators set for a broker."""
_KERBEROS: Final = "java.security.krb5.conf"
SECURITY: Final = "security"
"""The directory of a secured cluster's keys and passwords, inside the cluster's directory."""
STATUS_FILE: Final = "status.json"
"""The file beside a broker's ``server.properties`` with its status while it runs."""


def kafka_opts() -> str:
    """The options in ``KAFKA_OPTS``. The Kerberos configuration that they name for a JVM becomes this process's."""
    options = os.environ.get(KAFKA_OPTS, "")
    if _KERBEROS in options:
        from barnabas.broker.jvm_properties import jvm_properties  # here, so that a plain command starts sooner

        named = jvm_properties(options).get(_KERBEROS)
        if named:
            os.environ.setdefault("KRB5_CONFIG", named)
    return options


def is_no_file(path: str | os.PathLike[str]) -> bool:
    """Whether the path is a device or a pipe, which must be written to and never replaced."""
    return os.path.exists(path) and not os.path.isfile(path)
