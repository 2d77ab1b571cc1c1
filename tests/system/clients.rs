//! Programs that people run, as clients of a global name: what each one does while clusters are linked, fail and fail
//! over, and how many endpoints it takes.
//!
//! Each program has a module and a directory of the same name. The directory has the configuration that a user would
//! copy, and a README with the name to use, the setting that decides how fast a change is seen, and what does not work.
//! Each test writes its results to `target/clients/PROGRAM.json`; `tests/clients/table` makes the tables of
//! `tests/clients/README.md` from these files.
//!
//! Index:
//!
//! - `scenario`: starts three linked clusters and a program in `east`, applies the events, and measures
//! - `database`: the same events with a database that has a member in each cluster
//! - `printed`: programs that print what they resolve
//! - `jars`: programs that are jars of Maven Central
//! - `shares`: the shares of clusters with weights, with programs and behind CoreDNS
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
mod shares;
mod stanzas;
mod table;
mod thanos;
mod unbound;
mod zookeeper;

use crate::clients::scenario::prove;

#[test]
#[ignore = "needs a real API server, root and Envoy"]
fn envoy() {
    prove(&envoy::Envoy);
}

#[test]
#[ignore = "needs a real API server, root and Go"]
fn go() {
    prove(&go::Go);
}

#[test]
#[ignore = "needs a real API server, root and Go"]
fn grpc_go() {
    prove(&grpc_go::GrpcGo);
}

#[test]
#[ignore = "needs a real API server, root and Go and Python"]
fn grpc_python() {
    prove(&grpc_python::GrpcPython);
}

#[test]
#[ignore = "needs a real API server, root and HAProxy"]
fn haproxy() {
    prove(&haproxy::Haproxy);
}

#[test]
#[ignore = "needs a real API server, root and nginx"]
fn nginx() {
    prove(&nginx::Nginx);
}

#[test]
#[ignore = "needs a real API server, root and Prometheus"]
fn prometheus() {
    prove(&prometheus::Prometheus);
}

#[test]
#[ignore = "needs a real API server, root, Thanos and Prometheus"]
fn thanos() {
    prove(&thanos::Thanos);
}

#[test]
#[ignore = "needs a real API server, root, Thanos and Prometheus"]
fn thanos_in_three_clusters() {
    thanos::prove_three_clusters();
}

#[test]
#[ignore = "needs a real API server, root and Unbound"]
fn unbound() {
    prove(&unbound::Unbound);
}

#[test]
#[ignore = "needs a real API server, root and etcd"]
fn etcd() {
    database::prove(&etcd::Etcd);
}

#[test]
#[ignore = "needs a real API server, root and Java"]
fn java() {
    prove(&java::Java);
}

#[test]
#[ignore = "needs a real API server, root, Java and Python"]
fn kafka() {
    database::prove(&kafka::Kafka);
}

#[test]
#[ignore = "needs a real API server, root and musl"]
fn musl() {
    prove(&musl::Musl);
}

#[test]
#[ignore = "needs a real API server, root and Node.js"]
fn node() {
    prove(&node::Node);
}

#[test]
#[ignore = "needs a real API server, root and PostgreSQL and Patroni"]
fn postgresql() {
    database::prove(&postgresql::Postgresql);
}

#[test]
#[ignore = "needs a real API server, root and Python"]
fn pymongo() {
    prove(&pymongo::Pymongo);
}

#[test]
#[ignore = "needs a real API server, root and RabbitMQ"]
fn rabbitmq() {
    database::prove(&rabbitmq::Rabbitmq);
}

#[test]
#[ignore = "needs a real API server, root and Redis"]
fn sentinel() {
    database::prove(&sentinel::Sentinel);
}

#[test]
#[ignore = "needs a real API server, root and ZooKeeper"]
fn zookeeper() {
    database::prove(&zookeeper::Zookeeper);
}

#[test]
#[ignore = "needs a real API server, root and Redis"]
fn redis_cluster() {
    redis_cluster::prove();
}

#[test]
#[ignore = "needs a real API server, root and Java"]
fn cassandra() {
    cassandra::prove();
}

#[test]
#[ignore = "needs root, CoreDNS and conntrack"]
fn coredns_stanzas() {
    stanzas::measure();
}
