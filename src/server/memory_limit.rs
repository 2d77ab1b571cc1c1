//! The memory limit of the process: that of its control groups. A container has one if its pod has a memory limit.

use std::fs;
use std::path::Path;

/// Directory of the control groups.
const ROOT: &str = "/sys/fs/cgroup";
/// Budget of unsent octets without a memory limit. It is that of the chart's limit of 256 MiB.
pub(super) const DEFAULT_BUDGET: usize = 64 << 20;
/// Minimum budget. It is enough for a hundred of the longest replies.
pub(super) const MIN_BUDGET: usize = 8 << 20;
/// Limits from here on mean that there is none.
const UNLIMITED: u64 = 1 << 60;

/// Returns the budget of unsent octets: a quarter of the memory limit. The table, idle connections, requests and received
/// octets need the rest.
pub(super) fn budget() -> usize {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limit = limit(Path::new(ROOT), &groups).and_then(|limit| usize::try_from(limit).ok());
    limit.map_or(DEFAULT_BUDGET, |limit| MIN_BUDGET.max(limit / 4))
}

/// Returns the lowest limit of the control groups of a process and of the groups that contain them. `groups` has a line
/// for each hierarchy: `number:controllers:path`. Version 2 has no controllers there (cgroups(7)). In a container, the
/// root directory is often the group of the container, whatever the path says.
fn limit(root: &Path, groups: &str) -> Option<u64> {
    let limits = groups.lines().flat_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let (top, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes")
            }
            _ => return None,
        };
        let group = top.join(path.trim_start_matches('/'));
        let groups = group
            .ancestors()
            .take_while(|group| group.starts_with(&top));
        let read = |group: &Path| {
            fs::read_to_string(group.join(file))
                .ok()?
                .trim()
                .parse()
                .ok()
        };
        groups.filter_map(read).min()
    });
    limits.min().filter(|limit| *limit < UNLIMITED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lowest_limit_of_the_control_groups_applies() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let write = |group: &str, file: &str, text: &str| {
            fs::create_dir_all(root.join(group)).unwrap();
            fs::write(root.join(group).join(file), text).unwrap();
        };
        let version_2 = "0::/pod/container\n";
        let version_1 = "12:cpu,cpuacct:/x\n4:memory:/pod\n0::/\n";
        assert_eq!(limit(root, version_2), None);
        write("pod/container", "memory.max", "max\n");
        assert_eq!(limit(root, version_2), None);
        write("pod", "memory.max", "268435456\n");
        assert_eq!(limit(root, version_2), Some(256 << 20));
        write("", "memory.max", "134217728\n"); // the root of a namespace
        assert_eq!(limit(root, version_2), Some(128 << 20));
        assert_eq!(limit(root, "0::/../../elsewhere\n"), Some(128 << 20));
        fs::remove_file(root.join("memory.max")).unwrap();

        assert_eq!(limit(root, version_1), None);
        write("memory", "memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(limit(root, version_1), None);
        write("memory/pod", "memory.limit_in_bytes", "1048576\n");
        assert_eq!(limit(root, version_1), Some(1 << 20));
        assert_eq!(limit(root, ""), None);
    }
}
