//! Unpredictable random numbers for secrets and identifiers. Shuffles and pauses use `fastrand`.

use std::io;

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

/// Returns random octets from the kernel by a system call. Libraries look up `getrandom` of glibc by name and do not
/// find it in a static binary. They then open `/dev/urandom`, but the image has no `/dev`.
///
/// # Errors
///
/// Returns the error of the kernel. Linux has the call since 3.17. It fails only if a filter forbids it.
pub(crate) fn octets<const LENGTH: usize>() -> io::Result<[u8; LENGTH]> {
    let mut octets = [0; LENGTH];
    let mut filled = 0;
    while filled < LENGTH {
        match getrandom(&mut octets[filled..], GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(octets)
}
