"""``barnabas metrics``: what the brokers count, as Prometheus reads it."""

from __future__ import annotations

from typing import Annotated
from urllib.error import URLError
from urllib.request import urlopen

from barnabas.cli.command import Argument, Option
from barnabas.cli.options import Directory, OutputFormat, directory_of
from barnabas.cli.output import CommandError, Format, print_json, print_table

PATIENCE_S = 30


def metrics(
    name: Annotated[str | None, Argument(metavar="[NAME]", help="Only names that contain this.")] = None,
    broker: Annotated[int | None, Option("--broker", metavar="ID", help="Of this broker; by default of all.")] = None,
    address: Annotated[
        str | None,
        Option("--address", metavar="H:P", help="Of the broker whose barnabas.admin.listener this is."),
    ] = None,
    raw: Annotated[bool, Option("--raw", help="The text that Prometheus reads, as it is.")] = False,
    directory: Directory = None,
    output: OutputFormat = Format.text,
) -> None:
    """Show the brokers' metrics; docs/metrics.md has their names and Kafka's."""
    addresses = {"": address} if address is not None else _addresses(directory_of(directory), broker)
    texts = {label: _text(where) for label, where in addresses.items()}
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
        raise CommandError(f"No metric has {name} in its name: docs/metrics.md lists them.")
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
    """Admin endpoints by broker, of those that run and have one."""
    from barnabas.cli.local import LocalCluster

    brokers = [broker for broker in LocalCluster(directory).loaded().brokers if wanted in (None, broker.id)]
    if not brokers:
        raise CommandError(f"There is no broker {wanted} in {directory}: `barnabas status` lists them.")
    found = {str(broker.id): (broker.status() or {}).get("admin") for broker in brokers if broker.alive}
    listening = {label: where for label, where in found.items() if where}
    if not listening:
        which = "No broker" if wanted is None else f"Broker {wanted} is down, or"
        raise CommandError(f"{which} has an admin endpoint: start it by `barnabas up`, or set barnabas.admin.listener.")
    return listening


def _text(address: str) -> str:
    try:
        with urlopen(f"http://{address}/metrics", timeout=PATIENCE_S) as answer:
            return str(answer.read().decode())
    except (URLError, OSError, ValueError) as error:
        cause = getattr(error, "reason", error)
        raise CommandError(f"No metrics at {address} ({cause}): it takes what barnabas.admin.listener says.") from None
