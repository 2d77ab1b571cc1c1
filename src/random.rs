//! Random numbers that nobody can guess: for secrets and identifiers. For shuffles and pauses there is `fastrand`.

use std::io;

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

/// Returns random octets of the kernel, by the system call itself: the image has no `/dev`, and a static glibc hides
/// its `getrandom` from the libraries that look for it by name and would open `/dev/urandom` then.
///
/// # Errors
///
/// Returns the kernel's error. Linux has the call since 3.17, and fails only where a filter forbids it.
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
