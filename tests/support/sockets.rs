//! The open sockets of a process, read from `/proc`.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::process::Process;

/// A TCP or UDP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Socket {
    /// `tcp` or `udp`.
    pub transport: &'static str,
    /// The local address.
    pub local: SocketAddr,
    /// The remote address, if the socket is connected.
    pub peer: Option<SocketAddr>,
}

// === impl Process ===

impl Process {
    /// Returns all TCP and UDP sockets of the process, of both address families.
    pub fn sockets(&self) -> BTreeSet<Socket> {
        let links = fs::read_dir(self.proc("fd")).unwrap();
        let links = links.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
        let own: BTreeSet<String> = links.map(|link| link.display().to_string()).collect();
        let mut sockets = BTreeSet::new();
        for (transport, table) in [
            ("tcp", "tcp"),
            ("tcp", "tcp6"),
            ("udp", "udp"),
            ("udp", "udp6"),
        ] {
            // The file is absent if the host lacks the address family.
            let text = fs::read_to_string(self.proc(&format!("net/{table}")));
            for line in text.unwrap_or_default().lines().skip(1) {
                let fields: Vec<&str> = line.split_whitespace().collect();
                if !own.contains(&format!("socket:[{}]", fields[9])) {
                    continue;
                }
                let [local, peer] = [fields[1], fields[2]].map(kernel_address);
                sockets.insert(Socket {
                    transport,
                    local,
                    peer: Some(peer).filter(|peer| peer.port() != 0),
                });
            }
        }
        sockets
    }
}

/// Parses an address in the kernel's format: 32-bit words in the byte order of the machine, then the port.
fn kernel_address(text: &str) -> SocketAddr {
    let (ip, port) = text.split_once(':').unwrap();
    let word = |at: usize| u32::from_str_radix(&ip[at..at + 8], 16).unwrap();
    let words: Vec<u8> = (0..ip.len())
        .step_by(8)
        .flat_map(|at| word(at).to_ne_bytes())
        .collect();
    let ip = match <[u8; 4]>::try_from(&words[..]) {
        Ok(v4) => IpAddr::from(Ipv4Addr::from(v4)),
        Err(_) => Ipv6Addr::from(<[u8; 16]>::try_from(&words[..]).unwrap()).into(),
    };
    SocketAddr::new(ip, u16::from_str_radix(port, 16).unwrap())
}
