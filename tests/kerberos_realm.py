"""A Kerberos realm of a test's own, where krb5-kdc and krb5-admin-server are installed.

Where Kerberos is not in its usual place, ``BARNABAS_KERBEROS_PLUGINS`` names the directory of its plugins.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apache
import pytest

REALM = "EXAMPLE.COM"
MODULE = "com.sun.security.auth.module.Krb5LoginModule required"
MARKS = [
    pytest.mark.apache,
    pytest.mark.skipif(not os.environ.get("BARNABAS_KERBEROS"), reason="BARNABAS_KERBEROS=1 runs it"),
]


class Realm:
    """Its files are in `directory`, the key tabs among them; `start` and `stop` its centre."""

    def __init__(self, directory: Path, port: int) -> None:
        self.directory = directory
        self.port = port
        self._centre: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.directory / "kdc.log").open("ab") as log:
            self._centre = subprocess.Popen(["krb5kdc", "-n"], stdout=log, stderr=log)

    def stop(self) -> None:
        if self._centre is not None:
            self._centre.terminate()
            self._centre.wait(30)

    def add(self, principal: str, key_tab: str, *options: str) -> Path:
        """A principal, such as ``kafka/localhost``, with its key in a file of this name."""
        path = self.directory / key_tab
        _run("kadmin.local", "-q", f"addprinc -randkey {' '.join(options)} {principal}@{REALM}")
        _run("kadmin.local", "-q", f"ktadd -k {path} {principal}@{REALM}")
        assert path.exists(), f"{principal} was not made: is it well written?"
        return path

    def change_key(self, principal: str) -> None:
        """The key tabs that have the key of before are good for nothing then."""
        _run("kadmin.local", "-q", f"cpw -randkey {principal}@{REALM}")

    def take_tickets(self, principal: str, key_tab: Path) -> None:
        _run("kinit", "-k", "-t", str(key_tab), f"{principal}@{REALM}")

    def destroy_tickets(self) -> None:
        _run("kdestroy")

    def by_key(self, principal: str, key_tab: Path) -> str:
        """A login module for `principal`."""
        options = f'useKeyTab=true storeKey=true keyTab="{key_tab}" principal="{principal}@{REALM}"'
        return f"{MODULE} {options};"


@contextmanager
def kerberos_realm(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Realm]:
    """A realm whose centre runs, known to this process, to those that it starts, and to their JVMs."""
    port = apache.free_port()
    extra = os.environ.get("BARNABAS_KERBEROS_PLUGINS", "")
    plugins = f" plugin_base_dir = {extra}\n" if extra else ""
    modules = f"[dbmodules]\n db_module_dir = {extra}/kdb\n" if extra else ""
    (directory / "krb5.conf").write_text(
        f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n dns_canonicalize_hostname = false\n"
        f" rdns = false\n udp_preference_limit = 1\n default_ccache_name = FILE:{directory}/cache\n{plugins}"
        f"[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{port}\n }}\n"
    )
    (directory / "kdc.conf").write_text(
        f"[kdcdefaults]\n kdc_ports = {port}\n kdc_tcp_ports = {port}\n[realms]\n {REALM} = {{\n"
        f"  database_name = {directory}/principal\n  key_stash_file = {directory}/stash\n }}\n"
        f"{modules}"
    )
    monkeypatch.setenv("KRB5_CONFIG", str(directory / "krb5.conf"))
    monkeypatch.setenv("KRB5_KDC_PROFILE", str(directory / "kdc.conf"))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Djava.security.krb5.conf={directory}/krb5.conf")
    _run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")
    realm = Realm(directory, port)
    realm.start()
    try:
        yield realm
    finally:
        realm.stop()


@contextmanager
def kerberized_zookeeper(realm: Realm, **properties: str) -> Iterator[str]:
    """A real ZooKeeper, ``zookeeper/localhost``, that lets in nobody without SASL; yields ``localhost:port``."""
    key_tab = realm.add("zookeeper/localhost", "zookeeper")
    jaas = realm.directory / "zookeeper.jaas"
    jaas.write_text(f"Server {{ {realm.by_key('zookeeper/localhost', key_tab)} }};\n")
    with apache.ZooKeeperEnsemble(
        realm.directory,
        config={"authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"},
        properties={
            "java.security.auth.login.config": str(jaas),
            "zookeeper.sessionRequireClientSASLAuth": "true",
            **properties,
        },
    ) as ensemble:
        yield f"localhost:{ensemble.connect.rpartition(':')[2]}"


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, f"{words}: {done.stderr.decode()}"
