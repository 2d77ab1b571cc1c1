//! Connections: whose they are, and who has to go when there are too many.

use std::io::Read as _;
use std::net::{SocketAddr, TcpStream};

use hickory_proto::op::{Message, ResponseCode};
use socket2::{Domain, Socket, Type};

use super::small;
use crate::support::ask::question;
use crate::support::binary::Server;
use crate::support::encrypted::{Issued, Stream, issue_good, send, serve};
use crate::support::wait::PATIENCE;
use crate::support::wire::read_framed;

fn packet() -> Vec<u8> {
    question("db.prod.global. A").packet()
}

fn ask(stream: &mut Stream) -> Option<Message> {
    send(stream, &packet()).ok()?;
    Message::from_vec(&read_framed(stream).ok()?).ok()
}

fn connect(issued: &Issued, server: &Server, listener: &str) -> Stream {
    let protocol = if listener == "tls" { "dot" } else { "h2" };
    issued.connect(server.address(listener), protocol).unwrap()
}

#[test]
fn a_client_has_its_own_address() {
    let issued = issue_good();
    let server = serve(small(), &issued, &["--allow=127.0.0.5"]);
    for (host, wanted) in [(5, ResponseCode::NoError), (1, ResponseCode::Refused)] {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let own = SocketAddr::from(([127, 0, 0, host], 0));
        socket.bind(&own.into()).unwrap();
        socket.connect(&server.address("tls").into()).unwrap();
        let mut stream = issued.begin(TcpStream::from(socket), "dot").unwrap();
        let reply = ask(&mut stream).unwrap();
        assert_eq!(reply.metadata.response_code, wanted, "127.0.0.{host}");
    }
}

#[test]
fn one_more_than_the_limit_takes_the_place_of_the_longest_idle() {
    let issued = issue_good();
    let server = serve(small(), &issued, &["--tcp-connections=2"]);
    let mut first = connect(&issued, &server, "tls");
    let mut second = connect(&issued, &server, "https");
    // HTTP/2 begins with what the server says; it counts as a sign of life.
    second.sock.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(second.read(&mut [0; 1024]).unwrap() > 0);
    assert!(ask(&mut first).is_some(), "the one that asked last");
    let mut third = connect(&issued, &server, "tls");
    // What else it is told, and then the end.
    let _ = second.sock.read_to_end(&mut Vec::new());
    assert!(ask(&mut third).is_some());
    assert!(ask(&mut first).is_some());
    let metric = |name: &str| server.metric(name);
    let displaced = "global_dns_tcp_connections_ended_total{reason=\"displaced\"}";
    assert_eq!(metric(displaced), 1.0);
    assert_eq!(metric("global_dns_tcp_connections"), 2.0);
    // They take none from those that come without TLS.
    for _ in 0..2 {
        assert_eq!(server.outcome("db.prod.global. A"), "10.96.1.1");
        let mut plain = TcpStream::connect(server.dns).unwrap();
        let framed = crate::support::wire::frame(&packet());
        std::io::Write::write_all(&mut plain, &framed).unwrap();
        assert!(read_framed(&mut plain).is_ok());
    }
    assert!(ask(&mut first).is_some() && ask(&mut third).is_some());
}

#[test]
fn only_what_came_by_an_open_listener_is_answered() {
    let issued = issue_good();
    let server = serve(small(), &issued, &[]);
    let known = ["tls", "https"].map(|listener| server.address(listener).port());
    let others = [server.dns, server.admin, server.api].map(|address| address.port());
    let mut inner = 0;
    for port in listening_on_loopback(&server) {
        if known.contains(&port) || others.contains(&port) {
            continue;
        }
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        // The other one speaks HTTP/2.
        let Ok(mut stream) = issued.connect(address, "dot") else {
            continue;
        };
        inner += 1;
        send(&mut stream, &packet()).unwrap();
        let patience = std::time::Duration::from_millis(500);
        stream.sock.set_read_timeout(Some(patience)).unwrap();
        assert!(read_framed(&mut stream).is_err());
    }
    assert_eq!(inner, 1);
}

/// The ports of 127.0.0.1 on which a server listens, by what the kernel says of its sockets.
fn listening_on_loopback(server: &Server) -> Vec<u16> {
    let process = format!("/proc/{}", server.process());
    let links = std::fs::read_dir(format!("{process}/fd")).unwrap();
    let links = links.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
    let sockets: Vec<String> = links.map(|link| link.display().to_string()).collect();
    let table = std::fs::read_to_string(format!("{process}/net/tcp")).unwrap();
    let port = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let port = fields[1].strip_prefix("0100007F:")?;
        let own = format!("socket:[{}]", fields[9]);
        let is_ours = fields[3] == "0A" && sockets.contains(&own);
        is_ours.then(|| u16::from_str_radix(port, 16).unwrap())
    };
    table.lines().skip(1).filter_map(port).collect()
}
