//! Programs that people run, as clients of a global name: what each one does while clusters are linked, fail and fail
//! over, and how many endpoints it takes.
//!
//! Each program has a module and a directory of the same name. The directory has the configuration that a user would
//! copy, and a README. Each test writes its measurements to `target/clients/PROGRAM.md`.
//!
//! Index:
//!
//! - `scenario`: three linked clusters and a program in `east`; the same events for every program
//! - `database`: the same events with a database that has a member in each cluster
//! - `results`: the table of a program
//! - all others: programs

mod database;
mod envoy;
mod etcd;
mod go;
mod grpc;
mod haproxy;
mod java;
mod kafka;
mod musl;
mod nginx;
mod node;
mod postgresql;
mod prometheus;
mod rabbitmq;
mod results;
mod scenario;
mod sentinel;
mod zookeeper;

use crate::clients::scenario::prove;

#[test]
fn envoy() {
    prove(&mut envoy::Envoy);
}

#[test]
fn go() {
    prove(&mut go::Go);
}

#[test]
fn grpc_go() {
    prove(&mut grpc::go());
}

#[test]
fn grpc_python() {
    prove(&mut grpc::python());
}

#[test]
fn haproxy() {
    prove(&mut haproxy::Haproxy);
}

#[test]
fn java() {
    prove(&mut java::Java);
}

#[test]
fn musl() {
    prove(&mut musl::Musl);
}

#[test]
fn nginx() {
    prove(&mut nginx::Nginx);
}

#[test]
fn node() {
    prove(&mut node::Node);
}

#[test]
fn prometheus() {
    prove(&mut prometheus::Prometheus::default());
}

#[test]
fn etcd() {
    database::prove(&etcd::Etcd);
}

#[test]
fn kafka() {
    database::prove(&kafka::Kafka);
}

#[test]
fn postgresql() {
    database::prove(&postgresql::Postgresql);
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
