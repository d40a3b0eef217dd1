//! What Rust's rdkafka makes of a cluster: topics, an idempotent producer, a cooperative group of two, transactions.
//! Prints JSON facts, one line.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};

const WAIT: Duration = Duration::from_secs(30);

fn config(bootstrap: &str, more: &[(&str, &str)]) -> ClientConfig {
    let mut made = ClientConfig::new();
    made.set("bootstrap.servers", bootstrap).set("log_level", "0");
    for (key, value) in more {
        made.set(*key, *value);
    }
    made
}

fn consumer(bootstrap: &str, group: &str, more: &[(&str, &str)]) -> BaseConsumer {
    let mut settings = vec![
        ("group.id", group),
        ("auto.offset.reset", "earliest"),
        ("enable.auto.commit", "false"),
        ("session.timeout.ms", "10000"),
        ("heartbeat.interval.ms", "300"),
        ("allow.auto.create.topics", "true"),
    ];
    settings.extend_from_slice(more);
    config(bootstrap, &settings).create().expect("a consumer")
}

fn code(error: KafkaError) -> String {
    match error.rdkafka_error_code() {
        Some(code) => format!("{code:?}"),
        None => error.to_string(),
    }
}

/// The values that the members read until they have `count` different ones, and hold `shares` partitions each.
fn read(members: &[BaseConsumer], count: usize, shares: usize) -> BTreeSet<String> {
    let mut values = BTreeSet::new();
    let begun = Instant::now();
    while values.len() < count || members.iter().any(|each| each.assignment().unwrap().count() != shares) {
        assert!(begun.elapsed() < WAIT * 2, "{} of {count} records came", values.len());
        for member in members {
            if let Some(Ok(message)) = member.poll(Duration::from_millis(50)) {
                let value = String::from_utf8_lossy(message.payload().unwrap_or(b"")).to_string();
                if let Some(headers) = message.headers() {
                    assert_eq!(format!("v{}", String::from_utf8_lossy(headers.get(0).value.unwrap())), value);
                }
                values.insert(value);
            }
        }
    }
    for member in members {
        member.commit_consumer_state(CommitMode::Sync).or_else(nothing_to_commit).expect("a commit");
    }
    values
}

fn nothing_to_commit(error: KafkaError) -> Result<(), KafkaError> {
    match error.rdkafka_error_code() {
        Some(RDKafkaErrorCode::NoOffset) => Ok(()),
        _ => Err(error),
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let (bootstrap, name) = (arguments[1].as_str(), arguments[2].as_str());
    let (topic, target) = (format!("{name}-topic"), format!("{name}-target"));
    let mut facts: Vec<String> = Vec::new();

    // The topics are made by the broker, for a client that asks for their metadata.
    let producer: BaseProducer = config(bootstrap, &[("enable.idempotence", "true")]).create().expect("a producer");
    for each in [&topic, &target] {
        let begun = Instant::now();
        loop {
            let metadata = producer.client().fetch_metadata(Some(each), WAIT).expect("metadata");
            if metadata.topics()[0].error().is_none() && !metadata.topics()[0].partitions().is_empty() {
                let sizes: Vec<usize> =
                    metadata.topics()[0].partitions().iter().map(|each| each.replicas().len()).collect();
                facts.push(format!("\"{}\": {sizes:?}", &each[name.len()..]));
                break;
            }
            assert!(begun.elapsed() < WAIT, "{each} is not there");
        }
    }
    for number in 0..300 {
        let (key, value) = (format!("k{}", number % 17), format!("v{number}"));
        let headers = OwnedHeaders::new().insert(Header { key: "n", value: Some(&number.to_string()) });
        producer.send(BaseRecord::to(&topic).key(&key).payload(&value).headers(headers)).map_err(|(e, _)| e).unwrap();
        producer.poll(Duration::ZERO);
    }
    producer.flush(WAIT).expect("all is delivered");
    let watermarks: Vec<(i64, i64)> =
        (0..4).map(|each| producer.client().fetch_watermarks(&topic, each, WAIT).unwrap()).collect();
    facts.push(format!("\"watermarks\": \"{watermarks:?}\""));

    for strategy in ["range", "cooperative-sticky"] {
        let group = format!("{name}-{strategy}");
        let members: Vec<BaseConsumer> =
            (0..2).map(|_| consumer(bootstrap, &group, &[("partition.assignment.strategy", strategy)])).collect();
        members.iter().for_each(|each| each.subscribe(&[&topic]).unwrap());
        let values = read(&members, 300, 2);
        let listed = members[0].fetch_group_list(Some(&group), WAIT).unwrap();
        let described = &listed.groups()[0];
        let told = (described.state(), described.protocol_type(), described.protocol(), described.members().len());
        facts.push(format!("\"{strategy}\": \"{} {told:?}\"", values.len()).replace("(\"", "('").replace("\",", "',")
            .replace(", \"", ", '"));
        let mut asked = TopicPartitionList::new();
        asked.add_partition_range(&topic, 0, 3);
        let committed = members[0].committed_offsets(asked, WAIT).unwrap();
        let sum: i64 = committed.elements().iter().map(|each| each.offset().to_raw().unwrap().max(0)).sum();
        facts.push(format!("\"{strategy} committed\": {sum}"));
    }

    let settings = [("transactional.id", name), ("transaction.timeout.ms", "30000")];
    let transactional: BaseProducer = config(bootstrap, &settings).create().expect("a producer");
    transactional.init_transactions(WAIT).unwrap();
    let reader = consumer(bootstrap, &format!("{name}-eos"), &[("isolation.level", "read_committed")]);
    for kept in [true, false, true] {
        transactional.begin_transaction().unwrap();
        for number in 0..10 {
            let value = format!("{kept} {number}");
            transactional.send(BaseRecord::<(), String>::to(&target).payload(&value).partition(0)).unwrap();
        }
        let mut offsets = TopicPartitionList::new();
        offsets.add_partition_offset(&topic, 0, Offset::Offset(if kept { 7 } else { 99 })).unwrap();
        transactional.send_offsets_to_transaction(&offsets, &reader.group_metadata().unwrap(), WAIT).unwrap();
        if kept {
            transactional.commit_transaction(WAIT).unwrap();
        } else {
            transactional.flush(WAIT).unwrap();
            transactional.abort_transaction(WAIT).unwrap();
        }
    }
    let mut asked = TopicPartitionList::new();
    asked.add_partition(&topic, 0);
    let begun = Instant::now();
    let sent = loop {
        // The markers follow the answer to the commit.
        let committed = reader.committed_offsets(asked.clone(), WAIT).unwrap();
        let offset = committed.elements()[0].offset();
        if offset == Offset::Offset(7) || begun.elapsed() > WAIT {
            break offset;
        }
    };
    facts.push(format!("\"sent offsets\": \"{sent:?}\""));
    let mut whole = TopicPartitionList::new();
    whole.add_partition_offset(&target, 0, Offset::Beginning).unwrap();
    let plain = consumer(bootstrap, &format!("{name}-plain"), &[("isolation.level", "read_committed")]);
    plain.assign(&whole).unwrap();
    let mut values = Vec::new();
    while values.len() < 20 {
        assert!(begun.elapsed() < WAIT * 2, "{} of 20 records came", values.len());
        if let Some(Ok(message)) = plain.poll(Duration::from_millis(100)) {
            values.push(String::from_utf8_lossy(message.payload().unwrap()).to_string());
        }
    }
    facts.push(format!("\"transacted\": {values:?}"));

    let successor: BaseProducer = config(bootstrap, &settings).create().expect("a producer");
    transactional.begin_transaction().unwrap();
    transactional.send(BaseRecord::<(), str>::to(&target).payload("zombie").partition(0)).unwrap();
    transactional.flush(WAIT).unwrap();
    successor.init_transactions(WAIT).unwrap();
    let fenced = transactional.commit_transaction(WAIT).map_or_else(code, |()| "committed".to_string());
    facts.push(format!("\"fenced\": \"{fenced}\""));
    println!("{{{}}}", facts.join(", "));
}
