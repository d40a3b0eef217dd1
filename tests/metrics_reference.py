"""``docs/metrics.md``: the metrics, made from the code. `make docs` writes it, and a test finds what is stale."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from metrics_not_exported import NOT_EXPORTED

from barnabas.web.exposition import exposed_name
from barnabas.web.metrics import Metric
from barnabas.web.partition_metrics import (
    PARTITION_METRICS,
    PARTITION_TOTALS,
    TOPIC_METRICS,
    PartitionTotal,
    TopicMetric,
)
from barnabas.web.table import Table

PAGE: Final = Path(__file__).parent.parent / "docs" / "metrics.md"
_HEAD: Final = """\
# Metrics

This page is made from the source by `make docs`.

A broker tells its metrics at `http://HOST:PORT/metrics`, as Prometheus reads them, where `barnabas.admin.listener` says
that it listens (`barnabas up` gives every broker a free port on 127.0.0.1; `barnabas status --format json` has it).
`barnabas metrics [NAME]` shows them; `--raw` is the text itself. Names are Kafka's MBeans in the form that Prometheus'
JMX exporter gives them. Times are in milliseconds, as Kafka's are. A name has at most `barnabas.metrics.series.max`
series; `barnabas_metrics_series_left_out` says what is beyond. Of a connection's produces and fetches the first 64 are
timed, and then one in 64, which counts for 64; all other requests are timed one by one.

[monitoring/grafana.json](monitoring/grafana.json) is a dashboard to be imported into Grafana, and
[monitoring/alerts.yml](monitoring/alerts.yml) has Prometheus' alerting rules. Scrape every broker under one job:

```yaml
scrape_configs:
  - job_name: barnabas
    static_configs:
      - targets: ["127.0.0.1:9404", "127.0.0.1:9405", "127.0.0.1:9406"]  # their barnabas.admin.listener
```

Where the endpoint is guarded ([view.md](view.md#who-may-look)), Prometheus logs in as a user that may DESCRIBE the
cluster (`barnabas acl allow cluster --principal User:prometheus --operation describe`):

```yaml
    scheme: https
    tls_config: {ca_file: /etc/barnabas/authority.pem}
    basic_auth: {username: prometheus, password_file: /etc/prometheus/password}
```

`barnabas metrics --address https://HOST:PORT --command-config FILE` does so with a client's properties.

## OpenTelemetry

With `pip install "barnabas[otel]"` a broker sends the same series, under the same names, to a collector by OTLP over
HTTP: `barnabas.opentelemetry.endpoint=http://collector:4318`, or the environment alone, as OpenTelemetry specifies it:

```
OTEL_METRICS_EXPORTER=otlp OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318 barnabas up -n 3
```

`OTEL_METRIC_EXPORT_INTERVAL` (milliseconds; 60,000 by default), `OTEL_EXPORTER_OTLP_HEADERS`, `…_CERTIFICATE`,
`…_CLIENT_KEY`, `…_CLIENT_CERTIFICATE`, `…_COMPRESSION`, `…_TIMEOUT`, `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES`
count in both cases. The resource is `service.name=barnabas`, `service.namespace` the cluster's id and
`service.instance.id` `broker-ID`. Counters are cumulative. What is a summary below is a histogram without bounds there.
Reading happens on the broker's loop in slices, sending in a thread beside it.

## The table

"""


def page() -> str:
    lines = [_HEAD, "| name | kind | labels | Kafka's MBean | |", "| --- | --- | --- | --- | --- |"]
    rows: list[Metric | TopicMetric | PartitionTotal] = [
        *Table().metrics,
        *TOPIC_METRICS,
        *PARTITION_TOTALS,
    ]
    for each in rows:
        labels = ", ".join(f"`{label}`" for label in each.labels)
        mbean = f"`{each.mbean}`" if each.mbean else ""
        lines.append(f"| `{exposed_name(each)}` | {each.kind.value} | {labels} | {mbean} | {each.help} |")
    for partition in PARTITION_METRICS:
        lines.append(f"| `{partition.name}` | gauge | `topic`, `partition` | `{partition.mbean}` | {partition.help} |")
    lines += ["", "## What Kafka has and this does not", "", "| Kafka's MBean | why |", "| --- | --- |"]
    lines += [f"| `{mbean}` | {why} |" for mbean, why in NOT_EXPORTED.items()]
    return "\n".join(lines) + "\n"


def write() -> None:
    PAGE.write_text(page())
