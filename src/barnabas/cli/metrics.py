"""``barnabas metrics``: reads the brokers' metrics from their admin endpoints."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Mapping
from http.client import HTTPException
from typing import Annotated
from urllib.error import HTTPError, URLError
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

from barnabas.cli.command import Argument, Option
from barnabas.cli.connect import security_of, settings_of
from barnabas.cli.options import CommandConfig, Directory, OutputFormat, Properties, Reach, directory_of
from barnabas.cli.output import CommandError, Format, print_json, print_table

PATIENCE_S = 10


def metrics(
    name: Annotated[str | None, Argument(metavar="[NAME]", help="Only metrics whose name contains this text.")] = None,
    broker: Annotated[
        int | None, Option("--broker", metavar="ID", help="Only this broker's metrics; by default all brokers'.")
    ] = None,
    address: Annotated[
        str | None,
        Option(
            "--address",
            metavar="H:P",
            help="Ask the broker with this barnabas.admin.listener; https://H:P if it uses TLS.",
        ),
    ] = None,
    raw: Annotated[bool, Option("--raw", help="Print the text that Prometheus reads, unchanged.")] = False,
    directory: Directory = None,
    properties: Properties = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.text,
) -> None:
    """Show the brokers' metrics; docs/metrics.md lists their names beside Kafka's."""
    addresses = {"": address} if address is not None else _addresses(directory_of(directory), broker)
    tls, headers = _shown(settings_of(Reach(None, directory, properties, command_config)))
    texts = {label: _text(where, tls, headers) for label, where in addresses.items()}
    if raw:
        for text in texts.values():
            print(text, end="")
        return
    from prometheus_client.parser import text_string_to_metric_families

    samples = [
        (label, sample)
        for label, text in texts.items()
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if name is None or name.lower() in sample.name
    ]
    if output is Format.json:
        print_json(
            [
                {"broker": label or None, "name": sample.name, "labels": sample.labels, "value": sample.value}
                for label, sample in samples
            ]
        )
        return
    if not samples:
        raise CommandError(f"No metric's name contains {name}: docs/metrics.md lists them.")
    print_table(
        ["broker", "metric", "labels", "value"],
        [
            [
                label,
                sample.name,
                ",".join(f"{key}={value}" for key, value in sample.labels.items()),
                f"{sample.value:.15g}",
            ]
            for label, sample in samples
            if not sample.name.endswith(("_bucket", "_created"))
        ],
    )


def _addresses(directory: str, wanted: int | None) -> dict[str, str]:
    """The admin endpoints of running brokers that have one, by broker."""
    from barnabas.cli.local_state import cluster_in

    brokers = [broker for broker in cluster_in(directory).brokers if wanted in (None, broker.id)]
    if not brokers:
        raise CommandError(f"There is no broker {wanted} in {directory}: `barnabas status` lists them.")
    found = {str(broker.id): (broker.status() or {}).get("admin_url") for broker in brokers if broker.alive}
    listening = {label: where for label, where in found.items() if where}
    if not listening:
        which = "No broker" if wanted is None else f"Broker {wanted} is down, or"
        raise CommandError(f"{which} has an admin endpoint: start it by `barnabas up`, or set barnabas.admin.listener.")
    return listening


def _shown(settings: Mapping[str, str]) -> tuple[ssl.SSLContext | None, dict[str, str]]:
    """How the reader authenticates by its client properties: by a certificate, or by a name and password."""
    tls, login = security_of(settings)
    if login is None:
        return tls, {}
    from barnabas.security.sasl.login import SaslLogin

    if not isinstance(login, SaslLogin):
        raise CommandError(f"Metrics are read with a name and password, not by {login.mechanism}.")
    shown = base64.b64encode(f"{login.username}:{login.password}".encode()).decode()
    return tls, {"authorization": f"Basic {shown}"}


def _text(address: str, tls: ssl.SSLContext | None, headers: Mapping[str, str]) -> str:
    url = address if "://" in address else f"http://{address}"
    if not url.startswith("https://"):
        tls, headers = None, {}  # a password is sent only over TLS
    # As Kafka's clients do, this ignores the environment's HTTP proxy.
    opener = build_opener(ProxyHandler({}), HTTPSHandler(context=tls))
    try:
        with opener.open(Request(f"{url}/metrics", headers=dict(headers)), timeout=PATIENCE_S) as answer:
            return str(answer.read().decode())
    except HTTPError as refusal:
        raise CommandError(f"No metrics at {address}: {_said(refusal)}") from None
    except (URLError, HTTPException, OSError, ValueError) as error:
        cause = getattr(error, "reason", error)
        raise CommandError(
            f"No metrics at {address} ({cause}): the address is the value of barnabas.admin.listener."
        ) from None


def _said(refusal: HTTPError) -> str:
    """The endpoint's own reason for its refusal."""
    try:
        return str(json.loads(refusal.read())["error"])
    except (OSError, ValueError, KeyError, TypeError):
        return f"it answered {refusal.code}."
