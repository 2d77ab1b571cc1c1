//! The binary as a child process, and questions put to it over UDP and over TCP.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};

use serde_json::json;
use tempfile::TempDir;

use super::command::global_dns;
use super::local_objects::{LocalService, endpoint};
use super::question::{Packet, query};
use super::reply::decode;
use super::running::Running;
use super::wait::PATIENCE;
use super::wire::{self, Over, exchange, read_datagram, read_framed};

/// What every server here serves, unless it says otherwise.
pub const SAMPLE: &str = include_str!("../sample.yaml");
/// `global-dns serve`, running; killed when dropped.
pub struct Server {
    running: Running,
    pub dns: SocketAddr,
    _folder: TempDir,
}

/// Serves the sample.
pub fn sample() -> Server {
    serve(&[])
}

/// Serves the sample, with more flags.
pub fn serve(flags: &[&str]) -> Server {
    serve_objects(SAMPLE, flags)
}

/// Serves objects, and waits until they are answered.
pub fn serve_objects(yaml: &str, flags: &[&str]) -> Server {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("objects.yaml");
    std::fs::write(&file, yaml).unwrap();
    let fixed = ["--file", file.to_str().unwrap(), "--cluster-name", "hub"];
    let server = Server::start(folder, &[&fixed, flags].concat());
    server.running.wait_until_ready();
    server
}

/// Serves a cluster whose API server never answers, so that there is no table.
pub fn serve_nothing_yet(api_server: SocketAddr, flags: &[&str]) -> Server {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("kubeconfig");
    let kubeconfig = format!(
        "{{apiVersion: v1, kind: Config, current-context: c, users: [{{name: u, user: {{}}}}], \
         contexts: [{{name: c, context: {{cluster: k, user: u}}}}], \
         clusters: [{{name: k, cluster: {{server: 'http://{api_server}'}}}}]}}"
    );
    std::fs::write(&file, kubeconfig).unwrap();
    let fixed = ["--kubeconfig", file.to_str().unwrap()];
    Server::start(folder, &[&fixed, flags].concat())
}

// === impl Server ===

impl Server {
    /// Starts the binary, and waits until it listens.
    fn start(folder: TempDir, flags: &[&str]) -> Self {
        const FLAGS: &str = "serve --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 \
            --api-listen 127.0.0.1:0 --ns-address 192.0.2.53,2001:db8::53 --log-format json";
        let mut command = global_dns();
        command.args(FLAGS.split_whitespace()).args(flags);
        let running = Running::start(command);
        Self {
            dns: running.address("dns"),
            running,
            _folder: folder,
        }
    }

    /// Where a listener is: `tls`, `https`, `quic`.
    pub fn address(&self, listener: &str) -> SocketAddr {
        self.running.address(listener)
    }

    /// Connects over TCP.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.dns).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// A socket that speaks to the server.
    pub fn socket(&self) -> UdpSocket {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(self.dns).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    }

    /// Asks, and returns the reply; `None` if the connection is closed instead.
    pub fn ask(&self, packet: &Packet, over: Over) -> Option<Vec<u8>> {
        match exchange(self.dns, &packet.0, over, PATIENCE) {
            Ok(reply) => Some(reply),
            Err(error) if over == Over::Tcp && is_end(&error) => None,
            Err(error) => panic!("a reply over {over:?}: {error}"),
        }
    }

    /// Sends a message that should not be answered; returns the reply if there is one.
    ///
    /// Nobody can wait for nothing: a question is sent behind the message, and the first reply shows which was answered.
    pub fn ask_before_another(&self, packet: &Packet, over: Over) -> Option<Vec<u8>> {
        let another = query("global. SOA");
        let reply = match over {
            Over::Udp => {
                let socket = self.socket();
                socket.send(&packet.0).unwrap();
                socket.send(&another.0).unwrap();
                Some(read_datagram(&socket).expect("a reply over UDP"))
            }
            Over::Tcp => {
                let mut stream = self.connect();
                // The connection may be closed before the second message is through.
                let _ = stream.write_all(&[frame(packet), frame(&another)].concat());
                receive(&mut stream)
            }
        };
        reply.filter(|reply| reply[..2] != another.0[..2])
    }

    /// Fails unless an ordinary question is answered over both transports.
    pub fn assert_well(&self) {
        for over in [Over::Udp, Over::Tcp] {
            let reply = self.ask(&query("global. SOA"), over);
            let reply = reply.expect("a reply");
            assert_eq!(decode(&reply).answer.len(), 1);
        }
    }
}

// === Messages ===

/// A message behind its length (RFC 1035 section 4.2.2).
pub fn frame(packet: &Packet) -> Vec<u8> {
    wire::frame(&packet.0)
}

/// Reads a message; `None` at the end of the stream.
pub fn receive(stream: &mut impl io::Read) -> Option<Vec<u8>> {
    let mut length = [0; 2];
    match stream.read_exact(&mut length) {
        Ok(()) => {}
        Err(error) if is_end(&error) => return None,
        Err(error) => panic!("reading a reply: {error}"),
    }
    // It has begun, so it has an end.
    Some(read_framed(&mut length.chain(stream)).unwrap())
}

/// The other side closed the connection, politely or not.
pub fn is_end(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset
    )
}

// === Objects ===

/// A local service `prod/sN` with N endpoints for each number: hosts `h-1`, `h-2`, … at 10.96.0.1, 10.96.0.2, …, one port.
pub fn members(counts: &[usize]) -> String {
    let mut items = Vec::new();
    for count in counts {
        let name = format!("s{count}");
        let service = LocalService {
            namespace: "prod",
            name: &name,
            ports: &json!([{"name": "sql", "port": 26257, "protocol": "TCP"}]),
        };
        items.push(service.service(true, json!({})));
        let endpoint = |n: usize| {
            let address = format!("10.96.{}.{}", n / 250, n % 250);
            endpoint(&address, true, Some(&format!("h-{n}")), None)
        };
        for (slice, first) in (1..=*count).step_by(1000).enumerate() {
            let endpoints = (first..=*count).take(1000).map(endpoint).collect();
            let name = format!("{name}-{slice}");
            items.push(service.slice(&name, "IPv4", endpoints));
        }
    }
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}
