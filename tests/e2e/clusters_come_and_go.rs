//! Clusters are linked and unlinked, scaled, restarted, cut off and clobbered, and the answers follow.
//!
//! One server watches throughout. The writes are those of the recordings, in their order; what is answered then is in the
//! table that the replay of the recordings reads, too. Next to the writer an observer never stops asking, so an answer that
//! was wrong for a millisecond fails a step just as a wrong end does.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use support::cluster::Cluster;
use support::dig::missing;
use support::figures::Latencies;
use support::moments::{History, Names};
use support::names::{Answer, Case};
use support::observer::{Observer, Seen};
use support::recordings::{Event, Recording};
use support::server::Server;
use support::steps::Steps;
use support::wait::eventually;

/// How long an answer may take to follow a write on a busy machine.
pub const FOLLOW: Duration = Duration::from_secs(10);
/// Between an answer and the observer's next question.
pub const PAUSE: Duration = Duration::from_micros(200);

pub const NGINX: &str = "nginx.default.global";

/// The last one that is followed here.
const LAST: &str = "10-reexport-north";

/// Clusters that are linked and unlinked before the recordings.
const LINKS: [Links; 4] = [
    Links {
        fact: "the_first_linked_cluster_appears",
        figures: "first linked cluster",
        writes: || Ok(linked()?.link("east")),
        history: "$ORIGIN nginx.default.global.
@ A NXDOMAIN
east A NXDOMAIN
north A NXDOMAIN
ADDED Service nginx-set-0-east
@ A e0
east A e0
ADDED Service nginx-set-1-east
@ A e0, e1
east A e0, e1
ADDED Service nginx-set-2-east
@ A e0, e1, e2
east A e0, e1, e2
",
    },
    Links {
        fact: "a_newly_linked_cluster_appears",
        figures: "newly linked cluster",
        writes: || Ok(linked()?.link("north")),
        history: "$ORIGIN nginx.default.global.
@ A e0, e1, e2
north A NXDOMAIN
nginx-set-1.north A NXDOMAIN
ADDED Service nginx-set-0-north
@ A e0, e1, e2, n0
north A n0
ADDED Service nginx-set-1-north
@ A e0, e1, e2, n0, n1
north A n0, n1
nginx-set-1.north A n1
ADDED Service nginx-set-2-north
@ A e0, e1, e2, n0, n1, n2
north A n0, n1, n2
END
nginx-set-3.north A NXDOMAIN
",
    },
    Links {
        fact: "an_unlinked_cluster_disappears",
        figures: "unlinked cluster",
        writes: || Ok(Recording::read_writes("09-unexport-north")?.events),
        history: "$ORIGIN nginx.default.global.
@ A e0, e1, e2, n0, n1, n2
north A n0, n1, n2
nginx-set-0.north A n0
DELETED Service nginx-set-0-north
@ A e0, e1, e2, n1, n2
north A n1, n2
nginx-set-0.north A NXDOMAIN
DELETED Service nginx-set-1-north
@ A e0, e1, e2, n2
north A n2
DELETED Service nginx-set-2-north
@ A e0, e1, e2
north A NXDOMAIN
",
    },
    Links {
        fact: "clusters_linked_later_join_the_answer",
        figures: "two more clusters",
        writes: || Ok([linked()?.link("north"), linked()?.link("west")].concat()),
        history: "$ORIGIN nginx.default.global.
@ A e0, e1, e2
ADDED Service nginx-set-0-north
@ A e0, e1, e2, n0
ADDED Service nginx-set-1-north
@ A e0, e1, e2, n0, n1
ADDED Service nginx-set-2-north
@ A e0, e1, e2, n0, n1, n2
ADDED Service nginx-set-0-west
@ A e0, e1, e2, n0, n1, n2, w0
ADDED Service nginx-set-1-west
@ A e0, e1, e2, n0, n1, n2, w0, w1
ADDED Service nginx-set-2-west
@ A e0, e1, e2, n0, n1, n2, w0, w1, w2
",
    },
];

/// Recordings, each of which begins where the one before ends: the fact, the file, and what the times are called.
const RECORDINGS: [(&str, &str, &str); 9] = [
    (
        "scaling_up_adds_endpoints_and_srv_has_the_ports_of_the_service_02",
        "02-scale-up-east",
        "scale-up",
    ),
    (
        "scaling_down_removes_endpoints_03",
        "03-scale-down-east",
        "scale-down",
    ),
    (
        "a_restarted_pod_keeps_its_name_and_changes_its_address_04",
        "04-pod-restart-west",
        "pod restart",
    ),
    (
        "a_dead_gateway_leaves_the_umbrella_and_keeps_its_own_names_05",
        "05-gateway-down-west",
        "gateway loss, slices included",
    ),
    (
        "a_gateway_that_is_back_brings_its_endpoints_back_06",
        "06-gateway-up-west",
        "gateway recovery, slices included",
    ),
    (
        "a_clobbered_headless_slice_changes_no_answer_07",
        CLOBBERED,
        "clobbered slice",
    ),
    (
        "a_scale_up_that_repairs_the_slice_adds_one_endpoint_08",
        "08-clobber-repaired-east",
        "scale-up after a clobbered slice",
    ),
    (
        "an_unexported_service_leaves_cluster_by_cluster_09",
        "09-unexport-north",
        "unexport",
    ),
    (
        "a_service_exported_again_returns_with_new_addresses_10",
        LAST,
        "export again",
    ),
];
const CLOBBERED: &str = "07-clobber-annotation-east";

/// Writes that are no recording of their own.
struct Links {
    fact: &'static str,
    figures: &'static str,
    writes: fn() -> Result<Vec<Event>>,
    history: &'static str,
}

/// What the mirrors of each cluster are when the recordings begin.
fn linked() -> Result<Recording> {
    Recording::read_writes("02-scale-up-east")
}

pub fn run(steps: &mut Steps, cluster: &Cluster) {
    let mut server = None;
    steps.needed("an_empty_cluster_is_ready_and_has_no_names", || {
        let started = Server::ready_of_cluster(&cluster.kubeconfig, &[]);
        missing(started.dns, NGINX)?;
        server = Some(started);
        Ok(())
    });
    let server = server.as_ref();
    let mut step = |fact: &str, check: &dyn Fn(&Server) -> Result<()>| {
        steps.needed(fact, || {
            let server = server.context("there is no server")?;
            server.with_log(check(server))
        });
    };
    for links in &LINKS {
        step(links.fact, &|server| {
            let history = History::read(links.history, Names::Canonical);
            let figures = follow(cluster, server, &(links.writes)()?, &history)?;
            figures.print(links.figures);
            Ok(())
        });
    }
    for (fact, recording, figures) in RECORDINGS {
        step(fact, &|server| {
            replay(cluster, server, recording, figures)?;
            match recording {
                CLOBBERED => clobbered_slice_is_seen(cluster, server),
                _ => Ok(()),
            }
        });
    }
    step(
        "one_endpoint_mirror_comes_and_goes_twenty_times",
        &|server| one_comes_and_goes(cluster, server),
    );
    step(
        "the_published_table_is_what_was_answered",
        &table_is_what_was_answered,
    );
}

/// Something that is written later and seen by the server: whatever the clobbered slice does, it has done by then.
fn clobbered_slice_is_seen(cluster: &Cluster, server: &Server) -> Result<()> {
    let slice = "the headless slice to hold the gateway's address";
    eventually(slice, FOLLOW, || {
        let slices = cluster.slices("default", "nginx-east")?;
        let gateway =
            |data: &serde_json::Value| data["endpoints"][0]["addresses"][0] == "198.51.100.10";
        let is_clobbered = slices.iter().any(|slice| gateway(&slice.data));
        ensure!(is_clobbered, "it does not");
        Ok(())
    })?;
    let history = History::of_mirrors(CLOBBERED);
    let later = Recording::read_writes("02-scale-up-east")?.events;
    let later = later.first().context("recording 02 is empty")?;
    let observer = Observer::start(server.dns, NGINX, PAUSE)?;
    let without = Seen::from(&nginx_of(&history).answer);
    let with = with_the_extra_one(&without);
    cluster.write(later)?;
    observer.wait_for(&with, FOLLOW)?;
    cluster.write(&later.undone())?;
    observer.wait_for(&without, FOLLOW)?;
    observer.has_seen(&[without.clone(), with, without])?;
    let mut last = history.last().into_iter().chain(&history.end);
    last.try_for_each(|case| says(server, case))
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

fn table_is_what_was_answered(server: &Server) -> Result<()> {
    let table = server.try_api("/api/v1/table")?;
    let services = table["services"].as_array().context("no services")?;
    let nginx = services
        .iter()
        .find(|s| s["namespace"] == "default" && s["service"] == "nginx")
        .context("no nginx")?;
    let endpoints = nginx["endpoints"].as_array().context("no endpoints")?;
    let addresses = endpoints.iter().filter_map(|e| e["addresses"][0].as_str());
    let addresses = Answer::Data(addresses.map(str::to_owned).collect());
    ensure!(
        addresses == after_the_recordings().answer,
        "/api/v1/table has {addresses:?}"
    );
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
        server.try_metric("global_dns_table_generation")? == generation,
        "the metric says another generation"
    );
    Ok(())
}

/// What is in the API server after recording 10: three endpoints each of east, west and north.
pub fn state_after_the_recordings() -> Result<Vec<Event>> {
    let recording = Recording::read_writes(LAST)?;
    Ok([recording.state, recording.events].concat())
}

/// What [`NGINX`] answers in that state.
pub fn after_the_recordings() -> Case {
    nginx_of(&History::of_mirrors(LAST))
}

fn nginx_of(history: &History) -> Case {
    let mut last = history.last().into_iter();
    let last = last.find(|case| case.name.trim_end_matches('.') == NGINX);
    last.expect("the table follows nginx").clone()
}

/// The answer in that state.
pub fn answer_after_the_recordings() -> Seen {
    Seen::from(&after_the_recordings().answer)
}

/// The answer in that state and with [`extra_endpoint_mirror`].
pub fn answer_with_the_extra_one() -> Seen {
    with_the_extra_one(&answer_after_the_recordings())
}

fn with_the_extra_one(seen: &Seen) -> Seen {
    seen.with(&["10.96.134.180"])
}

/// An endpoint mirror that no later recording has: nginx-set-4 of east, 10.96.134.180.
pub fn extra_endpoint_mirror() -> Result<Event> {
    let events = Recording::read_writes("02-scale-up-east")?.events;
    events
        .into_iter()
        .find(|event| event.title() == "ADDED Service nginx-set-4-east")
        .context("recording 02 has changed")
}

/// Asks for a case of the table, over UDP and TCP.
pub fn says(server: &Server, case: &Case) -> Result<()> {
    match case.ask(server.dns) {
        None => Ok(()),
        Some(difference) => Err(anyhow!(difference)),
    }
}

/// Writes the events of a recording, and prints how soon the answers followed.
pub fn replay(cluster: &Cluster, server: &Server, recording: &str, figures: &str) -> Result<()> {
    let writes = Recording::read_writes(recording)?.events;
    let followed = follow(cluster, server, &writes, &History::of_mirrors(recording))?;
    if followed.count() > 0 {
        followed.print(figures);
    }
    Ok(())
}

/// Writes one event after the other and waits at each moment for its answers. Returns the times between an acknowledged
/// write and a changed answer. Each name that is followed must have had exactly the answers of the history, one after the
/// other, and nothing between them.
fn follow(
    cluster: &Cluster,
    server: &Server,
    writes: &[Event],
    history: &History,
) -> Result<Latencies> {
    let mut observers = BTreeMap::new();
    for (name, answer) in history.followed() {
        let (observer, answer) = (
            Observer::start(server.dns, name, PAUSE)?,
            Seen::from(answer),
        );
        observer
            .wait_for(&answer, FOLLOW)
            .context("before the first write")?;
        observers.insert(name, (observer, vec![answer]));
    }
    history
        .start
        .iter()
        .try_for_each(|case| says(server, case))?;
    let mut figures = Latencies::default();
    let mut to_come = history.moments.iter().peekable();
    for event in writes {
        let written = cluster.write(event)?;
        while let Some(moment) = to_come.next_if(|moment| moment.write == event.title()) {
            for case in &moment.cases {
                if !history.follows(case) {
                    says(server, case)?;
                    continue;
                }
                let (observer, seen) = observers.get_mut(&*case.name).context("no observer")?;
                let wanted = Seen::from(&case.answer);
                let answered = observer
                    .wait_for(&wanted, FOLLOW)
                    .with_context(|| format!("after {}", moment.write))?;
                figures.add(written, answered);
                seen.push(wanted);
            }
        }
    }
    if let Some(moment) = to_come.next() {
        return Err(anyhow!("there was no {}", moment.write));
    }
    for (observer, seen) in observers.values() {
        observer.has_seen(seen)?;
    }
    let mut last = history.last().into_iter().chain(&history.end);
    last.try_for_each(|case| says(server, case))?;
    Ok(figures)
}
