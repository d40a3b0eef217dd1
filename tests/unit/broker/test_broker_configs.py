import asyncio
import time
from types import SimpleNamespace

import pytest

from barnabas.broker.config_changes import VALUES_BYTES_MAX, VALUES_MAX, require_few
from barnabas.broker.config_requests import check_keys
from barnabas.broker.configs import (
    BrokerConfigLayers,
    ConfigSource,
    apply_incremental,
    check_change,
    validate_dynamic_broker_values,
    validate_topic_values,
)
from barnabas.broker.loggers import broker_number
from barnabas.broker.start_check import check_start
from barnabas.broker.topic_configs import TopicConfigs
from barnabas.log.log_dirs import LogDirs
from barnabas.model.config import JAAS_FILE, AlterOperation, broker_config, topic_config, topic_definitions
from barnabas.model.errors import ConfigError, ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition, Uuid
from barnabas.runtime.real import real_runtime
from barnabas.security.sasl.http import ALLOWED_URLS
from barnabas.security.sasl.jaas import DISALLOWED_LOGIN_MODULES


def entry(entries, name):
    return next(each for each in entries if each.definition.name == name)


def test_the_later_layers_win():
    layers = BrokerConfigLayers(broker_config({"log.retention.hours": "1", "num.io.threads": "4"}))
    assert entry(layers.describe_broker(), "num.io.threads").source is ConfigSource.STATIC_BROKER_CONFIG
    layers.dynamic_default = {"num.io.threads": "5"}
    layers.dynamic_broker = {"num.io.threads": "6"}
    described = entry(layers.describe_broker(), "num.io.threads")
    assert described.value == "6"
    assert [(each.value, each.source) for each in described.synonyms] == [
        ("6", ConfigSource.DYNAMIC_BROKER_CONFIG),
        ("5", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        ("4", ConfigSource.STATIC_BROKER_CONFIG),
        ("8", ConfigSource.DEFAULT_CONFIG),
    ]


def test_a_topic_takes_its_retention_from_the_broker_s_hours():
    layers = BrokerConfigLayers(broker_config({"log.retention.hours": "1"}))
    described = entry(layers.describe_topic({}), "retention.ms")
    assert described.value == "3600000"
    # Kafka tells of no synonym unless the broker key of the same unit is set, and so calls this a default.
    assert described.source is ConfigSource.DEFAULT_CONFIG
    assert described.synonyms == ()
    described = entry(layers.describe_topic({"retention.ms": "5"}), "retention.ms")
    assert (described.value, described.source) == ("5", ConfigSource.TOPIC_CONFIG)
    described = entry(layers.describe_topic({"retention.ms": " +5 "}), "retention.ms")
    assert (described.value, described.synonyms[0].value) == ("5", "5")


@pytest.mark.parametrize(("text", "value"), [("0.5f", 0.5), ("5e-1D", 0.5), (" .5 ", 0.5), ("1", 1.0)])
def test_a_real_number_is_read_as_java_reads_it(text, value):
    assert topic_definitions()["min.cleanable.dirty.ratio"].parse(text) == value


@pytest.mark.parametrize("text", ["infinity", "nan", "0.5ff", "f", "0_5", ""])
def test_what_java_does_not_read_is_no_real_number(text):
    with pytest.raises(ConfigError, match="a number"):
        topic_definitions()["min.cleanable.dirty.ratio"].parse(text)


def test_of_several_values_the_first_in_kafkas_order_is_refused():
    with pytest.raises(ConfigError, match=r"segment\.ms"):
        validate_topic_values(broker_config({}), {"cleanup.policy": "nope", "flush.ms": "x", "segment.ms": "0"})
    with pytest.raises(ConfigError, match=r"log\.preallocate"):
        validate_dynamic_broker_values(
            broker_config({}), {"log.message.downconversion.enable": "1", "log.preallocate": "1"}, per_broker=True
        )


def test_a_key_that_kafka_does_not_describe_is_described_where_its_file_has_it():
    described = BrokerConfigLayers(broker_config({"log.initial.task.delay.ms": "1"})).describe_broker()
    assert entry(described, "log.initial.task.delay.ms").value == "1"
    names = {each.definition.name for each in BrokerConfigLayers(broker_config({})).describe_broker()}
    assert "log.initial.task.delay.ms" not in names


def test_passwords_are_not_told():
    layers = BrokerConfigLayers(broker_config({"ssl.key.password": "secret"}))
    described = entry(layers.describe_broker(), "ssl.key.password")
    assert described.sensitive
    assert described.value is None
    assert all(each.value is None for each in described.synonyms)


@pytest.mark.parametrize(
    "values",
    [
        {"no.such": "1"},
        {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"},
        {"remote.log.copy.disable": "true"},
        {"remote.log.delete.on.disable": "true"},
    ],
)
def test_values_that_topics_do_not_take_are_refused(values):
    with pytest.raises(KafkaError) as refused:
        validate_topic_values(broker_config({}), values)
    assert refused.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    ("name", "text", "shown", "said"),
    [
        ("retention.ms", "x", "x", "Not a number of type LONG"),
        ("segment.bytes", "1", "1", "Value must be at least 14"),
        ("min.cleanable.dirty.ratio", "2", "2.0", "Value must be no more than 1"),
        ("min.cleanable.dirty.ratio", "1e9", "1.0E9", "Value must be no more than 1"),
        ("compression.gzip.level", "10", "10", "Value must be between 1 and 9 or equal to -1"),
        ("preallocate", "maybe", "maybe", "Expected value to be either true or false"),
        ("compression.type", "zip", "zip", "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"),
        ("cleanup.policy", "compact,keep", "keep", "String must be one of: compact, delete"),
        (
            "leader.replication.throttled.replicas",
            "0:1,x",
            "[0:1, x]",
            "leader.replication.throttled.replicas must be the literal '*' or a list of replicas in the following "
            "format: [partitionId]:[brokerId],[partitionId]:[brokerId],...",
        ),
    ],
)
def test_a_value_that_is_not_allowed_is_refused_in_kafkas_words(name, text, shown, said):
    with pytest.raises(ConfigError) as refused:
        validate_topic_values(broker_config({}), {name: text})
    assert refused.value.in_kafkas_words == f"Invalid value {shown} for configuration {name}: {said}"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("log.cleaner.threads", "3", "Log cleaner threads cannot be increased to more than double the current value 1"),
        (
            "num.io.threads",
            "1",
            "Dynamic thread count update validation failed for num.io.threads=1, value should be at least half the "
            "current value 8",
        ),
    ],
)
def test_a_count_of_threads_that_is_too_far_is_refused_in_kafkas_words(name, text, said):
    with pytest.raises(ConfigError) as refused:
        check_change(broker_config({}), broker_config({name: text}))
    assert refused.value.in_kafkas_words == (
        f"Invalid value org.apache.kafka.common.config.ConfigException: {said} "
        "for configuration Invalid dynamic configuration"
    )


_NOT_WHILE_IT_RUNS = (
    "Invalid value org.apache.kafka.common.config.ConfigException: {} for configuration Invalid dynamic configuration"
)
_NO_REPORTER = "Validation of dynamic config update of Set(metric.reporters) failed with class class {}".format(
    "kafka.server.DynamicMetricsReporters"
)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("log.roll.ms", "0", "requirement failed: log.roll.ms must be greater than or equal to 1"),
        ("log.roll.jitter.ms", "-1", "requirement failed: log.roll.jitter.ms must be greater than or equal to 0"),
        (
            "log.retention.ms",
            "0",
            "requirement failed: log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
        ),
        (
            "log.cleaner.dedupe.buffer.size",
            "1048576",
            "requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
        ),
        (
            "num.replica.fetchers",
            "-1",
            _NOT_WHILE_IT_RUNS.format(
                "Dynamic thread count update validation failed for num.replica.fetchers=-1, value should be at least 1"
            ),
        ),
        ("max.connections", "0", _NOT_WHILE_IT_RUNS.format("Invalid max.connections 0")),
        (
            "max.connection.creation.rate",
            "0",
            _NOT_WHILE_IT_RUNS.format("Invalid max.connection.creation.rate 0"),
        ),
        ("metric.reporters", "nope.Class", _NOT_WHILE_IT_RUNS.format(_NO_REPORTER)),
    ],
)
def test_what_no_broker_can_run_with_is_refused_in_kafkas_words(name, text, said):
    with pytest.raises(ConfigError) as refused:
        validate_dynamic_broker_values(broker_config({}), {name: text}, per_broker=False)
    assert refused.value.in_kafkas_words == said


@pytest.mark.parametrize("text", ["", "org.apache.kafka.common.metrics.JmxReporter"])
def test_what_a_jvm_would_report_its_metrics_by_is_no_matter(text):
    validate_dynamic_broker_values(broker_config({}), {"metric.reporters": text}, per_broker=False)


def test_nothing_is_an_entry_as_well_where_it_is_appended():
    values = apply_incremental({}, [("cleanup.policy", AlterOperation.APPEND, "")], topic_definitions())
    with pytest.raises(ConfigError) as refused:
        validate_topic_values(broker_config({}), values)
    assert refused.value.in_kafkas_words == (
        "Invalid value  for configuration cleanup.policy: String must be one of: compact, delete"
    )
    throttled = "leader.replication.throttled.replicas"
    values = apply_incremental({}, [(throttled, AlterOperation.APPEND, "")], topic_definitions())
    validate_topic_values(broker_config({}), values)
    assert values == {throttled: ""}


@pytest.mark.parametrize("text", ["", "*", " * ", "0:1", "0:1, 10:2", "0:1,"])
def test_throttled_replicas_are_all_or_a_list(text):
    validate_topic_values(broker_config({}), {"leader.replication.throttled.replicas": text})


@pytest.mark.parametrize("text", ["none", "*,*", "0:1,*", "-1:0", "1"])
def test_what_is_no_list_of_throttled_replicas_is_refused(text):
    with pytest.raises(ConfigError, match="must be the literal"):
        validate_topic_values(broker_config({}), {"leader.replication.throttled.replicas": text})


def test_read_only_keys_cannot_be_changed_at_run_time():
    with pytest.raises(KafkaError, match=r"broker\.id"):
        validate_dynamic_broker_values(broker_config({}), {"broker.id": "5"}, per_broker=True)
    for name in (
        ALLOWED_URLS,
        DISALLOWED_LOGIN_MODULES,
        JAAS_FILE,
    ):  # a JVM's in Kafka; who may change configurations has no file read
        with pytest.raises(KafkaError, match=name):
            validate_dynamic_broker_values(broker_config({}), {name: "file:/etc/passwd"}, per_broker=True)
    for name, text in (("listeners", "PLAINTEXT://:1"), ("listener.name.outside.ssl.keystore.location", "x")):
        with pytest.raises(KafkaError, match="default cluster level") as refused:
            validate_dynamic_broker_values(broker_config({}), {name: text}, per_broker=False)
        assert refused.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("key", ["max.connections", "max.connection.creation.rate", "num.network.threads"])
def test_all_brokers_may_share_a_listeners_limits(key):
    validate_dynamic_broker_values(broker_config({}), {f"listener.name.outside.{key}": "5"}, per_broker=False)


@pytest.mark.parametrize(
    ("values", "name", "expected"),
    [
        ({"log.retention.hours": "-5"}, "retention.ms", -1),
        ({"log.retention.ms": "-5"}, "retention.ms", -1),
        ({"log.retention.minutes": "2"}, "retention.ms", 120_000),
        ({"log.flush.scheduler.interval.ms": "3000"}, "flush.ms", 3000),
        ({"log.flush.scheduler.interval.ms": "3000", "log.flush.interval.ms": "5"}, "flush.ms", 5),
    ],
)
def test_a_topic_goes_by_what_its_broker_says_in_other_words(values, name, expected):
    config = broker_config(values)
    check_start(config)
    assert topic_config(config, {}).value(name) == expected


def test_single_changes_build_on_what_is_set():
    changed = apply_incremental(
        {"retention.ms": "1", "segment.ms": "2"},
        [
            ("retention.ms", AlterOperation.DELETE, None),
            ("segment.ms", AlterOperation.SET, "3"),
            ("cleanup.policy", AlterOperation.APPEND, "compact"),
        ],
        topic_definitions(),
    )
    assert changed == {"segment.ms": "3", "cleanup.policy": "delete,compact"}
    assert apply_incremental(changed, [("cleanup.policy", AlterOperation.SUBTRACT, "delete")], topic_definitions()) == {
        "segment.ms": "3",
        "cleanup.policy": "compact",
    }


def test_an_entry_of_a_list_is_there_once():
    append = [("cleanup.policy", AlterOperation.APPEND, "compact, delete,compact,,x")]
    assert apply_incremental({}, append, topic_definitions()) == {"cleanup.policy": "delete,compact,x"}


def test_the_entries_of_a_list_are_not_compared_each_with_each():
    name, entries = "leader.replication.throttled.replicas", ",".join(f"{number}:1" for number in range(5_000))
    for operation, expected in ((AlterOperation.APPEND, entries), (AlterOperation.SUBTRACT, "")):
        began = time.thread_time()
        assert apply_incremental({name: entries}, [(name, operation, entries)], topic_definitions())[name] == expected
        assert time.thread_time() - began < 0.1, "some milliseconds, or seconds"


def test_one_resource_is_not_given_more_than_it_can_have():
    require_few((f"k{number}", "") for number in range(VALUES_MAX))
    with pytest.raises(KafkaError, match="more than"):
        require_few((f"k{number}", None) for number in range(VALUES_MAX + 1))
    require_few([("k" * VALUES_BYTES_MAX, "")])
    with pytest.raises(KafkaError, match="more than"):
        require_few([("k", "v" * VALUES_BYTES_MAX)])


@pytest.mark.parametrize(
    "operations",
    [
        [("retention.ms", 2, "1")],
        [("retention.ms", 9, "1")],
    ],
)
def test_changes_that_make_no_sense_are_refused(operations):
    with pytest.raises(KafkaError):
        apply_incremental({}, operations, topic_definitions())


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([("retention.ms", "1"), ("retention.ms", None)], "Error due to duplicate config keys"),
        ([("a", None), ("b", "1"), ("c", None)], "Null value not supported for : a, c"),
    ],
)
def test_a_key_is_there_once_and_with_a_value(values, said):
    with pytest.raises(KafkaError) as refused:
        check_keys(values)
    assert (refused.value.code, refused.value.message) == (ErrorCode.INVALID_REQUEST, said)


@pytest.mark.parametrize("is_anew", [False, True])
def test_a_topic_made_anew_is_not_kept_as_the_one_before_it_of_which_a_log_is_left(tmp_path, is_anew):
    async def story():
        config = broker_config({"log.dirs": str(tmp_path)})
        log_dirs = LogDirs(real_runtime(), config)
        await log_dirs.load()
        before, anew = Uuid(bytes(15) + b"b"), Uuid(bytes(15) + b"n")
        log_dirs.update_topic_config("orders", {"retention.ms": "5"})
        log_dirs.get_or_create(TopicPartition("orders", 1), before)

        async def catch_up():
            pass

        async def get_entities_configs(kind, names):
            return {name: {} for name in names}

        zk = SimpleNamespace(catch_up=catch_up, get_entities_configs=get_entities_configs)
        configs = TopicConfigs(SimpleNamespace(broker_id=0, config=config, zk=zk), log_dirs)
        topic_id = anew if is_anew else before
        await configs.learn({"orders": topic_id})
        made = log_dirs.get_or_create(TopicPartition("orders", 2), topic_id)
        assert (made.config.number("retention.ms") == 5) is not is_anew
        log_dirs.close()

    asyncio.run(story())


@pytest.mark.parametrize("values", [{"remote.storage.enable": "true"}, {"message.format.version": "newest"}])
def test_what_an_apache_broker_beside_could_not_start_with_is_refused(values):
    with pytest.raises(ConfigError):
        validate_topic_values(broker_config({}), values)


@pytest.mark.parametrize("version", ["3.0", "3.0.1", "3.9-IV0", "0.10.0.1", "0.8.2"])
def test_a_message_format_is_named_as_releases_are(version):
    validate_topic_values(broker_config({}), {"message.format.version": version})


def test_a_stranger_may_send_many_digits():
    """Quadratic time would take weeks for a million."""
    with pytest.raises(ConfigError):
        topic_definitions()["min.cleanable.dirty.ratio"].parse("1" * 1_000_000 + "x")
    with pytest.raises(KafkaError, match="must be an integer"):
        broker_number("9" * 5_000)
    assert broker_number("0" * 5_000 + "7") == 7
