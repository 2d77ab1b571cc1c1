//! The descriptors that connections may need. A flood of one listener must not use the descriptors of another, in
//! particular of `/livez`.

use std::io;

use super::platform::raise_open_files;

/// Descriptors besides those of DNS connections and UDP workers. They are for three HTTP listeners with their
/// connections, closing connections of each listener, watches and files, and as many again for system libraries.
const RESERVED: usize = 384;
/// Minimum limit of open files.
const MIN_OPEN_FILES: usize = 1024;

/// Raises the limit of open files to the hard limit. `sockets` is the number of UDP sockets.
///
/// # Errors
///
/// If the limit cannot be read, or is too low for the connections.
pub fn reserve(connections: usize, sockets: usize) -> io::Result<()> {
    let limit = raise_open_files()?;
    let needed = MIN_OPEN_FILES.max(RESERVED + sockets + connections);
    if limit < needed as u64 {
        return Err(io::Error::other(format!(
            "the limit of open files is {limit}, and {needed} are needed: raise the hard limit (ulimit -Hn), or lower \
             limits.connections"
        )));
    }
    Ok(())
}
