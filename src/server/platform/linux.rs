//! Calls of Linux.

mod address;
mod process;
mod udp;

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::getsockopt;
use nix::{getsockopt_impl, libc, sockopt_impl};
use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ipv6_mtu_discover,
};
use rustix::process::setpriority_process;
use rustix::system::uname;
use tracing::warn;

pub(in crate::server) use address::request_local_addresses;
pub(crate) use process::process_usage;
pub(in crate::server) use udp::exchange;

/// Index of the memory of unsent octets (`SK_MEMINFO_WMEM_QUEUED`).
const WRITE_MEMORY: usize = 5;

sockopt_impl!(
    /// The memory of a socket in the kernel (`linux/sock_diag.h`).
    KernelMemory,
    GetOnly,
    libc::SOL_SOCKET,
    libc::SO_MEMINFO,
    [u32; 9]
);

/// Returns whether the kernel has octets that the client has not received. Some sandboxed kernels do not tell.
pub(in crate::server) fn has_unsent(stream: &impl AsFd) -> bool {
    getsockopt(stream, KernelMemory).unwrap_or_default()[WRITE_MEMORY] > 0
}

/// Returns whether the system is out of descriptors or memory. It may have some again soon.
pub(in crate::server) fn is_exhaustion(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error().map(Errno::from_raw),
        Some(Errno::EMFILE | Errno::ENFILE | Errno::ENOBUFS | Errno::ENOMEM)
    )
}

/// Ignores the path MTU. Only the MTU of the interface limits a datagram, and DF is clear (RFC 9715 section 3.1).
/// Anybody can forge the ICMP message that lowers the path MTU. Replies would then be fragmented for ten minutes, and
/// fragments can be forged, too. Some sandboxed kernels do not have the option.
///
/// # Errors
///
/// If the system call fails. The server works without it.
pub(in crate::server) fn ignore_path_mtu(
    socket: &impl AsFd,
    address: SocketAddr,
) -> io::Result<()> {
    match address {
        SocketAddr::V4(_) => set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::OMIT)?,
        SocketAddr::V6(_) => set_ipv6_mtu_discover(socket, Ipv6PathMtuDiscovery::OMIT)?,
    }
    Ok(())
}

/// Raises the limit of open files to the hard limit, and returns it.
///
/// # Errors
///
/// If the limit cannot be read.
pub(in crate::server) fn raise_open_files() -> io::Result<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    Ok(match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => hard,
        Err(error) => {
            warn!(%error, soft, hard, "Cannot raise the limit of open files");
            soft
        }
    })
}

/// Lowers the priority of this thread, and of the threads that it starts: they get a tenth of the CPU time of a busy core.
///
/// # Errors
///
/// If the system call fails.
pub(crate) fn lower_priority() -> io::Result<()> {
    const LOW_PRIORITY: i32 = 10;
    Ok(setpriority_process(None, LOW_PRIORITY)?)
}

/// Returns the name of this host: in a cluster, that of the pod.
pub(crate) fn host_name() -> String {
    uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exhaustion_pauses() {
        let is_exhaustion = |errno: Errno| is_exhaustion(&io::Error::from(errno));
        for errno in [Errno::EMFILE, Errno::ENFILE, Errno::ENOBUFS, Errno::ENOMEM] {
            assert!(is_exhaustion(errno), "{errno}");
        }
        for errno in [Errno::ECONNABORTED, Errno::EPROTO, Errno::EPERM] {
            assert!(!is_exhaustion(errno), "{errno}");
        }
    }
}
