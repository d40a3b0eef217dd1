"""The brokers' certificate expires under an application, and is replaced: it notices, and comes back by itself."""

import time

import pytest
from confluent_kafka import Producer


class Sensor:
    """The application: it sends readings, and tells whoever watches it what its connection suffers from."""

    def __init__(self, config):
        self.alarms = []
        self.sent = []
        self.producer = Producer(
            {**config, "error_cb": self.alarms.append, "reconnect.backoff.max.ms": 100, "log_level": 0}
        )

    def send(self, reading):
        self.producer.produce("readings", reading, on_delivery=lambda error, message: self.sent.append(message.value()))

    def until(self, fact, timeout=20):
        ends = time.monotonic() + timeout
        while not fact():
            assert time.monotonic() < ends, self.alarms
            self.producer.poll(0.05)


@pytest.mark.kafka(users=["sensor"])
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "OAUTHBEARER", "mTLS"])
def test_the_application_comes_back_when_the_certificate_is_replaced(kafka_cluster, mechanism):
    user = kafka_cluster.user("sensor")
    user.allow("topic:readings", "write")
    kafka_cluster.create_topic("readings")

    kafka_cluster.change_certificates(valid_for=-1)  # it expired a second ago
    sensor = Sensor(user.client_config(mechanism))
    sensor.send(b"21.5")
    sensor.until(lambda: any("certificate" in str(alarm) for alarm in sensor.alarms))
    assert sensor.sent == []

    kafka_cluster.change_certificates()
    sensor.until(lambda: sensor.sent == [b"21.5"])
    assert [record.value for record in kafka_cluster.records("readings")] == [b"21.5"]


@pytest.mark.kafka(users=["sensor"])
def test_a_certificate_of_the_applications_own_has_expired(kafka_cluster):
    user = kafka_cluster.user("sensor")
    user.allow("topic:readings", "write")
    kafka_cluster.create_topic("readings")

    user.certify(valid_for=-1)
    sensor = Sensor(user.client_config("mTLS"))
    sensor.send(b"20.9")
    sensor.until(lambda: sensor.alarms)
    assert sensor.sent == []

    user.certify()
    renewed = Sensor(user.client_config("mTLS"))
    renewed.send(b"21.0")
    renewed.until(lambda: renewed.sent == [b"21.0"])
