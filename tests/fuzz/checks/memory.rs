//! How much memory something takes while it is done, counted on this thread alone.

/// Does something that may allocate so many octets in all, and no more.
pub fn allocates_at_most<T>(octets: u64, what: &str, f: impl FnOnce() -> T) -> T {
    let (result, counted) = measured(f);
    assert!(
        counted.bytes_total <= octets,
        "{what} allocates {} octets of {octets}",
        counted.bytes_total
    );
    result
}

/// Does something that may hold so many octets at a time, and no more.
pub fn holds_at_most<T>(octets: u64, what: &str, f: impl FnOnce() -> T) -> T {
    let (result, counted) = measured(f);
    assert!(
        counted.bytes_max <= octets,
        "{what} holds {} octets of {octets}",
        counted.bytes_max
    );
    result
}

fn measured<T>(f: impl FnOnce() -> T) -> (T, allocation_counter::AllocationInfo) {
    let mut result = None;
    let counted = allocation_counter::measure(|| result = Some(f()));
    (result.unwrap(), counted)
}
