"""A cluster on a real ensemble of three that wants TLS, certificates and SASL, below a chroot that is not there yet."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import apache
import pytest
from certificates import Authority
from cluster import until


def _barnabas(*arguments: str, text: str = "", expect: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "barnabas", *arguments], input=text, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == expect, done.stdout + done.stderr
    return done.stdout or done.stderr


@pytest.mark.apache
def test_a_cluster_lives_on_a_secured_ensemble_and_outlives_one_of_its_servers(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    server, broker = authority.issue("server"), authority.issue("broker")
    tls = apache.ServerTls(server.key_store, authority.trust_store)
    required = {"zookeeper.sessionRequireClientSASLAuth": "true"}
    with apache.ZooKeeperEnsemble(
        tmp_path / "zk", 3, tls=tls, sasl_users={"kafka": "secret"}, properties=required
    ) as ensemble:
        place = str(tmp_path / "cluster")
        config = {
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
            "zookeeper.ssl.keystore.location": broker.key_store,
            "zookeeper.ssl.truststore.location": authority.trust_store,
            "zookeeper.set.acl": "true",
            "barnabas.zookeeper.sasl.username": "kafka",
            "barnabas.zookeeper.sasl.password": "secret",
        }
        chosen = [word for key, value in config.items() for word in ("--config", f"{key}={value}")]
        zookeeper = f"{ensemble.secure_connect}/a/new/chroot"
        said = _barnabas("up", "-n", "2", "--dir", place, "--zookeeper", zookeeper, *chosen[:-2], expect=1)
        assert "barnabas.zookeeper.sasl.password is not set" in said
        wrong = [*chosen[:-2], "--config", "barnabas.zookeeper.sasl.password=wrong"]
        said = _barnabas("up", "-n", "2", "--dir", place, "--zookeeper", zookeeper, *wrong, expect=1)
        assert "the server refused SASL user 'kafka' (DIGEST-MD5)" in said
        up = json.loads(
            _barnabas("up", "-n", "2", "--dir", place, "--zookeeper", zookeeper, *chosen, "--format", "json")
        )
        try:
            _barnabas("topic", "create", "t", "-b", up["bootstrap"], "--partitions", "4", "--replication-factor", "2")
            leader = next(number for number in ensemble.numbers if ensemble.mode(number) == "leader")
            ensemble.kill(leader)
            _barnabas("produce", "-b", up["bootstrap"], "-t", "t", text="one\ntwo\n")
            _barnabas("topic", "create", "u", "-b", up["bootstrap"], "--partitions", "1", "--replication-factor", "2")
            read = _barnabas("consume", "-b", up["bootstrap"], "-t", "t", "-o", "start", "-e")
            assert sorted(read.split()) == ["one", "two"]

            def sessions() -> list[dict[str, Any]]:
                seen = json.loads(_barnabas("status", "--dir", place, "--format", "json"))
                return [each["zookeeper"] for each in seen["brokers"]]

            until(lambda: all(each["state"] == "CONNECTED" for each in sessions()), "both found another server")
            assert all(each["expires"] == 0 for each in sessions())
        finally:
            _barnabas("down", "--kill", "--dir", place)
