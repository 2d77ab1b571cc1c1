//! Answers do not depend on the log: full disk, closed or stalled reader, closed outputs.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Write as _, pipe};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use support::certificates::issue_valid;
use support::commands::global_dns;
use support::encrypted::serve;
use support::http::{get, metric};
use support::objects::{Manifest, local, mirror, objects};
use support::ports::free_port;
use support::process::{Log, Process, run_global_dns};
use support::query::query;
use support::server::Server;
use support::standin::{Behavior, StandIn};
use support::wait::{TIMEOUT, wait_for};
use support::wire::{Transport, exchange, frame};

const NAME: &str = "db.prod.global A";

fn sample(host: u8) -> Manifest {
    let address = format!("192.0.2.{host}");
    objects().with(mirror("prod", "db", "east").endpoint("db-0", &[&address]))
}

/// Starts a server with outputs that `prepare` changes, causes log messages, and checks that it still answers. A server
/// that waits for its log would stop answering.
fn check(prepare: impl FnOnce(Command) -> Command) -> Process {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("objects.yaml");
    std::fs::write(&file, sample(1).text()).unwrap();
    let [dns, admin, api] =
        std::array::from_fn(|_| SocketAddr::from(([127, 0, 0, 1], free_port())));
    let mut command = global_dns(&["serve", "--log-level=trace", "--file"]);
    command.arg(&file).args([
        format!("--listen={dns}"),
        format!("--admin-listen={admin}"),
        format!("--api-listen={api}"),
    ]);
    let mut process = Process::start_without_log("global-dns", prepare(command)).unwrap();
    let packet = query(NAME).0;
    let ask = |over| exchange(dns, &packet, over, TIMEOUT);
    wait_for("an answer", || {
        ask(Transport::Tcp).ok().filter(|reply| reply[7] == 1)
    });
    for round in 0..200 {
        assert_eq!(ask(Transport::Udp).unwrap()[7], 1, "one answer");
        if round % 10 == 0 {
            assert_eq!(ask(Transport::Tcp).unwrap()[7], 1, "one answer");
            // Breaks a connection, which is logged at this level.
            let mut stream = std::net::TcpStream::connect(dns).unwrap();
            socket2::SockRef::from(&stream)
                .set_linger(Some(Duration::ZERO))
                .unwrap();
            stream.write_all(&frame(&packet)[..5]).unwrap();
        }
    }
    // A change of the file is logged and changes the answer.
    std::fs::write(&file, sample(2).text()).unwrap();
    wait_for("the changed address", || {
        ask(Transport::Udp)
            .ok()
            .filter(|reply| reply.ends_with(&[2]))
    });
    assert_eq!(get(admin, "/livez").unwrap().status, 200);
    let page = get(admin, "/metrics").unwrap().body;
    for proto in ["udp", "tcp"] {
        let name = format!("global_dns_worker_panics_total{{proto=\"{proto}\"}}");
        assert_eq!(metric(&page, &name), Some("0"));
    }
    process.check().unwrap();
    process
}

#[test]
fn full_disk_for_the_log_does_not_stop_answers() {
    check(|mut command| {
        let full = || File::options().write(true).open("/dev/full").unwrap();
        command.stdout(full()).stderr(full());
        command
    });
}

#[test]
fn closed_log_reader_does_not_stop_answers() {
    check(|mut command| {
        let gone = || pipe().unwrap().1;
        command.stdout(gone()).stderr(gone());
        command
    });
}

#[test]
fn stalled_log_reader_does_not_stop_answers_or_shutdown() {
    // The pipe stays open but is never read.
    let (_reader, writer) = pipe().unwrap();
    let mut filling = writer.try_clone().unwrap();
    let filled = Arc::new(AtomicUsize::new(0));
    let so_far = filled.clone();
    // Ends with the reader.
    std::thread::spawn(move || {
        while filling.write_all(&[b'\n'; 4096]).is_ok() {
            so_far.fetch_add(4096, SeqCst);
        }
    });
    wait_for("a full pipe", || {
        (filled.load(SeqCst) >= 4096).then_some(())
    });
    let mut process = check(|mut command| {
        command.stdout(Stdio::null()).stderr(writer);
        command
    });
    // It does not prevent the shutdown, either.
    process.signal("TERM").unwrap();
    assert_eq!(process.end().unwrap().code(), Some(0));
}

#[test]
fn queries_and_client_addresses_are_not_logged_at_any_level() {
    const SECRET: &str = "must-not-be-logged";
    let issued = issue_valid();
    let mut server = serve(sample(1), &issued, &["--log-level=trace", "grace=100ms"]);
    let tls = server.address("tls");
    let packet = |name: &str, rtype: &str| query(&format!("{name} {rtype}")).0;
    let mut malformed = packet(&format!("{SECRET}.global"), "A");
    malformed.push(0);
    for packet in [
        packet(&format!("{SECRET}.db.prod.global"), "A"),
        packet(&format!("{SECRET}.example"), "SRV"),
        malformed,
    ] {
        // Uses a source address that occurs nowhere else.
        let socket = UdpSocket::bind("127.0.0.77:0").unwrap();
        socket.connect(server.dns).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        socket.send(&packet).unwrap();
        socket.recv(&mut [0; 512]).unwrap();
        exchange(server.dns, &packet, Transport::Tcp, TIMEOUT).unwrap();
        issued.ask_tls(tls, &packet).unwrap();
    }
    server.signal("TERM");
    server.log.wait(0, "Stopped");
    assert_eq!(server.exit_code(), Some(0));
    for line in server.log.lines() {
        let lower = line.to_lowercase();
        assert!(
            !lower.contains(SECRET) && !lower.contains("127.0.0.77"),
            "{line}"
        );
    }
}

/// Linkerd copies annotations from other clusters. They must neither forge a line of the log nor reach a terminal as they
/// are.
#[test]
fn annotations_forge_no_lines() {
    const FORGED: &str = "x\n2026 INFO forged\u{1b}[2J\r\u{2028}\u{2029}\u{202e}\u{200f}";
    let named = |cluster: &str| mirror("prod", "db", cluster).endpoint("db-0", &["192.0.2.1"]);
    let mut unusable = named("north").service();
    unusable["metadata"]["annotations"]["mirror.linkerd.io/remote-svc-fq-name"] = FORGED.into();
    let manifest = objects()
        .with(named("east").annotation("global-dns/ttl", FORGED))
        .with(named("west").annotation("global-dns/failover", FORGED))
        .with(local("prod", "db").annotation("global-dns/expected-clusters", FORGED))
        .with(unusable);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("objects.yaml");
    std::fs::write(&file, manifest.text()).unwrap();
    let is_mark = |c: char| matches!(c, '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}');
    let is_safe = |c: char| c == '\n' || !(c.is_control() || is_mark(c));
    let check = |what: &str, text: &str| {
        let lines = text.lines().filter(|line| line.contains("forged"));
        assert!(lines.clone().count() > 0, "{what}: {text}");
        assert!(
            lines.clone().all(|line| !line.starts_with("2026 ")),
            "{what}: {text}"
        );
        assert!(text.chars().all(is_safe), "{what}: {text:?}");
    };

    let mut serve = global_dns(&["serve", "--log-format=text", "--cluster-name=hub"]);
    serve.arg("--file").arg(&file);
    serve.args(
        ["--listen", "--admin-listen", "--api-listen"].map(|flag| format!("{flag}=127.0.0.1:0")),
    );
    let mut server = Process::start("global-dns", serve).unwrap();
    let published = |log: &Log| log.text().contains("Published table").then_some(());
    server.wait_for("the first table", published).unwrap();
    let log = server.log().text();
    check("log", &log);
    for part in [
        "problem=",
        "annotation global-dns/ttl: ignored: it is not a number of seconds, such as 5: x\\n2026",
        "annotation global-dns/expected-clusters: ",
    ] {
        assert!(log.contains(part), "{part}: {log}");
    }

    let file = format!("--file={}", file.display());
    for arguments in [
        &["check", "--cluster-name=hub"][..],
        &["check", "--cluster-name=hub", "--output=json"],
        &["explain", "db.prod.global"],
        &["explain", "db.prod.global", "--output=json"],
    ] {
        let ended = run_global_dns(&[arguments, &[&file]].concat());
        check(&format!("{arguments:?}"), &ended.stdout);
        assert!(
            ended.stderr.chars().all(is_safe),
            "{arguments:?}: {:?}",
            ended.stderr
        );
    }
}

#[test]
fn end_of_an_outage_of_the_api_server_is_one_line() {
    const OVER: &str = "Problem is over: Source of objects is not available";
    let standin = StandIn::start(Behavior::Normal, &sample(1).0).unwrap();
    let server = Server::ready_of_cluster(&standin.kubeconfig, &[]);
    standin.set_behavior(Behavior::InternalErrors);
    wait_for("the failure of both watches", || {
        let problems = server.log.problems(0).into_iter();
        let unavailable = problems.filter(|[_, kind, _]| kind == "source-unavailable");
        let feeds = BTreeSet::from_iter(unavailable.map(|[subject, ..]| subject));
        (feeds.len() == 2).then_some(())
    });
    assert_eq!(server.log.count(OVER), 0);
    standin.set_behavior(Behavior::Normal);
    let fields = server.log.wait(0, OVER);
    assert_eq!(fields["problem"], "source-unavailable");
    assert!(fields["seconds"].is_u64(), "{fields}");
    let page = server.admin("/readyz");
    assert_eq!((page.status, page.body.as_str()), (200, "ok\n"));
    assert_eq!(server.log.count(OVER), 1);
}
