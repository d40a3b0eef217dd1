"""What a broker's file has to say before the way to KRaft is open (KIP-866, ``KafkaConfig``), and what stays closed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from test_broker_epochs import parts_with

from barnabas.broker.migration import migration_settings
from barnabas.log.log_dirs import LogDirs
from barnabas.log.meta_properties import CorruptMetaProperties, MetaProperties
from barnabas.model.cluster import Endpoint
from barnabas.model.config import broker_config
from barnabas.model.errors import ConfigError, ErrorCode, KafkaError
from barnabas.model.metadata_version import metadata_version
from barnabas.runtime.real import RealDisk, real_runtime

MIGRATING = {
    "broker.id": "1",
    "zookeeper.connect": "localhost:2181",
    "zookeeper.metadata.migration.enable": "true",
    "controller.quorum.voters": "3000@c0:9093,3001@[::1]:9094",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_SSL",
}


def test_the_controllers_are_those_of_the_quorum_at_their_listener() -> None:
    settings = migration_settings(broker_config(MIGRATING))
    assert settings is not None
    assert settings.controllers == (
        Endpoint("CONTROLLER", "c0", 9093, "SASL_SSL"),
        Endpoint("CONTROLLER", "::1", 9094, "SASL_SSL"),
    )


def test_the_controllers_may_be_named_without_their_ids() -> None:
    config = {**MIGRATING, "controller.quorum.voters": "", "controller.quorum.bootstrap.servers": "c0:9093"}
    settings = migration_settings(broker_config(config))
    assert settings is not None
    assert settings.controllers == (Endpoint("CONTROLLER", "c0", 9093, "SASL_SSL"),)


def test_a_listener_of_the_controllers_is_plain_where_no_map_is_set() -> None:
    config = {name: value for name, value in MIGRATING.items() if name != "listener.security.protocol.map"}
    settings = migration_settings(broker_config(config))
    assert settings is not None
    assert {each.security_protocol for each in settings.controllers} == {"PLAINTEXT"}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"controller.quorum.voters": ""}, "neither controller.quorum.voters nor controller.quorum.bootstrap.servers"),
        ({"controller.quorum.voters": "c0:9093"}, "id@host:port"),
        ({"controller.quorum.voters": "3000@c0"}, "id@host:port"),
        ({"controller.quorum.voters": "3000@c0:99999"}, "id@host:port"),
        ({"controller.quorum.voters": "1@c0:9093"}, "controllers have ids that no broker has"),
        ({"controller.listener.names": ""}, "controller.listener.names is empty"),
        ({"controller.listener.names": "OTHER"}, "no protocol for the controllers' listener OTHER"),
        ({"inter.broker.protocol.version": "3.3"}, "a migration takes 3.4 or higher"),
        ({"inter.broker.protocol.version": "3.6", "log.dirs": "/a,/b"}, "it takes 3.7-IV2 or higher"),
        ({"broker.id": "-1"}, "without broker.id"),
        ({"zookeeper.metadata.migration.enable": "false"}, "controller.listener.names is CONTROLLER: it must be empty"),
    ],
)
def test_a_migration_that_could_not_go_is_refused_at_the_start(changed: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        migration_settings(broker_config({**MIGRATING, **changed}))
    assert words in str(refused.value)


def test_without_the_key_there_is_no_migration() -> None:
    assert migration_settings(broker_config({"broker.id": "1", "zookeeper.connect": "localhost:2181"})) is None


@pytest.mark.parametrize(
    ("text", "level"), [("2.8", 0), ("3.0-IV1", 1), ("3.3", 7), ("3.4", 8), ("3.6", 14), ("3.7", 19), ("3.9", 21)]
)
def test_a_protocol_version_has_krafts_number(text: str, level: int) -> None:
    """As ``kafka-features`` tells them."""
    assert metadata_version(text).feature_level == level


def _stale(migration: object, epoch: int) -> bool:
    broker = parts_with(controller=SimpleNamespace(broker_epoch=900), migration=migration)
    return broker.is_stale(epoch, of_kraft=True)


def test_a_kraft_controller_means_the_registration_with_itself() -> None:
    migration = SimpleNamespace(broker_epoch=70)
    assert _stale(migration, 69)
    assert not _stale(migration, 70)


def test_a_kraft_controller_has_no_say_where_no_migration_is_enabled() -> None:
    with pytest.raises(KafkaError) as refused:
        _stale(None, 71)
    assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_log_directories_get_an_id_that_they_keep(tmp_path: Path) -> None:
    def ids(*, migrating: bool) -> list[bytes]:
        config = broker_config({"log.dirs": f"{tmp_path}/a,{tmp_path}/b"})
        log_dirs = LogDirs(real_runtime(), config)
        log_dirs.identify("cluster", 1, with_ids=migrating)
        found: list[bytes] = [*log_dirs.directory_ids()]
        log_dirs.close(clean=True)
        return found

    assert ids(migrating=False) == []
    given = ids(migrating=True)
    assert len(set(given)) == 2
    assert given == sorted(given) == ids(migrating=True) == ids(migrating=False)
    meta = MetaProperties.read(RealDisk(), f"{tmp_path}/a")
    assert meta is not None
    assert meta.directory_id in given


def test_a_directory_id_that_is_none_is_told_as_damage(tmp_path: Path) -> None:
    text = "broker.id=1\nversion=0\ncluster.id=cluster\ndirectory.id=short\n"
    (tmp_path / "meta.properties").write_text(text)
    with pytest.raises(CorruptMetaProperties) as damaged:
        MetaProperties.read(RealDisk(), str(tmp_path))
    assert "directory.id" in str(damaged.value)
