//! The order of rows in an answer: an input of whoever writes it. The set is the same whatever the order.

use std::ops::ControlFlow;

use crate::table::Origin;
use crate::zone::{RecordType, Row, View};

/// The order of rows in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Each answer starts with the next row.
    Rotate,
    /// Each answer has an order of its own.
    Shuffle,
    /// Rows of this cluster first, both parts rotated.
    LocalFirst,
    /// As in the table: by cluster and hostname.
    Stable,
}

/// The most rows that are shuffled: no message holds more (65,535 octets, 16 for each).
const SHUFFLED: usize = 4096;

/// Visits the rows of a view in order, without allocation, until `visit` breaks. `turn` differs from answer to answer.
pub fn visit_rows<'t>(
    view: &View<'t>,
    rtype: RecordType,
    order: Order,
    turn: u32,
    mut visit: impl FnMut(Row<'t>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let rows = view.rows(rtype);
    match order {
        Order::Stable => rows.into_iter().try_for_each(visit),
        Order::Rotate => rotate(rows, turn, &mut visit),
        Order::LocalFirst => {
            let is_local = |row: &Row<'_>| row.endpoint.origin == Origin::Local;
            rotate(rows.clone().filter(is_local), turn, &mut visit)?;
            rotate(rows.filter(|row| !is_local(row)), turn, &mut visit)
        }
        Order::Shuffle => shuffle(rows, turn, &mut visit),
    }
}

fn rotate<'t>(
    rows: impl Iterator<Item = Row<'t>> + Clone,
    turn: u32,
    visit: &mut impl FnMut(Row<'t>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let count = rows.clone().count();
    if count == 0 {
        return ControlFlow::Continue(());
    }
    let first = turn as usize % count;
    rows.clone()
        .skip(first)
        .chain(rows.take(first))
        .try_for_each(visit)
}

/// Shuffles (Fisher and Yates) on the stack.
fn shuffle<'t>(
    rows: impl Iterator<Item = Row<'t>> + Clone,
    turn: u32,
    visit: &mut impl FnMut(Row<'t>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let count = rows.clone().count();
    let mut drawn: [Option<Row<'t>>; SHUFFLED] = [None; SHUFFLED];
    // More rows than a message holds: a window of them that moves along.
    let first = if count > SHUFFLED {
        turn as usize % count
    } else {
        0
    };
    let window = rows.clone().skip(first).chain(rows.take(first));
    let mut filled = 0;
    for (place, row) in drawn.iter_mut().zip(window) {
        *place = Some(row);
        filled += 1;
    }
    let mut state = turn.wrapping_mul(0x9e37_79b9) | 1;
    for last in (1..filled).rev() {
        state = xorshift(state);
        drawn.swap(last, state as usize % (last + 1));
    }
    drawn.into_iter().flatten().try_for_each(visit)
}

/// Steps a generator that is good enough to spread load (Marsaglia 2003); nothing secret depends on it.
fn xorshift(mut state: u32) -> u32 {
    state ^= state << 13;
    state ^= state >> 17;
    state ^ state << 5
}
