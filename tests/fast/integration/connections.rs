//! TCP connections: the connection limit, slow clients, and exhausted file descriptors.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use support::commands::{command, global_dns, tool};
use support::encrypted::connect_from;
use support::objects::{Manifest, mirror, objects};
use support::query::query;
use support::server::{Server, WaitUntil};
use support::settings::add_arguments;
use support::wait::TIMEOUT;
use support::wire::{frame, read_framed};
use tempfile::TempDir;

fn sample() -> Manifest {
    objects().with(mirror("prod", "db", "east").endpoint("db-0", &["192.0.2.1"]))
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address("dns")).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

/// Sends a query over a connection. Returns `None` if the connection is closed.
fn ask(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let packet = query("db.prod.global A").0;
    stream.write_all(&frame(&packet)).ok()?;
    read_framed(stream).ok()
}

/// Waits until the server closes the connection.
pub fn wait_for_end(stream: &mut TcpStream) {
    match stream.read(&mut [0]) {
        Ok(0) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        other => panic!("the connection is still open: {other:?}"),
    }
}

#[test]
fn connection_above_the_limit_replaces_the_longest_idle_one() {
    let server = Server::with_objects(sample(), &["limits.connections=4"]);
    let (mut first, mut second) = (connect(&server), connect(&server));
    assert!(ask(&mut second).is_some());
    assert!(ask(&mut first).is_some(), "the most recently used one");
    let mut third = connect(&server);
    wait_for_end(&mut second);
    assert!(ask(&mut third).is_some());
    assert!(ask(&mut first).is_some());
    assert_eq!(server.ended_connections("replaced"), 1.0);
    assert_eq!(server.metric("global_dns_tcp_connections"), 2.0);
}

#[test]
fn client_has_at_most_half_of_the_connections() {
    let limits = ["limits.connections=8"];
    let server = Server::with_objects(sample(), &limits);
    let dns = server.address("dns");
    let from = |host: u8| {
        let stream = connect_from([127, 0, 0, host].into(), dns);
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream
    };
    let mut neighbor = from(2);
    let mut hoard: Vec<TcpStream> = (1..=40).map(|_| from(3)).collect();
    for replaced in &mut hoard[..36] {
        wait_for_end(replaced);
    }
    assert!(
        ask(&mut neighbor).is_some(),
        "the neighbor lost its connection"
    );
    assert_eq!(server.ended_connections("replaced"), 36.0);
}

/// Opens 300 connections to a listener, from four addresses, and sends nothing.
fn hoard(address: SocketAddr) -> Vec<TcpStream> {
    let from = |number: u8| connect_from([127, 0, 0, 10 + number % 4].into(), address);
    (0..75).flat_map(|_| (0..4).map(from)).collect()
}

/// The client connects, hundreds of connections follow, and then it sends its query.
#[test]
fn silent_connections_of_a_few_addresses_take_no_place_of_others() {
    let server = Server::with_objects(sample(), &[]);
    let mut kept = connect(&server);
    assert!(ask(&mut kept).is_some());
    let _before = hoard(server.address("dns"));
    for round in 0..30 {
        let mut honest = connect(&server);
        let _later = hoard(server.address("dns"));
        assert!(ask(&mut honest).is_some(), "round {round}");
    }
    assert!(ask(&mut kept).is_some(), "a connection that is kept");
}

#[test]
fn silent_connections_of_a_few_addresses_cut_no_scrape() {
    let server = Server::with_objects(sample(), &[]);
    let admin = server.address("admin");
    let _before = hoard(admin);
    for round in 0..25 {
        let mut scrape = TcpStream::connect(admin).unwrap();
        scrape.set_read_timeout(Some(TIMEOUT)).unwrap();
        let _later = hoard(admin);
        let head = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
        scrape.write_all(head).unwrap();
        let mut text = String::new();
        let read = scrape.read_to_string(&mut text);
        assert!(
            read.is_ok() && text.contains("# EOF"),
            "round {round}: {read:?}"
        );
    }
}

#[test]
fn message_that_arrives_octet_by_octet_gets_no_extra_time() {
    let server = Server::with_objects(sample(), &[]);
    let mut slow = connect(&server);
    let packet = frame(&query("db.prod.global A").0);
    let started = Instant::now();
    // At one octet per 250 ms, the whole message takes ten seconds.
    let sent = packet.iter().take_while(|octet| {
        std::thread::sleep(Duration::from_millis(250));
        slow.write_all(&[**octet]).is_ok()
    });
    let sent = sent.count();
    assert!(sent < packet.len(), "the server read the whole message");
    assert!(started.elapsed() >= Duration::from_secs(5));
    assert_eq!(server.ended_connections("slow"), 1.0);
}

#[test]
fn client_that_reads_no_replies_is_disconnected() {
    let server = Server::with_objects(sample(), &[]);
    let mut deaf = connect(&server);
    deaf.set_write_timeout(Some(TIMEOUT)).unwrap();
    let packet = frame(&query("db.prod.global A").0);
    // Sends until all buffers are full, then until the server closes the connection.
    let refused = (0..10_000_000).find_map(|_| deaf.write_all(&packet).err());
    let kind = refused.unwrap().kind();
    assert!(
        matches!(kind, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe),
        "{kind}"
    );
    assert_eq!(server.ended_connections("slow"), 1.0);
}

/// Changes the soft and hard limits of open files of a running server.
fn limit_open_files(server: &Server, limits: &str) {
    let mut command = command(tool("prlimit").unwrap());
    command.arg(format!("--nofile={limits}"));
    command.arg(format!("--pid={}", server.process().id()));
    assert!(command.status().unwrap().success());
}

/// Returns the command of a server with limits of open files, and its folder.
fn limited(limits: &str) -> (TempDir, Command) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("objects.yaml");
    std::fs::write(&file, sample().text()).unwrap();
    let mut command = command(tool("prlimit").unwrap());
    command.args([&*format!("--nofile={limits}"), "--"]);
    command.arg(global_dns(&[]).get_program());
    let arguments = [
        "serve",
        "--listen=127.0.0.1:0",
        "--admin-listen=127.0.0.1:0",
        "--api-listen=127.0.0.1:0",
        "--log-format=json",
        "limits.udpWorkers=2",
        "--file",
    ];
    add_arguments(&mut command, &arguments);
    command.arg(file);
    (folder, command)
}

#[test]
fn soft_limit_of_open_files_is_raised() {
    let (folder, command) = limited("64:2000");
    let server = Server::start_command(folder, command, WaitUntil::Ready);
    let limits = std::fs::read_to_string(server.process().proc("limits")).unwrap();
    let limits = limits
        .lines()
        .find_map(|l| l.strip_prefix("Max open files"));
    let limits: Vec<&str> = limits.unwrap().split_whitespace().collect();
    assert_eq!(limits[..2], ["2000", "2000"]);
}

#[test]
fn limit_of_open_files_below_the_need_is_refused() {
    for (limit, connections, needed) in [(1023, "256", 1024), (1400, "1015", 1401)] {
        let (_folder, mut command) = limited(&format!("64:{limit}"));
        add_arguments(
            &mut command,
            &[&format!("limits.connections={connections}")],
        );
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let error = String::from_utf8(output.stderr).unwrap();
        let expected =
            format!("the limit of open files is {limit}, and {needed} are needed: raise");
        assert!(error.contains(&expected), "{error}");
    }
}

#[test]
fn slow_http_clients_do_not_delay_other_clients() {
    let server = Server::with_objects(sample(), &[]);
    for listener in ["admin", "api"] {
        let address = server.address(listener);
        let slow = |_| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(TIMEOUT)).unwrap();
            stream.write_all(b"GET /livez HT").unwrap();
            stream
        };
        let mut hoard: Vec<TcpStream> = (0..300).map(slow).collect();
        assert_eq!(server.admin("/livez").status, 200);
        server.status();
        assert!(ask(&mut connect(&server)).is_some());
        // The other clients did not wait for the slow ones: the last slow one is still connected.
        let last = hoard.last().unwrap();
        last.set_nonblocking(true).unwrap();
        let silence = last.peek(&mut [0]).map_err(|error| error.kind());
        assert_eq!(silence, Err(ErrorKind::WouldBlock), "{listener}");
        last.set_nonblocking(false).unwrap();
        hoard.iter_mut().for_each(wait_for_end);
    }
}

#[test]
fn server_without_free_descriptors_continues_to_answer() {
    let server = Server::with_objects(sample(), &[]);
    // Fewer than the server already uses.
    limit_open_files(&server, "60:60");
    let hoard: Vec<TcpStream> = (0..120).map(|_| connect(&server)).collect();
    assert_eq!(server.outcome("db.prod.global A"), "192.0.2.1");
    let message = "Accepting a TCP connection failed";
    server.log.wait(0, message);
    // The clients close their connections. Those that wait in the kernel are served then.
    drop(hoard);
    assert!(ask(&mut connect(&server)).is_some());
    assert!(server.metric("global_dns_tcp_accept_failures_total") >= 1.0);
    // Each of the two listeners logs the failure only once.
    let events = server.log.events().into_iter();
    let failures = events.filter(|event| event["fields"]["message"] == message);
    assert!(failures.count() <= 2);
}
