//! The order of rows in an answer. The set of rows does not depend on it.

use std::ops::{ControlFlow, Range};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{RecordType, Row, View};

/// The order of rows in an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AnswerOrder {
    /// Each answer starts at a random row. The others follow in the order of the table.
    #[default]
    Rotate,
    /// Rows of this cluster come first. Both parts are rotated.
    LocalFirst,
}

/// Maps a query count to a number without a pattern. The counts of one client's queries have a pattern. A client that
/// queries A and AAAA in turn has only even counts for A, and would never get the second of two rows first.
///
/// The mapping is a bijection. The constants are those of the hash function `lowbias32`.
pub fn mix(count: u32) -> u32 {
    let mixed = (count ^ count >> 16).wrapping_mul(0x7feb_352d);
    let mixed = (mixed ^ mixed >> 15).wrapping_mul(0x846c_a68b);
    mixed ^ mixed >> 16
}

/// Visits the rows of a view in order until `visit` breaks. `turn` differs from answer to answer. Without a turn, all rows are visited in the order of the table.
pub fn visit_rows<'t>(
    view: &View<'t>,
    rtype: RecordType,
    order: AnswerOrder,
    turn: Option<u32>,
    mut visit: impl FnMut(Row<'t>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let Some(turn) = turn else {
        return view.visit_rows(rtype, &mut visit);
    };
    let is_local = |row: &Row<'_>| row.endpoint.is_local();
    match order {
        AnswerOrder::Rotate => rotate(view, rtype, turn, |_| true, &mut visit),
        AnswerOrder::LocalFirst => {
            rotate(view, rtype, turn, is_local, &mut visit)?;
            // With the same number, two parts of equal length would always start at the same index.
            rotate(view, rtype, mix(turn), |row| !is_local(row), &mut visit)
        }
    }
}

/// Visits the rows that are `wanted`. `turn` selects the first one.
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
    let mut parts = [first..count, 0..first].into_iter();
    parts.try_for_each(|part| visit_part(view, rtype, part, &wanted, visit))
}

/// Visits a part of the rows that are `wanted`.
fn visit_part<'t>(
    view: &View<'t>,
    rtype: RecordType,
    part: Range<usize>,
    wanted: impl Fn(&Row<'t>) -> bool,
    visit: &mut impl FnMut(Row<'t>) -> ControlFlow<()>,
) -> ControlFlow<()> {
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
        ControlFlow::Break(()) // `visit` broke
    } else {
        ControlFlow::Continue(())
    }
}
