//! Programs that people run, as clients of a global name: what each one does while clusters are linked, fail and fail
//! over, and how many endpoints it takes.
//!
//! Each program has a module and a directory of the same name. The directory has the configuration that a user would
//! copy, and a README with the name to use, the setting that decides how fast a change is seen, and what does not work.
//! Each test writes its results to `target/clients/PROGRAM.json`; `tests/system/clients/table` makes the tables of
//! `tests/system/clients/README.md` from these files.
//!
//! Index:
//!
//! - `scenario`: starts three linked clusters and a program in `east`, applies the events, and measures
//! - `database`: the same events with a database that has a member in each cluster
//! - `printed`: programs that print what they resolve
//! - `jars`: programs that are jars of Maven Central
//! - `stanzas`: what the settings of CoreDNS do
//! - `table`: the tables of the README; `kept_rows` keeps the rows of programs that were not run
//! - all others: programs

mod cassandra;
mod database;
mod envoy;
mod etcd;
mod go;
mod grpc;
mod grpc_go;
mod grpc_python;
mod haproxy;
mod jars;
mod java;
mod kafka;
mod kept_rows;
mod musl;
mod nginx;
mod node;
mod postgresql;
mod printed;
mod prometheus;
mod pymongo;
mod rabbitmq;
mod redis_cluster;
mod scenario;
mod sentinel;
mod stanzas;
mod table;
mod thanos;
mod unbound;
mod zookeeper;

use crate::clients::scenario::prove;

#[test]
fn envoy() {
    prove(&envoy::Envoy);
}

#[test]
fn go() {
    prove(&go::Go);
}

#[test]
fn grpc_go() {
    prove(&grpc_go::GrpcGo);
}

#[test]
fn grpc_python() {
    prove(&grpc_python::GrpcPython);
}

#[test]
fn haproxy() {
    prove(&haproxy::Haproxy);
}

#[test]
fn nginx() {
    prove(&nginx::Nginx);
}

#[test]
fn prometheus() {
    prove(&prometheus::Prometheus);
}

#[test]
fn thanos() {
    prove(&thanos::Thanos);
}

#[test]
fn thanos_in_three_clusters() {
    thanos::prove_three_clusters();
}

#[test]
fn unbound() {
    prove(&unbound::Unbound);
}

#[test]
fn etcd() {
    database::prove(&etcd::Etcd);
}

#[test]
fn java() {
    prove(&java::Java);
}

#[test]
fn kafka() {
    database::prove(&kafka::Kafka);
}

#[test]
fn musl() {
    prove(&musl::Musl);
}

#[test]
fn node() {
    prove(&node::Node);
}

#[test]
fn postgresql() {
    database::prove(&postgresql::Postgresql);
}

#[test]
fn pymongo() {
    prove(&pymongo::Pymongo);
}

#[test]
fn rabbitmq() {
    database::prove(&rabbitmq::Rabbitmq);
}

#[test]
fn sentinel() {
    database::prove(&sentinel::Sentinel);
}

#[test]
fn zookeeper() {
    database::prove(&zookeeper::Zookeeper);
}

#[test]
fn redis_cluster() {
    redis_cluster::prove();
}

#[test]
fn cassandra() {
    cassandra::prove();
}

#[test]
fn coredns_stanzas() {
    stanzas::measure();
}
