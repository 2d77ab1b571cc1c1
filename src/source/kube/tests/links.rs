//! Links and Leases of a scripted API server, up to the published table (rules L1 to L3).

use super::*;
use crate::model::{ClusterName, Namespace, ProblemKind};
use crate::source::{self, UpdateSettings};
use crate::table::Publisher;
use crate::table::publish::Reader;
use crate::testing::{link, rules};

const LINKS: &str = "links";
const LEASES: &str = "leases";

/// A server that watches a scripted API server with mirrors of `prod/db` from east and west.
struct Server {
    reader: Reader,
    feeds: Feeds,
    task: JoinHandle<()>,
}

impl Server {
    fn start(api: &ScriptedServer) -> Self {
        Self::start_with(api, &["linkerd-multicluster"])
    }

    /// Starts a server with these namespaces of Links.
    fn start_with(api: &ScriptedServer, namespaces: &[&str]) -> Self {
        fastrand::seed(7);
        let namespaces: Vec<Namespace> =
            namespaces.iter().map(|one| one.parse().unwrap()).collect();
        let feeds = Feeds::new(&[]).with_links(&namespaces);
        let publisher = Publisher::default();
        let reader = publisher.reader();
        let settings = UpdateSettings {
            rules: rules(),
            is_following: true,
        };
        let client = api.client();
        let watch = async move |feeds: Feeds, updates: Updates| {
            run(client.clone(), NEVER, feeds, updates).await;
        };
        let task = tokio::spawn(source::run(watch, feeds.clone(), publisher, settings));
        Self {
            reader,
            feeds,
            task,
        }
    }

    /// Returns the state of the link of a cluster.
    fn state(&self, cluster: &str) -> Option<&'static str> {
        let now = self.reader.load();
        let links = &now.table.as_ref()?.links.clusters;
        let link = links.get(&cluster.parse::<ClusterName>().unwrap())?;
        Some((&link.state).into())
    }

    /// Returns the number of addresses of `db.prod`.
    fn answered(&self) -> usize {
        let now = self.reader.load();
        let service = now.table.as_ref().unwrap().service("prod", "db").unwrap();
        service.names.v4.len()
    }

    fn has_problem(&self, kind: ProblemKind) -> bool {
        let now = self.reader.load();
        let mut problems = now.table.as_ref().unwrap().problems();
        problems.any(|problem| problem.kind == kind)
    }

    /// Waits until a cluster has a state. Returns the time.
    async fn wait_for(&self, cluster: &str, state: &str) -> Duration {
        let start = Instant::now();
        while self.state(cluster) != Some(state) {
            assert!(start.elapsed() < HOUR, "{:?}", self.state(cluster));
            sleep(SECOND / 10).await;
        }
        start.elapsed()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn api() -> ScriptedServer {
    let api = ScriptedServer::new();
    let mirrors = ["east", "west"].map(|cluster| {
        let address = format!("10.96.0.{}", cluster.len() + usize::from(cluster == "west"));
        [
            mirror("prod", "db", cluster),
            endpoint("prod", "db", cluster, "db-0", &[&address]),
        ]
    });
    api.set_items(SERVICES, mirrors.concat());
    set_links(&api, &["east", "west"]);
    api
}

fn set_links(api: &ScriptedServer, names: &[&str]) {
    let links = names.iter().map(|name| link(name, name));
    api.set_items(LINKS, links.collect());
}

/// Sets the Leases of some links, with the time of their renewal.
fn renew(api: &ScriptedServer, names: &[&str], time: u64) {
    let lease = |name: &&str| {
        json!({
            "metadata": {
                "namespace": "linkerd-multicluster",
                "name": format!("service-mirror-write-{name}"),
            },
            "spec": {"holderIdentity": "controller", "renewTime": format!("time {time}")},
        })
    };
    api.set_items(LEASES, names.iter().map(lease).collect());
}

/// Renews Leases every two seconds.
async fn renew_for(api: &ScriptedServer, names: &[&str], duration: Duration) {
    let start = Instant::now();
    while start.elapsed() < duration {
        renew(api, names, fastrand::u64(..));
        sleep(2 * SECOND).await;
    }
}

fn delete_link(api: &ScriptedServer, name: &str, rest: &[&str]) {
    set_links(api, rest);
    api.send_event(LINKS, "DELETED", &at(link(name, name), VERSION + 5));
}

#[tokio::test(start_paused = true)]
async fn deleted_link_is_seen_at_once_and_unlinked_after_five_minutes() {
    let api = api();
    let server = Server::start(&api);
    server.wait_for("east", "linked").await;
    sleep(MINUTE).await;
    let start = Instant::now();
    delete_link(&api, "east", &["west"]);
    assert!(server.wait_for("east", "missing").await < SECOND);
    assert_eq!(server.answered(), 2);
    server.wait_for("east", "unlinked").await;
    let waited = start.elapsed();
    assert!(
        (5 * MINUTE..5 * MINUTE + 2 * SECOND).contains(&waited),
        "{waited:?}"
    );
    assert_eq!(server.answered(), 1);
    // The Link returns.
    set_links(&api, &["east", "west"]);
    api.send_event(LINKS, "ADDED", &at(link("east", "east"), VERSION + 9));
    assert!(server.wait_for("east", "linked").await < SECOND);
    assert_eq!(server.answered(), 2);
}

/// The Link may have been created again.
#[tokio::test(start_paused = true)]
async fn cluster_is_not_unlinked_while_links_are_not_heard_from() {
    let api = api();
    let server = Server::start(&api);
    server.wait_for("east", "linked").await;
    delete_link(&api, "east", &["west"]);
    server.wait_for("east", "missing").await;
    api.set_behavior(Behavior::EverythingFails);
    api.end_watches();
    sleep(20 * MINUTE).await;
    assert_eq!(
        (server.state("east"), server.answered()),
        (Some("missing"), 2)
    );
    api.set_behavior(Behavior::Normal);
    let waited = server.wait_for("east", "unlinked").await;
    assert!(waited < 20 * SECOND, "{waited:?}");
    assert_eq!(server.answered(), 1);
    // It stays so during the next outage.
    api.set_behavior(Behavior::EverythingFails);
    api.end_watches();
    sleep(20 * MINUTE).await;
    assert_eq!(server.answered(), 1);
}

/// The first table does not answer for clusters that nobody maintains, and does not wait long for that.
#[tokio::test(start_paused = true)]
async fn first_table_waits_for_links_for_five_seconds() {
    let api = api();
    api.set_behavior(Behavior::LinksWait);
    let start = Instant::now();
    let server = Server::start(&api);
    while server.reader.load().table.is_none() {
        sleep(SECOND / 10).await;
    }
    let waited = start.elapsed();
    assert!((4 * SECOND..7 * SECOND).contains(&waited), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn refusal_in_one_namespace_keeps_the_leases_of_the_others() {
    let api = api();
    api.set_behavior(Behavior::LeasesDenied("team"));
    let server = Server::start_with(&api, &["linkerd-multicluster", "team"]);
    renew_for(&api, &["east", "west"], 2 * MINUTE).await;
    assert!(server.has_problem(ProblemKind::LinksUnknown));
    assert_eq!(server.state("east"), Some("linked"));
    // Nobody renews them any more.
    assert!(server.wait_for("east", "frozen").await < 2 * MINUTE);
}

/// The table does not wait for Links, and answers as without them.
#[tokio::test(start_paused = true)]
async fn without_the_right_or_the_crd_nothing_changes() {
    for behavior in [Behavior::LinksDenied, Behavior::LinksUndefined] {
        let api = api();
        api.set_behavior(behavior);
        let server = Server::start(&api);
        while server.reader.load().table.is_none() {
            sleep(SECOND / 10).await;
        }
        sleep(HOUR).await;
        assert_eq!(server.answered(), 2);
        assert!(!server.has_problem(ProblemKind::Unlinked));
        assert!(server.feeds.age() < MINUTE, "{:?}", server.feeds.age());
        assert!(server.feeds.failures().is_empty());
        let is_denied = behavior == Behavior::LinksDenied;
        let mut problems = server.feeds.problems().into_iter();
        assert_eq!(
            problems.any(|one| one.detail.starts_with("not listed yet")),
            is_denied
        );
        assert_eq!(server.has_problem(ProblemKind::LinksUnknown), !is_denied);
        // An administrator corrects it.
        api.set_behavior(Behavior::Normal);
        assert!(server.wait_for("east", "linked").await < 2 * MINUTE);
        assert!(
            server.feeds.problems().is_empty(),
            "{:?}",
            server.feeds.problems()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn one_list_of_leases_every_ten_seconds() {
    let api = api();
    let server = Server::start(&api);
    server.wait_for("east", "linked").await;
    let start = Instant::now();
    sleep(HOUR).await;
    let requests = api.requests_since(start).into_iter();
    let leases = requests.filter(|one| one.feed == LEASES).count();
    assert!(
        (330..390).contains(&leases),
        "{leases} lists of Leases in an hour"
    );
    let requests = api.requests_since(start).into_iter();
    let links = requests.filter(|one| one.feed == LINKS).count();
    assert!(links <= 121, "{links} requests for Links in an hour");
}

/// The objects are deleted first, and then their kind.
#[tokio::test(start_paused = true)]
async fn removed_crd_makes_no_cluster_unlinked() {
    let api = api();
    renew(&api, &["east", "west"], 0);
    let server = Server::start(&api);
    server.wait_for("east", "linked").await;
    delete_link(&api, "east", &["west"]);
    delete_link(&api, "west", &[]);
    server.wait_for("west", "missing").await;
    api.set_behavior(Behavior::LinksUndefined);
    api.end_watches();
    for _ in 0..600 {
        assert_ne!(server.state("east"), Some("unlinked"));
        sleep(SECOND).await;
    }
    assert_eq!(server.state("east"), Some("unknown"));
    assert_eq!(server.answered(), 2);
}

#[tokio::test(start_paused = true)]
async fn polls_that_go_on_failing_are_a_problem() {
    let api = api();
    let server = Server::start(&api);
    renew_for(&api, &["east", "west"], MINUTE).await;
    assert!(!server.has_problem(ProblemKind::LinksUnknown));
    api.set_behavior(Behavior::LeasesFail);
    renew_for(&api, &["east", "west"], 10 * MINUTE).await;
    assert!(server.has_problem(ProblemKind::LinksUnknown));
    assert_eq!(server.state("east"), Some("linked"));
    api.set_behavior(Behavior::Normal);
    renew_for(&api, &["east", "west"], 10 * MINUTE).await;
    assert!(!server.has_problem(ProblemKind::LinksUnknown));
}

/// The states of links are decided by what is in the store.
#[tokio::test(start_paused = true)]
async fn links_are_listed_when_the_update_loop_has_them() {
    let namespace = "linkerd-multicluster".parse().unwrap();
    let feeds = Feeds::new(&[]).with_links(&[namespace]);
    let sender = Updates::default();
    let inbox = sender.inbox();
    let task = tokio::spawn(run(api().client(), NEVER, feeds.clone(), sender));
    while feeds.are_links_awaited() {
        sleep(SECOND / 100).await;
    }
    let is_of_links = |update: &Update| match update {
        Update::Reset { lists, .. } => lists.iter().any(|(feed, _)| feed.kind == Kind::Link),
        _ => false,
    };
    assert!(inbox.take().iter().any(is_of_links));
    task.abort();
}
