//! A control group with the memory limit of the chart.
//!
//! With version 1 of control groups, the kernel counts its memory for TCP apart from the rest, and both are added. With
//! version 2, the memory of the group contains it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::id;

use support::wait::wait_for;

/// The memory limit of the chart in octets.
const LIMIT: u64 = 256 << 20;

/// A control group with a memory limit. It is removed on drop.
pub struct Group {
    folder: PathBuf,
    usage: Vec<PathBuf>,
}

// === impl Group ===

impl Group {
    /// Creates a group, in version 1 or 2.
    pub fn new() -> Self {
        let root = Path::new("/sys/fs/cgroup");
        let name = format!("global-dns-chaos-{}-{}", id(), fastrand::u32(..));
        let is_second = root.join("cgroup.controllers").exists();
        let folder = if is_second {
            root.join(name)
        } else {
            root.join("memory").join(name)
        };
        fs::create_dir(&folder).unwrap();
        let write = |file: &str, text: &str| fs::write(folder.join(file), text).unwrap();
        let usage: &[&str] = if is_second {
            write("memory.max", &LIMIT.to_string());
            &["memory.current"]
        } else {
            write("memory.limit_in_bytes", &LIMIT.to_string());
            // Without a limit, the kernel does not count its memory for TCP. This one is never reached.
            write("memory.kmem.tcp.limit_in_bytes", &(4 * LIMIT).to_string());
            &["memory.usage_in_bytes", "memory.kmem.tcp.usage_in_bytes"]
        };
        let usage = usage.iter().map(|file| folder.join(file)).collect();
        Self { folder, usage }
    }

    /// Returns the file that a process enters the group with.
    pub fn entrance(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }

    /// Returns the octets in use: those of the process, and those of the kernel's TCP, if they are counted apart.
    pub fn usage(&self) -> u64 {
        let read = |file: &PathBuf| -> u64 {
            let text = fs::read_to_string(file).unwrap();
            text.trim().parse().unwrap()
        };
        self.usage.iter().map(read).sum()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let remove = || fs::remove_dir(&self.folder).ok();
        wait_for("the control group to be empty", remove);
    }
}
