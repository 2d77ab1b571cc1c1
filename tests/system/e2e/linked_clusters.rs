//! Clusters are linked, unlinked, scaled, restarted and disconnected, slices are overwritten, and the answers follow.
//!
//! One server runs throughout. The tests write the events of the recordings in their order. The expected answers are in
//! `support::expectations`, which the suite `recordings` uses too. An observer sends queries all the time, so an answer
//! that is wrong for a millisecond also fails a step.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use support::cluster::Cluster;
use support::dig::check_nxdomain;
use support::expectations::{Expectations, Names};
use support::names::{Answer, Case};
use support::observer::{Observation, Observer};
use support::recordings::{Event, Recording};
use support::server::Server;
use support::steps::Steps;
use support::wait::eventually;

/// Pause between an answer and the observer's next query.
pub const PAUSE: Duration = Duration::from_micros(200);

pub const NGINX: &str = "nginx.default.global";

/// The last recording that is replayed.
const LAST: &str = "10-reexport-north";

/// Links and unlinks before the recordings.
const LINKS: [Links; 4] = [
    Links {
        fact: "first_linked_cluster_appears",
        writes: || Ok(linked_state()?.writes_of_link("east")),
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
        fact: "newly_linked_cluster_appears",
        writes: || Ok(linked_state()?.writes_of_link("north")),
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
        fact: "unlinked_cluster_disappears",
        writes: || Ok(Recording::read_mirror_writes("09-unexport-north")?.events),
        history: "$ORIGIN nginx.default.global.
@ A e0, e1, e2, n0, n1, n2
north A n0, n1, n2
nginx-set-0.north A n0
DELETED Service nginx-set-0-north
@ A e0, e1, e2, n1, n2
north A n1, n2
nginx-set-0.north A SERVFAIL
DELETED Service nginx-set-1-north
@ A e0, e1, e2, n2
north A n2
DELETED Service nginx-set-2-north
@ A e0, e1, e2
north A SERVFAIL
DELETED Service nginx-north
north A NXDOMAIN
nginx-set-0.north A NXDOMAIN
",
    },
    Links {
        fact: "clusters_linked_later_are_added_to_the_answer",
        writes: || {
            Ok([
                linked_state()?.writes_of_link("north"),
                linked_state()?.writes_of_link("west"),
            ]
            .concat())
        },
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

/// Recordings in order; each begins with the final state of the previous one.
const RECORDINGS: [&str; 9] = [
    "02-scale-up-east",
    "03-scale-down-east",
    "04-pod-restart-west",
    "05-gateway-down-west",
    "06-gateway-up-west",
    OVERWRITTEN,
    "08-clobber-repaired-east",
    "09-unexport-north",
    LAST,
];
const OVERWRITTEN: &str = "07-clobber-annotation-east";

/// A step with writes that are not a whole recording.
struct Links {
    fact: &'static str,
    writes: fn() -> Result<Vec<Event>>,
    history: &'static str,
}

/// Returns the recording whose initial state has the mirrors of each cluster.
fn linked_state() -> Result<Recording> {
    Recording::read_mirror_writes("02-scale-up-east")
}

pub fn run(steps: &mut Steps, cluster: &Cluster) {
    let mut server = None;
    steps.prerequisite("empty_cluster_is_ready_and_has_no_names", || {
        let started = Server::ready_of_cluster(&cluster.kubeconfig, &[]);
        check_nxdomain(started.dns, NGINX)?;
        server = Some(started);
        Ok(())
    });
    let server = server.as_ref();
    let mut step = |fact: &str, check: &dyn Fn(&Server) -> Result<()>| {
        steps.prerequisite(fact, || {
            let server = server.context("there is no server")?;
            server.with_log(check(server))
        });
    };
    for links in &LINKS {
        step(links.fact, &|server| {
            let history = Expectations::read(links.history, Names::Canonical);
            write_and_observe(cluster, server, &(links.writes)()?, &history)
        });
    }
    for recording in RECORDINGS {
        step(recording, &|server| {
            replay(cluster, server, recording)?;
            match recording {
                OVERWRITTEN => check_overwritten_slice(cluster, server),
                _ => Ok(()),
            }
        });
    }
    step("endpoint_mirror_is_added_and_deleted_20_times", &|server| {
        add_and_delete_repeatedly(cluster, server)
    });
    step(
        "published_table_has_the_answered_endpoints",
        &check_published_table,
    );
}

/// Writes another object after the overwritten slice. When the server serves it, it has processed the slice too.
fn check_overwritten_slice(cluster: &Cluster, server: &Server) -> Result<()> {
    let slice = "the headless slice to hold the gateway's address";
    eventually(slice, || {
        let slices = cluster.slices("default", "nginx-east")?;
        let gateway =
            |data: &serde_json::Value| data["endpoints"][0]["addresses"][0] == "198.51.100.10";
        let is_overwritten = slices.iter().any(|slice| gateway(&slice.data));
        ensure!(is_overwritten, "no slice of nginx-east holds it");
        Ok(())
    })?;
    let history = Expectations::of_mirrors(OVERWRITTEN);
    let later = Recording::read_mirror_writes("02-scale-up-east")?.events;
    let later = later.first().context("recording 02 is empty")?;
    let observer = Observer::start(server.dns, NGINX, PAUSE)?;
    let without = Observation::from(&nginx_of(&history).answer);
    let with = with_extra_endpoint(&without);
    cluster.write(later)?;
    observer.wait_for(&with)?;
    cluster.write(&later.as_deletion())?;
    observer.wait_for(&without)?;
    observer.check_history(&[without.clone(), with, without])?;
    let mut last = history.last_answers().into_iter().chain(&history.end);
    last.try_for_each(|case| check_case(server, case))
}

fn add_and_delete_repeatedly(cluster: &Cluster, server: &Server) -> Result<()> {
    let without = answer_after_recordings();
    let with = answer_with_extra_endpoint();
    let extra = extra_endpoint_mirror()?;
    let observer = Observer::start(server.dns, NGINX, PAUSE)?;
    let mut history = vec![without.clone()];
    for _ in 0..20 {
        cluster.write(&extra)?;
        observer.wait_for(&with)?;
        cluster.write(&extra.as_deletion())?;
        observer.wait_for(&without)?;
        history.extend([with.clone(), without.clone()]);
    }
    observer.check_history(&history)
}

fn check_published_table(server: &Server) -> Result<()> {
    let endpoints = server.try_items("endpoints?namespace=default&text=default/nginx")?;
    let addresses = endpoints.iter().filter_map(|e| e["addresses"][0].as_str());
    let addresses = Answer::Data(addresses.map(str::to_owned).collect());
    ensure!(
        addresses == case_after_recordings().answer,
        "/api/v1/endpoints has {addresses:?}"
    );
    ensure!(
        endpoints.iter().all(|e| e["returned"] == true),
        "an endpoint is not returned: {endpoints:?}"
    );
    let east = endpoints
        .iter()
        .find(|e| e["object"] == "Service/default/nginx-set-0-east")
        .context("nginx has no endpoint nginx-set-0 of east")?;
    ensure!(
        east["cluster"] == "east"
            && east["hostname"] == "nginx-set-0"
            && east["ports"][0]["port"] == 80,
        "{east}"
    );
    Ok(())
}

/// Returns the state of the API server after recording 10: three endpoints each of east, west and north.
pub fn state_after_recordings() -> Result<Vec<Event>> {
    let recording = Recording::read_mirror_writes(LAST)?;
    Ok([recording.state, recording.events].concat())
}

/// Returns the expected answer of [`NGINX`] in that state.
pub fn case_after_recordings() -> Case {
    nginx_of(&Expectations::of_mirrors(LAST))
}

fn nginx_of(history: &Expectations) -> Case {
    let mut last = history.last_answers().into_iter();
    let last = last.find(|case| case.name.trim_end_matches('.') == NGINX);
    last.expect("the expectations include nginx").clone()
}

/// Returns the answer in that state.
pub fn answer_after_recordings() -> Observation {
    Observation::from(&case_after_recordings().answer)
}

/// Returns the answer in that state with [`extra_endpoint_mirror`].
pub fn answer_with_extra_endpoint() -> Observation {
    with_extra_endpoint(&answer_after_recordings())
}

fn with_extra_endpoint(answer: &Observation) -> Observation {
    answer.with(&["10.96.134.180"])
}

/// Returns an endpoint mirror that no later recording has: nginx-set-4 of east, 10.96.134.180.
pub fn extra_endpoint_mirror() -> Result<Event> {
    let events = Recording::read_mirror_writes("02-scale-up-east")?.events;
    events
        .into_iter()
        .find(|event| event.title() == "ADDED Service nginx-set-4-east")
        .context("recording 02 has changed")
}

/// Asserts a case of the table over UDP and TCP.
pub fn check_case(server: &Server, case: &Case) -> Result<()> {
    match case.ask(server.dns) {
        None => Ok(()),
        Some(difference) => Err(anyhow!(difference)),
    }
}

/// Writes the events of a recording, and waits for their answers.
pub fn replay(cluster: &Cluster, server: &Server, recording: &str) -> Result<()> {
    let writes = Recording::read_mirror_writes(recording)?.events;
    let history = Expectations::of_mirrors(recording);
    write_and_observe(cluster, server, &writes, &history)
}

/// Writes the events in order, and waits at each checkpoint for its answers. The observed names must have exactly the answers of
/// the history, in that order.
pub fn write_and_observe(
    cluster: &Cluster,
    server: &Server,
    writes: &[Event],
    history: &Expectations,
) -> Result<()> {
    let mut observers = BTreeMap::new();
    for (name, answer) in history.tracked() {
        let (observer, answer) = (
            Observer::start(server.dns, name, PAUSE)?,
            Observation::from(answer),
        );
        observer
            .wait_for(&answer)
            .context("before the first write")?;
        observers.insert(name, (observer, vec![answer]));
    }
    history
        .start
        .iter()
        .try_for_each(|case| check_case(server, case))?;
    let mut pending = history.checkpoints.iter().peekable();
    for event in writes {
        cluster.write(event)?;
        // One event has one checkpoint: the next event may have the same title.
        if let Some(checkpoint) = pending.next_if(|checkpoint| checkpoint.write == event.title()) {
            for case in &checkpoint.cases {
                if !history.is_tracked(case) {
                    check_case(server, case)?;
                    continue;
                }
                let (observer, history) = observers
                    .get_mut(&*case.name)
                    .context("the name has no observer")?;
                let expected = Observation::from(&case.answer);
                observer
                    .wait_for(&expected)
                    .with_context(|| format!("after {}", checkpoint.write))?;
                history.push(expected);
            }
        }
    }
    if let Some(checkpoint) = pending.next() {
        return Err(anyhow!("the recording has no event {}", checkpoint.write));
    }
    for (observer, history) in observers.values() {
        observer.check_history(history)?;
    }
    let mut last = history.last_answers().into_iter().chain(&history.end);
    last.try_for_each(|case| check_case(server, case))
}
