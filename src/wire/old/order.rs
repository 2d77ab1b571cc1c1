//! The order of rows in an answer: an input of whoever writes it. The set is the same whatever the order.

use std::ops::ControlFlow;

use crate::table::Origin;
use crate::zone::{RecordType, Row, View};

use crate::zone::Order;
/// The most rows that are shuffled: no message holds more (65,535 octets, 16 for each).
const SHUFFLED: usize = 4096;

/// Turns a count of queries into a number without a pattern. The counts of one client's queries have a pattern: a client
/// that asks for A and AAAA in turn asks for A at even counts only, and would never get the second of two rows first.
///
/// No two counts give the same number. The constants are those of the hash function `lowbias32`.
pub(super) fn mix(count: u32) -> u32 {
    let mixed = (count ^ count >> 16).wrapping_mul(0x7feb_352d);
    let mixed = (mixed ^ mixed >> 15).wrapping_mul(0x846c_a68b);
    mixed ^ mixed >> 16
}

/// Visits the rows of a view in order, without allocation, until `visit` breaks. `turn` differs from answer to answer.
pub fn visit_rows<'t>(
    view: &View<'t>,
    rtype: RecordType,
    order: Order,
    turn: u32,
    mut visit: impl FnMut(Row<'t>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let is_local = |row: &Row<'_>| row.endpoint.origin == Origin::Local;
    match order {
        Order::Stable => view.visit_rows(rtype, &mut visit),
        Order::Rotate => rotate(view, rtype, turn, |_| true, &mut visit),
        Order::LocalFirst => {
            rotate(view, rtype, turn, is_local, &mut visit)?;
            // With one number for both, parts of the same length would start with rows of the same place.
            rotate(view, rtype, mix(turn), |row| !is_local(row), &mut visit)
        }
        Order::Shuffle => shuffle(view, rtype, turn, &mut visit),
    }
}

/// Visits those rows that are `wanted`, first the one whose turn it is.
fn rotate<'t>(
    view: &View<'t>,
    rtype: RecordType,
    turn: u32,
    wanted: impl Fn(&Row<'t>) -> bool,
    visit: &mut impl FnMut(Row<'t>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let mut count = 0;
    let _ = view.visit_rows(rtype, &mut |row| {
        count += usize::from(wanted(&row));
        ControlFlow::Continue(())
    });
    if count == 0 {
        return ControlFlow::Continue(());
    }
    let first = turn as usize % count;
    for part in [first..count, 0..first] {
        let mut index = 0;
        let _ = view.visit_rows(rtype, &mut |row| {
            if index >= part.end {
                return ControlFlow::Break(());
            }
            if wanted(&row) {
                if part.contains(&index) {
                    visit(row)?;
                }
                index += 1;
            }
            ControlFlow::Continue(())
        });
        if index < part.end {
            return ControlFlow::Break(()); // `visit` broke
        }
    }
    ControlFlow::Continue(())
}

/// Shuffles on the stack.
fn shuffle<'t>(
    view: &View<'t>,
    rtype: RecordType,
    turn: u32,
    visit: &mut impl FnMut(Row<'t>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let mut drawn: [Option<Row<'t>>; SHUFFLED] = [None; SHUFFLED];
    let mut filled = 0;
    // More rows than a message holds: a window of them that moves along.
    let _ = rotate(view, rtype, turn, |_| true, &mut |row| {
        match drawn.get_mut(filled) {
            Some(place) => *place = Some(row),
            None => return ControlFlow::Break(()),
        }
        filled += 1;
        ControlFlow::Continue(())
    });
    fastrand::Rng::with_seed(turn.into()).shuffle(&mut drawn[..filled]);
    drawn.into_iter().flatten().try_for_each(visit)
}
