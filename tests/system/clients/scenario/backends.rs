//! HTTP servers in the pods of `west` and `north`. Each response names its pod, in the format of Prometheus metrics.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, Weak};
use std::thread;

use anyhow::Result;
use support::multicluster::Clusters;
use support::multicluster::plan::{CLUSTERS, Member, NORTH, WEST};

/// Connections: the cluster and the address of the pod, and the stream. The thread that serves a stream owns it, so that
/// its descriptor is closed with the connection.
type Connections = Arc<Mutex<Vec<(usize, IpAddr, Weak<TcpStream>)>>>;

/// One listener for each cluster and port. It serves all pods, because every pod address is local there.
pub struct Backends {
    connections: Connections,
}

// === impl Backends ===

impl Backends {
    /// Starts the servers at these ports.
    pub fn start(clusters: &Clusters, ports: &[(&str, u16)]) -> Result<Self> {
        let connections = Connections::default();
        for (cluster, (_, port)) in [WEST, NORTH].into_iter().flat_map(|cluster| {
            let ports = ports.iter();
            ports.map(move |port| (cluster, port))
        }) {
            let bind = || TcpListener::bind(("0.0.0.0", *port));
            let listener = clusters.network(cluster).enter(bind)??;
            let connections = Arc::clone(&connections);
            // It ends with the process of the tests.
            thread::spawn(move || accept(&listener, cluster, &connections));
        }
        Ok(Self { connections })
    }

    /// Closes all connections of a pod, as a restart of the pod does.
    pub fn restart(&self, member: Member) -> Result<()> {
        let address: IpAddr = member.pod_address().parse()?;
        let mut connections = self.connections.lock().unwrap();
        connections.retain(|(cluster, local, stream)| {
            let is_kept = (*cluster, *local) != (member.cluster, address);
            if let Some(stream) = stream.upgrade().filter(|_| !is_kept) {
                // Fails if the peer has closed the connection.
                let _ = stream.shutdown(Shutdown::Both);
            }
            is_kept
        });
        Ok(())
    }
}

fn accept(listener: &TcpListener, cluster: usize, connections: &Connections) {
    for stream in listener.incoming().flatten() {
        let Ok(local) = stream.local_addr() else {
            continue;
        };
        let stream = Arc::new(stream);
        let mut connections = connections.lock().unwrap();
        connections.retain(|(.., stream)| stream.strong_count() > 0);
        connections.push((cluster, local.ip(), Arc::downgrade(&stream)));
        // An error ends the connection.
        thread::spawn(move || serve(&stream, cluster, local.ip()).ok());
    }
}

/// Answers every request of a connection with the name of the pod.
fn serve(stream: &TcpStream, cluster: usize, address: IpAddr) -> Result<()> {
    let body = format!(
        "backend{{cluster=\"{}\",pod=\"{address}\"}} 1\n",
        CLUSTERS[cluster].name
    );
    let mut requests = BufReader::new(stream);
    let mut line = String::new();
    while requests.read_line(&mut line)? > 0 {
        if line.trim_end().is_empty() {
            let length = body.len();
            write!(
                requests.get_mut(),
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {length}\r\n\r\n{body}"
            )?;
        }
        line.clear();
    }
    Ok(())
}
