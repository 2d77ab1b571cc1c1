//! Limits on the memory that a function allocates, usage for the current thread.

/// Runs a function, and asserts that it allocates at most this number of octets in total.
pub fn allocates_at_most<T>(octets: u64, what: &str, f: impl FnOnce() -> T) -> T {
    let (result, usage) = measure(f);
    assert!(
        usage.bytes_total <= octets,
        "{what} allocates {} octets, limit {octets}",
        usage.bytes_total
    );
    result
}

/// Runs a function, and asserts that it holds at most this number of octets at any time.
pub fn holds_at_most<T>(octets: u64, what: &str, f: impl FnOnce() -> T) -> T {
    let (result, usage) = measure(f);
    assert!(
        usage.bytes_max <= octets,
        "{what} holds {} octets, limit {octets}",
        usage.bytes_max
    );
    result
}

fn measure<T>(f: impl FnOnce() -> T) -> (T, allocation_counter::AllocationInfo) {
    let mut result = None;
    let usage = allocation_counter::measure(|| result = Some(f()));
    (result.unwrap(), usage)
}
