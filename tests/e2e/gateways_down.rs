//! The gateways of east and west die and come back (recording 23).
//!
//! One name has a third cluster left; the other has nothing else, and its last endpoint takes all of them back into
//! the answer.

use anyhow::Result;

use crate::ask::{Seen, a, answered};
use crate::cluster::Cluster;
use crate::clusters_come_and_go::{Moment, NGINX, replay};
use crate::recordings::Recording;
use crate::server::Server;
use crate::steps::Steps;

pub const DB_EAST: &str = "db-east.shop.global";

// nginx-set-0, -1, -2 in recording 23.
pub const EAST: [&str; 3] = ["10.96.146.197", "10.96.48.116", "10.96.77.1"];
pub const WEST: [&str; 3] = ["10.96.173.86", "10.96.155.137", "10.96.160.237"];
pub const NORTH: [&str; 3] = ["10.96.140.160", "10.96.48.232", "10.96.198.206"];
/// db-east-0 and -1 of east, then of west.
pub const DB_EAST_ALL: [&str; 4] = [
    "10.96.41.177",
    "10.96.88.58",
    "10.96.189.172",
    "10.96.110.63",
];

pub fn run(steps: &mut Steps, cluster: &Cluster) {
    steps.step(
        "a_name_whose_every_gateway_is_dead_keeps_all_its_endpoints",
        || last_resort(cluster),
    );
}

fn last_resort(cluster: &Cluster) -> Result<()> {
    cluster.become_state(&Recording::read_writes("23-all-gateways-down-and-up")?.state)?;
    let server = Server::start_ready(&cluster.kubeconfig, &[]);
    let ([e0, e1, _], [w0, w1, w2]) = (EAST, WEST);
    let [de0, de1, dw0, dw1] = DB_EAST_ALL;
    let start = [
        (NGINX, Seen::addresses(&[&EAST, &WEST, &NORTH])),
        (DB_EAST, Seen::addresses(&[&DB_EAST_ALL])),
    ];
    let figures = replay(
        cluster,
        &server,
        "23-all-gateways-down-and-up",
        &start,
        &[
            nginx(
                "MODIFIED Endpoints nginx-set-0-west",
                &[&EAST, &[w1, w2], &NORTH],
            ),
            nginx(
                "MODIFIED Endpoints nginx-set-1-west",
                &[&EAST, &[w2], &NORTH],
            ),
            nginx("MODIFIED Endpoints nginx-set-2-west", &[&EAST, &NORTH]),
            db_east("MODIFIED Endpoints db-east-0-west", &[de0, de1, dw1]),
            db_east("MODIFIED Endpoints db-east-1-west", &[de0, de1]),
            nginx("MODIFIED Endpoints nginx-set-0-east", &[&EAST[1..], &NORTH]),
            nginx("MODIFIED Endpoints nginx-set-1-east", &[&EAST[2..], &NORTH]),
            nginx("MODIFIED Endpoints nginx-set-2-east", &[&NORTH]),
            db_east("MODIFIED Endpoints db-east-0-east", &[de1]),
            // Nothing is left: all of them.
            db_east("MODIFIED Endpoints db-east-1-east", &DB_EAST_ALL),
            nginx("MODIFIED Endpoints nginx-set-0-west", &[&[w0], &NORTH]),
            nginx("MODIFIED Endpoints nginx-set-1-west", &[&[w0, w1], &NORTH]),
            nginx(
                "MODIFIED Endpoints nginx-set-0-east",
                &[&[e0], &[w0, w1], &NORTH],
            ),
            nginx(
                "MODIFIED Endpoints nginx-set-1-east",
                &[&[e0, e1], &[w0, w1], &NORTH],
            ),
            nginx(
                "MODIFIED Endpoints nginx-set-2-east",
                &[&EAST, &[w0, w1], &NORTH],
            ),
            db_east("MODIFIED Endpoints db-east-0-east", &[de0]),
            db_east("MODIFIED Endpoints db-east-1-east", &[de0, de1]),
            nginx(
                "MODIFIED Endpoints nginx-set-2-west",
                &[&EAST, &WEST, &NORTH],
            ),
            db_east("MODIFIED Endpoints db-east-0-west", &[de0, de1, dw0]),
            db_east("MODIFIED Endpoints db-east-1-west", &DB_EAST_ALL),
        ],
    );
    server
        .with_log(figures)?
        .print("every gateway down and up, slices included");
    answered(server.dns, DB_EAST, "A", &a(DB_EAST, &[&DB_EAST_ALL]))?;
    let host = "db-east-0.west.db-east.shop.global";
    answered(server.dns, host, "A", &a(host, &[&[dw0]]))
}

fn nginx(write: &'static str, answer: &[&[&str]]) -> Moment {
    Moment {
        write,
        name: NGINX,
        answer: Seen::addresses(answer),
    }
}

fn db_east(write: &'static str, answer: &[&str]) -> Moment {
    Moment {
        write,
        name: DB_EAST,
        answer: Seen::addresses(&[answer]),
    }
}
