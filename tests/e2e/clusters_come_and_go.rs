//! Clusters are linked and unlinked, scaled, restarted, cut off and clobbered, and the answers follow.
//!
//! One server watches throughout. The writes are those of the recordings, in their order; the expected answers are
//! written out here. Next to the writer an observer never stops asking, so an answer that was wrong for a millisecond
//! fails a step just as a wrong end does.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::ask::{Observer, Seen, a, answered, missing, srv};
use crate::cluster::Cluster;
use crate::figures::Latencies;
use crate::harness::eventually;
use crate::recordings::{Event, Recording};
use crate::server::Server;
use crate::steps::Steps;

/// How long an answer may take to follow a write on a busy machine.
pub const FOLLOW: Duration = Duration::from_secs(10);
/// Between an answer and the observer's next question.
pub const PAUSE: Duration = Duration::from_micros(200);

pub const NGINX: &str = "nginx.default.global";

// The endpoint mirrors nginx-set-0, -1, -2 at the start of recording 02.
const EAST: [&str; 3] = ["10.96.146.197", "10.96.48.116", "10.96.33.115"];
const WEST: [&str; 3] = ["10.96.200.190", "10.96.46.26", "10.96.139.176"];
const NORTH: [&str; 3] = ["10.96.195.82", "10.96.55.36", "10.96.106.244"];
// East after recording 03: two are left. West after 04: nginx-set-1 has a new address.
const EAST_TWO: [&str; 2] = ["10.96.146.197", "10.96.48.116"];
const WEST_RESTARTED: [&str; 3] = ["10.96.200.190", "10.96.116.27", "10.96.139.176"];
// East after 08: nginx-set-2 is back with a new address. North after 10: all have new addresses.
pub const EAST_REPAIRED: [&str; 3] = ["10.96.146.197", "10.96.48.116", "10.96.77.1"];
pub const WEST_LAST: [&str; 3] = WEST_RESTARTED;
pub const NORTH_AGAIN: [&str; 3] = ["10.96.140.160", "10.96.48.232", "10.96.198.206"];

/// After this write, the name's addresses are these.
pub struct Moment {
    pub write: &'static str,
    pub name: &'static str,
    pub answer: Seen,
}

pub fn run(steps: &mut Steps, cluster: &Cluster) {
    let mut server = None;
    steps.needed("an_empty_cluster_is_ready_and_has_no_names", || {
        let started = Server::start_ready(&cluster.kubeconfig, &[]);
        missing(started.dns, NGINX)?;
        server = Some(started);
        Ok(())
    });
    let mut step = |fact: &str, check: fn(&Cluster, &Server) -> Result<()>| {
        let server = server.as_ref();
        steps.needed(fact, || {
            server
                .context("there is no server")
                .and_then(|s| s.with_log(check(cluster, s)))
        });
    };
    step("the_first_linked_cluster_appears", first_cluster_appears);
    step(
        "a_newly_linked_cluster_appears",
        newly_linked_cluster_appears,
    );
    step(
        "an_unlinked_cluster_disappears",
        unlinked_cluster_disappears,
    );
    step(
        "clusters_linked_later_join_the_answer",
        clusters_linked_later_join,
    );
    step(
        "srv_has_the_ports_of_the_service_and_not_of_the_pod",
        srv_has_service_ports,
    );
    step("scaling_up_adds_endpoints_02", scaling_up_adds);
    step("scaling_down_removes_endpoints_03", scaling_down_removes);
    step(
        "a_restarted_pod_keeps_its_name_and_changes_its_address_04",
        restart_renumbers,
    );
    step(
        "a_dead_gateway_leaves_the_umbrella_and_keeps_its_own_names_05",
        dead_gateway_leaves,
    );
    step(
        "a_gateway_that_is_back_brings_its_endpoints_back_06",
        gateway_is_back,
    );
    step(
        "a_clobbered_headless_slice_changes_no_answer_07",
        clobbered_slice_changes_nothing,
    );
    step(
        "a_scale_up_that_repairs_the_slice_adds_one_endpoint_08",
        repair_adds_one,
    );
    step(
        "an_unexported_service_leaves_cluster_by_cluster_09",
        unexport_removes,
    );
    step(
        "a_service_exported_again_returns_with_new_addresses_10",
        reexport_renumbers,
    );
    step(
        "one_endpoint_mirror_comes_and_goes_twenty_times",
        one_comes_and_goes,
    );
    step(
        "the_published_table_is_what_was_answered",
        table_is_what_was_answered,
    );
}

fn first_cluster_appears(cluster: &Cluster, server: &Server) -> Result<()> {
    let [e0, e1, e2] = EAST;
    let writes = Recording::read_writes("02-scale-up-east")?.link("east");
    let figures = follow(
        cluster,
        server,
        &writes,
        &[(NGINX, Seen::nothing("NXDomain"))],
        &[
            moment("ADDED Service nginx-set-0-east", &[&[e0]]),
            moment("ADDED Service nginx-set-1-east", &[&[e0, e1]]),
            moment("ADDED Service nginx-set-2-east", &[&[e0, e1, e2]]),
        ],
    )?;
    figures.print("first linked cluster");
    answered(server.dns, NGINX, "A", &a(NGINX, &[&EAST]))?;
    answered(
        server.dns,
        "east.nginx.default.global",
        "A",
        &a("east.nginx.default.global", &[&EAST]),
    )?;
    missing(server.dns, "north.nginx.default.global")
}

fn newly_linked_cluster_appears(cluster: &Cluster, server: &Server) -> Result<()> {
    let [n0, n1, n2] = NORTH;
    let writes = Recording::read_writes("02-scale-up-east")?.link("north");
    let figures = follow(
        cluster,
        server,
        &writes,
        &[(NGINX, Seen::addresses(&[&EAST]))],
        &[
            moment("ADDED Service nginx-set-0-north", &[&EAST, &[n0]]),
            moment("ADDED Service nginx-set-1-north", &[&EAST, &[n0, n1]]),
            moment("ADDED Service nginx-set-2-north", &[&EAST, &[n0, n1, n2]]),
        ],
    )?;
    figures.print("newly linked cluster");
    answered(server.dns, NGINX, "A", &a(NGINX, &[&EAST, &NORTH]))?;
    answered(
        server.dns,
        "north.nginx.default.global",
        "A",
        &a("north.nginx.default.global", &[&NORTH]),
    )?;
    let host = "nginx-set-1.north.nginx.default.global";
    answered(server.dns, host, "A", &a(host, &[&["10.96.55.36"]]))?;
    missing(server.dns, "nginx-set-3.north.nginx.default.global")
}

fn unlinked_cluster_disappears(cluster: &Cluster, server: &Server) -> Result<()> {
    let [_, n1, n2] = NORTH;
    let writes = Recording::read_writes("09-unexport-north")?.events;
    let figures = follow(
        cluster,
        server,
        &writes,
        &[(NGINX, Seen::addresses(&[&EAST, &NORTH]))],
        &[
            moment("DELETED Service nginx-set-0-north", &[&EAST, &[n1, n2]]),
            moment("DELETED Service nginx-set-1-north", &[&EAST, &[n2]]),
            moment("DELETED Service nginx-set-2-north", &[&EAST]),
        ],
    )?;
    figures.print("unlinked cluster");
    answered(server.dns, NGINX, "A", &a(NGINX, &[&EAST]))?;
    missing(server.dns, "north.nginx.default.global")?;
    missing(server.dns, "nginx-set-0.north.nginx.default.global")
}

fn clusters_linked_later_join(cluster: &Cluster, server: &Server) -> Result<()> {
    let ([n0, n1, n2], [w0, w1, w2]) = (NORTH, WEST);
    let recording = Recording::read_writes("02-scale-up-east")?;
    let writes = [recording.link("north"), recording.link("west")].concat();
    let figures = follow(
        cluster,
        server,
        &writes,
        &[(NGINX, Seen::addresses(&[&EAST]))],
        &[
            moment("ADDED Service nginx-set-0-north", &[&EAST, &[n0]]),
            moment("ADDED Service nginx-set-1-north", &[&EAST, &[n0, n1]]),
            moment("ADDED Service nginx-set-2-north", &[&EAST, &[n0, n1, n2]]),
            moment("ADDED Service nginx-set-0-west", &[&EAST, &NORTH, &[w0]]),
            moment(
                "ADDED Service nginx-set-1-west",
                &[&EAST, &NORTH, &[w0, w1]],
            ),
            moment(
                "ADDED Service nginx-set-2-west",
                &[&EAST, &NORTH, &[w0, w1, w2]],
            ),
        ],
    )?;
    figures.print("two more clusters");
    answered(server.dns, NGINX, "A", &a(NGINX, &[&EAST, &WEST, &NORTH]))
}

fn srv_has_service_ports(_: &Cluster, server: &Server) -> Result<()> {
    let all = [
        "nginx-set-0.east.nginx.default.global",
        "nginx-set-1.east.nginx.default.global",
        "nginx-set-2.east.nginx.default.global",
        "nginx-set-0.west.nginx.default.global",
        "nginx-set-1.west.nginx.default.global",
        "nginx-set-2.west.nginx.default.global",
        "nginx-set-0.north.nginx.default.global",
        "nginx-set-1.north.nginx.default.global",
        "nginx-set-2.north.nginx.default.global",
    ];
    let (sql, http) = (
        "_sql._tcp.nginx.default.global",
        "_http._tcp.nginx.default.global",
    );
    answered(server.dns, sql, "SRV", &srv(sql, 26257, &all))?;
    answered(server.dns, http, "SRV", &srv(http, 80, &all))?;
    // The bare name has both ports of every endpoint.
    answered(
        server.dns,
        NGINX,
        "SRV",
        &[srv(NGINX, 26257, &all), srv(NGINX, 80, &all)].concat(),
    )?;
    // One cluster's, and one host's.
    let sql = "_sql._tcp.east.nginx.default.global";
    answered(server.dns, sql, "SRV", &srv(sql, 26257, &all[..3]))?;
    let http = "_http._tcp.nginx-set-0.east.nginx.default.global";
    answered(server.dns, http, "SRV", &srv(http, 80, &all[..1]))?;
    // A name that exists, without a record of that type; and a port that no endpoint has.
    answered(server.dns, NGINX, "AAAA", &[])?;
    answered(server.dns, "_sql._tcp.nginx.default.global", "A", &[])?;
    missing(server.dns, "_admin._tcp.nginx.default.global")
}

fn scaling_up_adds(cluster: &Cluster, server: &Server) -> Result<()> {
    let rest: [&[&str]; 3] = [&EAST, &WEST, &NORTH];
    let figures = replay(
        cluster,
        server,
        "02-scale-up-east",
        &[(NGINX, Seen::addresses(&rest))],
        &[
            moment(
                "ADDED Service nginx-set-4-east",
                &[&EAST, &WEST, &NORTH, &["10.96.134.180"]],
            ),
            moment(
                "ADDED Service nginx-set-3-east",
                &[&EAST, &WEST, &NORTH, &["10.96.134.180", "10.96.136.184"]],
            ),
        ],
    )?;
    figures.print("scale-up");
    answered(
        server.dns,
        NGINX,
        "A",
        &a(
            NGINX,
            &[&EAST, &WEST, &NORTH, &["10.96.134.180", "10.96.136.184"]],
        ),
    )?;
    let host = "nginx-set-4.east.nginx.default.global";
    answered(server.dns, host, "A", &a(host, &[&["10.96.134.180"]]))
}

fn scaling_down_removes(cluster: &Cluster, server: &Server) -> Result<()> {
    let start = Seen::addresses(&[&EAST, &WEST, &NORTH, &["10.96.134.180", "10.96.136.184"]]);
    let figures = replay(
        cluster,
        server,
        "03-scale-down-east",
        &[(NGINX, start)],
        &[
            moment(
                "DELETED Service nginx-set-4-east",
                &[&EAST, &WEST, &NORTH, &["10.96.136.184"]],
            ),
            moment(
                "DELETED Service nginx-set-2-east",
                &[&EAST_TWO, &WEST, &NORTH, &["10.96.136.184"]],
            ),
            moment(
                "DELETED Service nginx-set-3-east",
                &[&EAST_TWO, &WEST, &NORTH],
            ),
        ],
    )?;
    figures.print("scale-down");
    answered(
        server.dns,
        NGINX,
        "A",
        &a(NGINX, &[&EAST_TWO, &WEST, &NORTH]),
    )?;
    missing(server.dns, "nginx-set-4.east.nginx.default.global")
}

fn restart_renumbers(cluster: &Cluster, server: &Server) -> Result<()> {
    let start = Seen::addresses(&[&EAST_TWO, &WEST, &NORTH]);
    let figures = replay(
        cluster,
        server,
        "04-pod-restart-west",
        &[(NGINX, start)],
        &[
            moment(
                "DELETED Service nginx-set-1-west",
                &[&EAST_TWO, &["10.96.200.190", "10.96.139.176"], &NORTH],
            ),
            moment(
                "ADDED Service nginx-set-1-west",
                &[&EAST_TWO, &WEST_RESTARTED, &NORTH],
            ),
        ],
    )?;
    figures.print("pod restart");
    let host = "nginx-set-1.west.nginx.default.global";
    answered(server.dns, host, "A", &a(host, &[&["10.96.116.27"]]))?;
    answered(
        server.dns,
        NGINX,
        "A",
        &a(NGINX, &[&EAST_TWO, &WEST_RESTARTED, &NORTH]),
    )
}

fn dead_gateway_leaves(cluster: &Cluster, server: &Server) -> Result<()> {
    let start = Seen::addresses(&[&EAST_TWO, &WEST_RESTARTED, &NORTH]);
    let figures = replay(
        cluster,
        server,
        "05-gateway-down-west",
        &[(NGINX, start)],
        &[
            moment(
                "MODIFIED Endpoints nginx-set-0-west",
                &[&EAST_TWO, &["10.96.116.27", "10.96.139.176"], &NORTH],
            ),
            moment(
                "MODIFIED Endpoints nginx-set-1-west",
                &[&EAST_TWO, &["10.96.139.176"], &NORTH],
            ),
            moment("MODIFIED Endpoints nginx-set-2-west", &[&EAST_TWO, &NORTH]),
        ],
    )?;
    figures.print("gateway loss, slices included");
    answered(server.dns, NGINX, "A", &a(NGINX, &[&EAST_TWO, &NORTH]))?;
    let west = "west.nginx.default.global";
    answered(server.dns, west, "A", &a(west, &[&WEST_RESTARTED]))?;
    let host = "nginx-set-0.west.nginx.default.global";
    answered(server.dns, host, "A", &a(host, &[&["10.96.200.190"]]))?;
    let alive = [
        "nginx-set-0.east.nginx.default.global",
        "nginx-set-1.east.nginx.default.global",
        "nginx-set-0.north.nginx.default.global",
        "nginx-set-1.north.nginx.default.global",
        "nginx-set-2.north.nginx.default.global",
    ];
    let sql = "_sql._tcp.nginx.default.global";
    answered(server.dns, sql, "SRV", &srv(sql, 26257, &alive))
}

fn gateway_is_back(cluster: &Cluster, server: &Server) -> Result<()> {
    let start = Seen::addresses(&[&EAST_TWO, &NORTH]);
    let figures = replay(
        cluster,
        server,
        "06-gateway-up-west",
        &[(NGINX, start)],
        &[
            moment(
                "MODIFIED Endpoints nginx-set-0-west",
                &[&EAST_TWO, &["10.96.200.190"], &NORTH],
            ),
            moment(
                "MODIFIED Endpoints nginx-set-1-west",
                &[&EAST_TWO, &["10.96.200.190", "10.96.116.27"], &NORTH],
            ),
            moment(
                "MODIFIED Endpoints nginx-set-2-west",
                &[&EAST_TWO, &WEST_RESTARTED, &NORTH],
            ),
        ],
    )?;
    figures.print("gateway recovery, slices included");
    answered(
        server.dns,
        NGINX,
        "A",
        &a(NGINX, &[&EAST_TWO, &WEST_RESTARTED, &NORTH]),
    )
}

fn clobbered_slice_changes_nothing(cluster: &Cluster, server: &Server) -> Result<()> {
    let all: [&[&str]; 3] = [&EAST_TWO, &WEST_RESTARTED, &NORTH];
    let observer = Observer::start(server.dns, NGINX, PAUSE)?;
    replay(
        cluster,
        server,
        "07-clobber-annotation-east",
        &[(NGINX, Seen::addresses(&all))],
        &[],
    )?;
    eventually(
        "the headless slice to hold the gateway's address",
        FOLLOW,
        || {
            let slices = cluster.slices("default", "nginx-east")?;
            ensure!(
                slices
                    .iter()
                    .any(|slice| slice.data["endpoints"][0]["addresses"][0] == "198.51.100.10"),
                "it does not"
            );
            Ok(())
        },
    )?;
    // Something that is written later and seen by the server: whatever the slice does, it has done by now.
    let later = Recording::read_writes("02-scale-up-east")?.events;
    let later = later.first().context("recording 02 is empty")?;
    cluster.write(later)?;
    let with_later = Seen::addresses(&[&EAST_TWO, &WEST_RESTARTED, &NORTH, &["10.96.134.180"]]);
    observer.wait_for(&with_later, FOLLOW)?;
    cluster.write(&later.undone())?;
    observer.wait_for(&Seen::addresses(&all), FOLLOW)?;
    observer.has_seen(&[Seen::addresses(&all), with_later, Seen::addresses(&all)])?;
    let east = "east.nginx.default.global";
    answered(server.dns, NGINX, "A", &a(NGINX, &all))?;
    answered(server.dns, east, "A", &a(east, &[&EAST_TWO]))?;
    let hosts = [
        "nginx-set-0.east.nginx.default.global",
        "nginx-set-1.east.nginx.default.global",
    ];
    answered(
        server.dns,
        east,
        "SRV",
        &[srv(east, 80, &hosts), srv(east, 26257, &hosts)].concat(),
    )
}

fn repair_adds_one(cluster: &Cluster, server: &Server) -> Result<()> {
    let start = Seen::addresses(&[&EAST_TWO, &WEST_RESTARTED, &NORTH]);
    let figures = replay(
        cluster,
        server,
        "08-clobber-repaired-east",
        &[(NGINX, start)],
        &[moment(
            "ADDED Service nginx-set-2-east",
            &[&EAST_REPAIRED, &WEST_RESTARTED, &NORTH],
        )],
    )?;
    figures.print("scale-up after a clobbered slice");
    answered(
        server.dns,
        NGINX,
        "A",
        &a(NGINX, &[&EAST_REPAIRED, &WEST_RESTARTED, &NORTH]),
    )
}

fn unexport_removes(cluster: &Cluster, server: &Server) -> Result<()> {
    let start = Seen::addresses(&[&EAST_REPAIRED, &WEST_LAST, &NORTH]);
    let figures = replay(
        cluster,
        server,
        "09-unexport-north",
        &[(NGINX, start)],
        &[
            moment(
                "DELETED Service nginx-set-0-north",
                &[
                    &EAST_REPAIRED,
                    &WEST_LAST,
                    &["10.96.55.36", "10.96.106.244"],
                ],
            ),
            moment(
                "DELETED Service nginx-set-1-north",
                &[&EAST_REPAIRED, &WEST_LAST, &["10.96.106.244"]],
            ),
            moment(
                "DELETED Service nginx-set-2-north",
                &[&EAST_REPAIRED, &WEST_LAST],
            ),
        ],
    )?;
    figures.print("unexport");
    answered(
        server.dns,
        NGINX,
        "A",
        &a(NGINX, &[&EAST_REPAIRED, &WEST_LAST]),
    )?;
    missing(server.dns, "north.nginx.default.global")
}

fn reexport_renumbers(cluster: &Cluster, server: &Server) -> Result<()> {
    let start = Seen::addresses(&[&EAST_REPAIRED, &WEST_LAST]);
    let figures = replay(
        cluster,
        server,
        "10-reexport-north",
        &[(NGINX, start)],
        &[
            moment(
                "ADDED Service nginx-set-0-north",
                &[&EAST_REPAIRED, &WEST_LAST, &["10.96.140.160"]],
            ),
            moment(
                "ADDED Service nginx-set-1-north",
                &[
                    &EAST_REPAIRED,
                    &WEST_LAST,
                    &["10.96.140.160", "10.96.48.232"],
                ],
            ),
            moment(
                "ADDED Service nginx-set-2-north",
                &[&EAST_REPAIRED, &WEST_LAST, &NORTH_AGAIN],
            ),
        ],
    )?;
    figures.print("export again");
    answered(
        server.dns,
        NGINX,
        "A",
        &a(NGINX, &[&EAST_REPAIRED, &WEST_LAST, &NORTH_AGAIN]),
    )
}

fn one_comes_and_goes(cluster: &Cluster, server: &Server) -> Result<()> {
    let without = answer_after_the_recordings();
    let with = answer_with_the_extra_one();
    let extra = extra_endpoint_mirror()?;
    let observer = Observer::start(server.dns, NGINX, PAUSE)?;
    let (mut coming, mut going) = (Latencies::default(), Latencies::default());
    let mut history = vec![without.clone()];
    for _ in 0..20 {
        coming.add(cluster.write(&extra)?, observer.wait_for(&with, FOLLOW)?);
        going.add(
            cluster.write(&extra.undone())?,
            observer.wait_for(&without, FOLLOW)?,
        );
        history.extend([with.clone(), without.clone()]);
    }
    observer.has_seen(&history)?;
    coming.print("endpoint mirror comes");
    going.print("endpoint mirror goes");
    Ok(())
}

fn table_is_what_was_answered(_: &Cluster, server: &Server) -> Result<()> {
    let table = server.table()?;
    let services = table["services"].as_array().context("no services")?;
    let nginx = services
        .iter()
        .find(|s| s["namespace"] == "default" && s["service"] == "nginx")
        .context("no nginx")?;
    let endpoints = nginx["endpoints"].as_array().context("no endpoints")?;
    let mut addresses: Vec<&str> = endpoints
        .iter()
        .filter_map(|e| e["addresses"][0].as_str())
        .collect();
    addresses.sort_unstable();
    let mut wanted = [EAST_REPAIRED, WEST_LAST, NORTH_AGAIN].concat();
    wanted.sort_unstable();
    ensure!(addresses == wanted, "/api/v1/table has {addresses:?}");
    ensure!(
        endpoints.iter().all(|e| e["state"] == "answered"),
        "not all are answered: {nginx}"
    );
    let east = endpoints
        .iter()
        .find(|e| e["object"] == "Service/default/nginx-set-0-east")
        .context("no such object")?;
    ensure!(
        east["cluster"] == "east"
            && east["hostname"] == "nginx-set-0"
            && east["ports"][0]["port"] == 80,
        "{east}"
    );
    let generation = table["generation"].as_f64().context("no generation")?;
    ensure!(
        server.metric("global_dns_table_generation")? == generation,
        "the metric says another generation"
    );
    Ok(())
}

/// What is in the API server after recording 10: three endpoints each of east, west and north.
pub fn state_after_the_recordings() -> Result<Vec<Event>> {
    let recording = Recording::read_writes("10-reexport-north")?;
    Ok([recording.state, recording.events].concat())
}

/// The answer in that state.
pub fn answer_after_the_recordings() -> Seen {
    Seen::addresses(&[&EAST_REPAIRED, &WEST_LAST, &NORTH_AGAIN])
}

/// The answer in that state and with [`extra_endpoint_mirror`].
pub fn answer_with_the_extra_one() -> Seen {
    Seen::addresses(&[&EAST_REPAIRED, &WEST_LAST, &NORTH_AGAIN, &["10.96.134.180"]])
}

/// An endpoint mirror that no later recording has: nginx-set-4 of east, 10.96.134.180.
pub fn extra_endpoint_mirror() -> Result<Event> {
    let events = Recording::read_writes("02-scale-up-east")?.events;
    events
        .into_iter()
        .find(|event| event.title() == "ADDED Service nginx-set-4-east")
        .context("recording 02 has changed")
}

/// Reads the events of a recording and follows them.
pub fn replay(
    cluster: &Cluster,
    server: &Server,
    recording: &str,
    start: &[(&str, Seen)],
    moments: &[Moment],
) -> Result<Latencies> {
    follow(
        cluster,
        server,
        &Recording::read_writes(recording)?.events,
        start,
        moments,
    )
}

/// Writes one event after the other and waits at each moment for its answer. Returns the times between an
/// acknowledged write and the changed answer. Each name must have had exactly the answers of `start` and its moments,
/// one after the other, and nothing between them.
pub fn follow(
    cluster: &Cluster,
    server: &Server,
    writes: &[Event],
    start: &[(&str, Seen)],
    moments: &[Moment],
) -> Result<Latencies> {
    let observers = start
        .iter()
        .map(|(name, answer)| {
            let observer = Observer::start(server.dns, name, PAUSE)?;
            observer
                .wait_for(answer, FOLLOW)
                .context("before the first write")?;
            Ok(observer)
        })
        .collect::<Result<Vec<Observer>>>()?;
    let mut figures = Latencies::default();
    let mut to_come = moments.iter().peekable();
    for event in writes {
        let written = cluster.write(event)?;
        while let Some(moment) = to_come.next_if(|moment| moment.write == event.title()) {
            let observer = observers
                .iter()
                .find(|o| o.name() == moment.name)
                .context("a moment that nobody observes")?;
            let answered = observer
                .wait_for(&moment.answer, FOLLOW)
                .with_context(|| format!("after {}", moment.write))?;
            figures.add(written, answered);
        }
    }
    ensure!(
        to_come.peek().is_none(),
        "only {} of {} moments came",
        figures.count(),
        moments.len()
    );
    for (observer, (name, answer)) in observers.iter().zip(start) {
        let later = moments
            .iter()
            .filter(|moment| moment.name == *name)
            .map(|moment| moment.answer.clone());
        observer.has_seen(
            &[answer.clone()]
                .into_iter()
                .chain(later)
                .collect::<Vec<_>>(),
        )?;
    }
    Ok(figures)
}

fn moment(write: &'static str, answer: &[&[&str]]) -> Moment {
    Moment {
        write,
        name: NGINX,
        answer: Seen::addresses(answer),
    }
}
