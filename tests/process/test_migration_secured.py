"""A secured broker on the embedded coordinator goes over to a KRaft controller of Apache Kafka's, with its ACLs.

It logs in to the controller as somebody else than to brokers; what alice asks for is decided by the controller as what
alice asks for, and what the controller decides is taken up by the broker. The controller is killed in between.
"""

import subprocess
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from processes import Cluster, answers, eventually
from test_migration import kafka_storage, tree
from test_roll import kafka_server_start

from barnabas.bench.apache import free_port
from barnabas.zk.inspection.migration import migration_state

pytestmark = [pytest.mark.apache, pytest.mark.timeout(600)]

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
KRAFT = 3000


class Migrating(Cluster):
    """One broker; its file says how it logs in to others, and to the controllers."""

    def __init__(self, directory, controller):
        super().__init__(
            directory,
            1,
            {
                "listener.security.protocol.map": "BROKERS:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
                "inter.broker.listener.name": "BROKERS",
                "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "sasl.mechanism.controller.protocol": "PLAIN",
                "listener.name.brokers.plain.sasl.jaas.config": (
                    f'{PLAIN} username="broker" password="inner" user_broker="inner" user_alice="wonder";'
                ),
                "listener.name.brokers.scram-sha-256.sasl.jaas.config": SCRAM,
                "listener.name.controller.plain.sasl.jaas.config": f'{PLAIN} username="at-kraft" password="other";',
                "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
                "super.users": "User:broker;User:controller",
                "zookeeper.metadata.migration.enable": "true",
                "controller.quorum.voters": f"{KRAFT}@{controller}",
                "controller.listener.names": "CONTROLLER",
                "zookeeper.session.timeout.ms": "10000",
            },
        )
        file = directory / "broker-0.properties"
        file.write_text(file.read_text().replace("listeners=PLAINTEXT:", "listeners=BROKERS:"))

    def ready(self):
        return answers(self.ports[0])

    def client(self, kind, user, password, mechanism="PLAIN", **more):
        config = {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
            "log_level": 0,
        }
        return kind({**config, **more})


@contextmanager
def migrating(directory):
    address = f"127.0.0.1:{free_port()}"
    cluster = Migrating(directory, address)
    controller = KafkaController(directory, address, cluster)
    try:
        cluster.start()
        yield cluster, controller
    finally:
        controller.kill()
        for process in (*cluster.brokers, cluster.coordinator):
            process.kill()


class KafkaController:
    def __init__(self, directory, address, cluster):
        self.directory = directory
        self.process = None
        kafka_server_start(directory)
        kafka_storage(directory)
        self.file = directory / "controller.properties"
        self.file.write_text(
            f"process.roles=controller\nnode.id={KRAFT}\ncontroller.quorum.voters={KRAFT}@{address}\n"
            f"controller.listener.names=CONTROLLER\nlisteners=CONTROLLER://{address}\n"
            "listener.security.protocol.map=BROKERS:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT\n"
            "inter.broker.listener.name=BROKERS\nsasl.enabled.mechanisms=PLAIN\n"
            "sasl.mechanism.controller.protocol=PLAIN\nsasl.mechanism.inter.broker.protocol=PLAIN\n"
            f'listener.name.controller.plain.sasl.jaas.config={PLAIN} username="kraft" password="k" user_kraft="k" '
            'user_at-kraft="other";\n'
            f'listener.name.brokers.plain.sasl.jaas.config={PLAIN} username="broker" password="inner";\n'
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"
            "super.users=User:kraft;User:at-kraft;User:broker\n"
            f"log.dirs={directory}/controller\nzookeeper.connect=127.0.0.1:{cluster.zookeeper_port}\n"
            "zookeeper.metadata.migration.enable=true\n"
        )

    def format(self, cluster_id):
        command = [str(self.directory / "bin" / "kafka-storage"), "format", "-t", cluster_id, "-c", str(self.file)]
        subprocess.run(command, check=True, capture_output=True)

    def start(self):
        with (self.directory / "kafka.log").open("ab") as out:
            command = [str(self.directory / "bin" / "kafka-server-start"), str(self.file)]
            self.process = subprocess.Popen(command, stdout=out, stderr=out)

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()


def make(admin, topic):
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)


def test_a_secured_broker_goes_over_and_principals_stay_who_they_are(tmp_path):
    with migrating(tmp_path) as (cluster, controller):
        address = f"127.0.0.1:{cluster.zookeeper_port}"
        broker = cluster.client(AdminClient, "broker", "inner")
        alice = cluster.client(AdminClient, "alice", "wonder")
        eventually(lambda: make(broker, "before") or True, within=120, what="a topic is made")
        controller.format(tree(address)["/cluster/id"].decode().split('"id":"')[1].split('"')[0])
        controller.start()
        eventually(lambda: migration_state(tree(address)["/migration"]).offset >= 0, within=120, what="it has migrated")

        with pytest.raises(KafkaException) as refused:
            eventually_make(alice, "hers")
        assert refused.value.args[0].name() == "TOPIC_AUTHORIZATION_FAILED"
        allowed = AclBinding(
            ResourceType.TOPIC,
            "hers",
            ResourcePatternType.LITERAL,
            "User:alice",
            "*",
            AclOperation.ALL,
            AclPermissionType.ALLOW,
        )
        broker.create_acls([allowed])[allowed].result(30)
        eventually_make(alice, "hers")

        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        carol = UserScramCredentialUpsertion("carol", info, b"carols")
        broker.alter_user_scram_credentials([carol])["carol"].result(30)
        eventually(
            lambda: cluster.client(AdminClient, "carol", "carols", "SCRAM-SHA-256").list_topics(timeout=5),
            what="carol logs in",
        )

        controller.kill()
        produced = []
        producer = cluster.client(Producer, "alice", "wonder", acks="all")
        producer.produce("hers", b"without a controller", on_delivery=lambda error, _: produced.append(error))
        producer.flush(60)
        assert produced == [None]
        controller.start()
        eventually(lambda: make(broker, "after") or True, within=120, what="the controller that is back makes a topic")

        reader = cluster.client(Consumer, "broker", "inner", **{"group.id": "readers", "auto.offset.reset": "earliest"})
        reader.subscribe(["hers"])
        message = eventually(lambda: reader.poll(1), within=120, what="the record is read")
        assert message.value() == b"without a controller"
        reader.close()
        assert "Traceback" not in cluster.brokers[0].output()


def eventually_make(admin, topic):
    """The broker may not have heard of the controller yet: then it says so, and is asked again."""

    def made():
        try:
            make(admin, topic)
        except KafkaException as error:
            if error.args[0].name() != "NOT_CONTROLLER":
                return error
        else:
            return "made"
        return None

    outcome = eventually(made, within=60, what=f"{topic} is made, or refused")
    if outcome != "made":
        raise outcome
