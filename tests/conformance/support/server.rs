//! The binary as a child process, and questions put to it over UDP and over TCP.

use std::collections::BTreeMap;
use std::env;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::question::{Packet, query};
use super::reply::decode;

/// What every server here serves, unless it says otherwise.
const SAMPLE: &str = include_str!("../sample.yaml");
/// How long any single event may take before a test gives up: long, because machines are busy.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// How a question travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    Udp,
    Tcp,
}

/// `global-dns serve`, running; killed when dropped.
pub struct Server {
    child: Child,
    pub dns: SocketAddr,
    admin: SocketAddr,
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
    let deadline = Instant::now() + PATIENCE;
    while !server.is_ready() {
        assert!(Instant::now() < deadline, "the server does not get ready");
        thread::yield_now();
    }
    server
}

/// Serves a cluster whose API server never answers, so that there is no table.
pub fn serve_nothing_yet(api_server: SocketAddr) -> Server {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("kubeconfig");
    let kubeconfig = format!(
        "{{apiVersion: v1, kind: Config, current-context: c, users: [{{name: u, user: {{}}}}], \
         contexts: [{{name: c, context: {{cluster: k, user: u}}}}], \
         clusters: [{{name: k, cluster: {{server: 'http://{api_server}'}}}}]}}"
    );
    std::fs::write(&file, kubeconfig).unwrap();
    let flags = ["--kubeconfig", file.to_str().unwrap()];
    Server::start(folder, &flags)
}

// === impl Server ===

impl Server {
    /// Starts the binary, and waits until it listens.
    fn start(folder: TempDir, flags: &[&str]) -> Self {
        const FLAGS: &str = "serve --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 \
            --api-listen 127.0.0.1:0 --ns-address 192.0.2.53,2001:db8::53 --log-format json";
        let mut command = Command::new(env!("CARGO_BIN_EXE_global-dns"));
        command.args(FLAGS.split_whitespace()).args(flags);
        for (name, _) in env::vars_os() {
            if name.to_string_lossy().starts_with("GLOBAL_DNS_") {
                command.env_remove(name);
            }
        }
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut listeners = BTreeMap::new();
        let mut text = String::new();
        while listeners.len() < 3 {
            let start = text.len();
            let length = log.read_line(&mut text).unwrap();
            assert!(length > 0, "the server ended:\n{text}");
            let Ok(line) = serde_json::from_str::<Value>(&text[start..]) else {
                continue;
            };
            let fields = &line["fields"];
            if fields["message"] == "Listening" {
                let address = fields["address"].as_str().unwrap().parse().unwrap();
                listeners.insert(fields["listener"].as_str().unwrap().to_owned(), address);
            }
        }
        thread::spawn(move || io::copy(&mut log, &mut io::sink()));
        Self {
            child,
            dns: listeners["dns"],
            admin: listeners["admin"],
            _folder: folder,
        }
    }

    fn is_ready(&self) -> bool {
        let mut stream = TcpStream::connect(self.admin).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = "GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).unwrap();
        page.starts_with("HTTP/1.1 200")
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
        match over {
            Over::Udp => {
                let socket = self.socket();
                socket.send(&packet.0).unwrap();
                Some(receive_datagram(&socket))
            }
            Over::Tcp => {
                let mut stream = self.connect();
                stream.write_all(&frame(packet)).unwrap();
                receive(&mut stream)
            }
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
                Some(receive_datagram(&socket))
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

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// === Messages ===

/// Reads a datagram.
pub fn receive_datagram(socket: &UdpSocket) -> Vec<u8> {
    let mut reply = vec![0; 65_535];
    let length = socket.recv(&mut reply).expect("a reply over UDP");
    reply.truncate(length);
    reply
}

/// A message behind its length (RFC 1035 section 4.2.2).
pub fn frame(packet: &Packet) -> Vec<u8> {
    let length = u16::try_from(packet.0.len()).unwrap();
    [&length.to_be_bytes(), &packet.0[..]].concat()
}

/// Reads a message; `None` at the end of the stream.
pub fn receive(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut length = [0; 2];
    match stream.read_exact(&mut length) {
        Ok(()) => {}
        Err(error) if is_end(&error) => return None,
        Err(error) => panic!("reading a reply: {error}"),
    }
    let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut message).unwrap();
    Some(message)
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
        items.push(json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": name, "namespace": "prod", "labels": {"mirror.linkerd.io/exported": "true"}},
            "spec": {"clusterIP": "None", "ports": [{"name": "sql", "port": 26257}]},
        }));
        let endpoint = |n: usize| {
            let address = format!("10.96.{}.{}", n / 250, n % 250);
            json!({"addresses": [address], "hostname": format!("h-{n}"), "conditions": {"ready": true}})
        };
        for (slice, first) in (1..=*count).step_by(1000).enumerate() {
            let endpoints: Vec<Value> = (first..=*count).take(1000).map(endpoint).collect();
            items.push(json!({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                "metadata": {"name": format!("{name}-{slice}"), "namespace": "prod", "labels": {
                    "kubernetes.io/service-name": name, "service.kubernetes.io/headless": "",
                    "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}},
                "addressType": "IPv4",
                "ports": [{"name": "sql", "port": 26257, "protocol": "TCP"}],
                "endpoints": endpoints,
            }));
        }
    }
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}
