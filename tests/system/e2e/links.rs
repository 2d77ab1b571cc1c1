//! Links and Leases on a real API server: a Link is deleted, a mirror controller stops, and a tenant has Links of his own.

use std::cell::Cell;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use support::cluster::Cluster;
use support::objects::{self, link_definition, mirror, namespace};
use support::observer::{Observation, Observer};
use support::output::print_line;
use support::server::Server;
use support::steps::Steps;
use support::wait::eventually;

use crate::e2e::linked_clusters::PAUSE;

const NAMESPACE: &str = "links";
/// No other scenario has a service of this name, whose short name would be ambiguous.
const SERVICE: &str = "linked";
const NAME: &str = "linked.links.global";
const EAST: &[&str] = &["10.96.71.1"];
const WEST: &[&str] = &["10.96.72.1"];
/// The namespace of the Links.
const LINKS: &str = "linkerd-multicluster";
/// `links.unlinkedAfter` of the server.
const UNLINKED_AFTER: Duration = Duration::from_secs(5);

pub fn run(steps: &mut Steps, cluster: &Cluster) {
    steps.forget_failed_prerequisite();
    let mut server = None;
    let controllers = Controllers {
        cluster,
        working: Cell::new(&["east", "west"]),
        renewals: Cell::new(0),
    };
    steps.prerequisite("links_and_leases_are_read", || {
        cluster.put(&link_definition())?;
        write_objects(cluster)?;
        let started = start(cluster, LINKS);
        started.with_log(controllers.wait_for_state(&started, "linked", 2))?;
        let lease = cluster
            .get(&lease(LINKS, "east", ""))?
            .context("no Lease")?;
        let octets = serde_json::to_string(&lease)?.len();
        print_line(&format!(
            "a Lease in the list of every ten seconds has {octets} octets"
        ));
        server = Some(started);
        Ok(())
    });
    steps.prerequisite("deleted_link_takes_its_cluster_out_of_the_name", || {
        let server = server.as_ref().context("there is no server")?;
        server.with_log(check_deleted_link(&controllers, server))
    });
    steps.prerequisite("controller_that_stops_is_frozen", || {
        let server = server.as_ref().context("there is no server")?;
        server.with_log(check_frozen(&controllers, server))
    });
    steps.prerequisite("links_of_a_tenant_change_nothing", || {
        check_links_of_a_tenant(&controllers)
    });
    // Later scenarios have mirrors of clusters without a Link.
    steps.step("links_are_not_defined_any_more", || {
        cluster.delete(&link_definition())
    });
}

fn start(cluster: &Cluster, links: &str) -> Server {
    let flags = [
        "links.unlinkedAfter=5s",
        &format!("links.namespaces=[{links}]"),
    ];
    Server::ready_of_cluster(&cluster.kubeconfig, &flags)
}

fn write_objects(cluster: &Cluster) -> Result<()> {
    for name in [NAMESPACE, LINKS, "tenant", "nothing"] {
        cluster.put(&namespace(name))?;
    }
    let east = mirror(NAMESPACE, SERVICE, "east").endpoint("linked-0", EAST);
    let west = mirror(NAMESPACE, SERVICE, "west").endpoint("linked-0", WEST);
    for object in [east.writes(), west.writes()].concat() {
        cluster.put(&object)?;
    }
    eventually("the definition of Links", || {
        cluster.put(&link("east"))?;
        cluster.put(&link("west"))
    })
}

fn link(cluster: &str) -> Value {
    objects::link(LINKS, cluster, cluster)
}

fn check_deleted_link(controllers: &Controllers<'_>, server: &Server) -> Result<()> {
    let cluster = controllers.cluster;
    let both = Observation::addresses(&[EAST, WEST]);
    let west = Observation::addresses(&[WEST]);
    let observer = Observer::start(server.dns, NAME, PAUSE)?;
    observer.wait_for(&both)?;
    let deleted = Instant::now();
    cluster.delete(&link("east"))?;
    let text = controllers.wait_for_problem(server, "unlinked")?;
    let seen = deleted.elapsed();
    ensure!(text.contains("its endpoints count for"), "{text}");
    let answered = observer.wait_for(&west)?;
    let waited = answered - deleted;
    print_line(&format!(
        "deleted Link: first view after {seen:.2?}, changed answer after {waited:.2?}, of which {UNLINKED_AFTER:.0?} are \
         links.unlinkedAfter"
    ));
    ensure!(waited >= UNLINKED_AFTER, "the cluster left too early");
    let created = Instant::now();
    cluster.put(&link("east"))?;
    let answered = observer.wait_for(&both)?;
    print_line(&format!(
        "Link created again: answer after {:.2?}",
        answered - created
    ));
    observer.check_history(&[both.clone(), west, both])
}

fn check_frozen(controllers: &Controllers<'_>, server: &Server) -> Result<()> {
    let observer = Observer::start(server.dns, NAME, PAUSE)?;
    let both = Observation::addresses(&[EAST, WEST]);
    observer.wait_for(&both)?;
    controllers.working.set(&["east"]);
    let stopped = Instant::now();
    let text = controllers.wait_for_problem(server, "frozen")?;
    print_line(&format!(
        "stopped controller: first view after {:.1?}",
        stopped.elapsed()
    ));
    let lease = format!("Lease {LINKS}/service-mirror-write-west is not renewed");
    ensure!(text.contains(&lease), "{text}");
    controllers.working.set(&["east", "west"]);
    controllers.wait_for_state(server, "linked", 2)?;
    observer.check_history(&[both])
}

/// Somebody with rights in one namespace creates a Link and a Lease there. Nobody else's cluster may become unlinked.
fn check_links_of_a_tenant(controllers: &Controllers<'_>) -> Result<()> {
    let cluster = controllers.cluster;
    cluster.put(&objects::link("tenant", "north", "north"))?;
    cluster.put(&lease("tenant", "north", "2026-11-24T00:00:00.000000Z"))?;
    let server = start(cluster, "nothing");
    let check = || {
        controllers.wait_for_state(&server, "unknown", 2)?;
        let observer = Observer::start(server.dns, NAME, PAUSE)?;
        let both = Observation::addresses(&[EAST, WEST]);
        sleep(2 * UNLINKED_AFTER);
        observer.check_history(&[both])?;
        let problems = json!(server.try_items("problems")?).to_string();
        ensure!(problems.contains("State of links is unknown"), "{problems}");
        Ok(())
    };
    server.with_log(check())
}

fn lease(namespace: &str, link: &str, time: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"namespace": namespace, "name": format!("service-mirror-write-{link}")},
        "spec": {"holderIdentity": "controller", "leaseDurationSeconds": 30, "renewTime": time},
    })
}

/// The mirror controllers, which renew their Leases while the test waits.
struct Controllers<'c> {
    cluster: &'c Cluster,
    /// The links whose controller works.
    working: Cell<&'static [&'static str]>,
    renewals: Cell<u32>,
}

impl Controllers<'_> {
    /// Renews each Lease, as its controller does every two seconds.
    fn renew(&self) -> Result<()> {
        let number = self.renewals.get();
        self.renewals.set(number + 1);
        let time = format!("2026-11-24T00:00:00.{number:06}Z");
        let renew = |name: &&str| {
            let lease = lease(LINKS, name, &time);
            if number == 0 {
                return self.cluster.put(&lease);
            }
            let renewal = json!({"spec": lease["spec"]});
            self.cluster.patch(&lease, &renewal)
        };
        self.working.get().iter().try_for_each(renew)
    }

    /// Waits until at least this number of clusters has a state. Other scenarios have left mirrors.
    fn wait_for_state(&self, server: &Server, state: &str, count: usize) -> Result<()> {
        let metric = format!("global_dns_clusters{{state=\"{state}\"}}");
        eventually(&format!("{count} clusters are {state}"), || {
            self.renew()?;
            let found = server.try_metric(&metric)?;
            ensure!(found >= count as f64, "{found} clusters are {state}");
            Ok(())
        })
    }

    /// Waits until an explanation of the name has a problem of a kind. Returns its detail.
    fn wait_for_problem(&self, server: &Server, kind: &str) -> Result<String> {
        eventually(&format!("problem {kind}"), || {
            self.renew()?;
            let items = server.try_items(&format!("explain?name={NAME}"))?;
            let mut problems = items.iter().filter(|item| item["section"] == "problems");
            let problem = problems.find(|problem| problem["kind"] == kind);
            let detail = problem.with_context(|| format!("{items:?}"))?["detail"].as_str();
            detail.map(str::to_owned).context("detail")
        })
    }
}
