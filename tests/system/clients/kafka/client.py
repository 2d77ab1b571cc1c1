"""A client of Kafka by librdkafka: members BOOTSTRAP | lead BOOTSTRAP | write BOOTSTRAP VALUE | read BOOTSTRAP.

The topic has one partition with a replica on every broker. Broker 3 is its preferred leader.
"""

import sys

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka import ElectionType
from confluent_kafka.admin import AdminClient, NewTopic

TOPIC = "values"
REPLICAS = [3, 2, 1]
SECONDS = 5


def settings(bootstrap):
    return {"bootstrap.servers": bootstrap, "socket.timeout.ms": 3000, "log_level": 0}


def members(bootstrap):
    """Prints the names of the brokers that are alive and, if there is a topic, have all its messages."""
    metadata = AdminClient(settings(bootstrap)).list_topics(timeout=SECONDS)
    alive = {broker.id: broker.host for broker in metadata.brokers.values()}
    topic = metadata.topics.get(TOPIC)
    if topic and topic.partitions:
        in_sync = topic.partitions[0].isrs
        alive = {number: host for number, host in alive.items() if number in in_sync}
    for host in alive.values():
        print(host)


def lead(bootstrap):
    admin = AdminClient(settings(bootstrap))
    topic = admin.list_topics(timeout=SECONDS).topics.get(TOPIC)
    if topic and topic.partitions[0].leader != REPLICAS[0]:
        elected = admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(TOPIC, 0)], request_timeout=SECONDS)
        for error in elected.result(timeout=SECONDS).values():
            if error:
                raise KafkaException(error)


def write(bootstrap, value):
    admin = AdminClient(settings(bootstrap))
    if TOPIC not in admin.list_topics(timeout=SECONDS).topics:
        topic = NewTopic(TOPIC, num_partitions=1, replica_assignment=[REPLICAS])
        admin.create_topics([topic], request_timeout=SECONDS)[TOPIC].result(timeout=SECONDS)
    producer = Producer({**settings(bootstrap), "acks": "all", "message.timeout.ms": SECONDS * 1000})
    errors = []
    producer.produce(TOPIC, value, on_delivery=lambda error, _: errors.append(error))
    producer.flush(2 * SECONDS)
    if errors != [None]:
        raise KafkaException(errors[0] if errors else "no acknowledgement")


def read(bootstrap):
    consumer = Consumer({**settings(bootstrap), "group.id": "values", "enable.auto.commit": False})
    partition = TopicPartition(TOPIC, 0)
    _, end = consumer.get_watermark_offsets(partition, timeout=SECONDS)
    partition.offset = end - 1
    consumer.assign([partition])
    message = consumer.poll(SECONDS)
    if message is None or message.error():
        raise KafkaException(message.error() if message else "no message")
    print(message.value().decode())


{"members": members, "lead": lead, "write": write, "read": read}[sys.argv[1]](*sys.argv[2:])
