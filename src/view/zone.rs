//! The view `zone`: the records of a zone, as lines of a zone file.

use std::ops::ControlFlow;

use super::{Column, Document, RecordReport, Section, Shown, ViewError};
use crate::model::join_texts;
use crate::zone::print::ZoneFile;
use crate::zone::{Grammar, Zone, ZoneName, Zones};

/// The low bits of a place in a zone: the number of lines before it in its part. The others are the number of the part.
const LINE_BITS: u32 = 32;

/// The comment of a zone whose server has no known address.
const UNKNOWN_SERVER: &str =
    "; the address of the name server is not known (answers.nsAddresses): ns.dns has a placeholder";

/// Adds the lines of a zone.
pub(super) fn zone(shown: &Shown<'_>, document: &mut Document) -> Result<(), ViewError> {
    let (filter, zones) = (shown.filter, &shown.server.zones);
    let zone = choose_zone(zones, filter.zone.as_deref())?;
    let file = ZoneFile::new(zones, zone, &shown.published).ok_or(ViewError::NoTable)?;
    let place = shown.offset;
    let (first, mut skipped) = (place >> LINE_BITS, place & ((1 << LINE_BITS) - 1));
    let mut section = Section::new("", [Column::text("")]);
    for (number, part) in file.parts().enumerate().skip(first) {
        let mut line = 0;
        let page = file.visit_records(part, |record| {
            if line >= skipped {
                if section.rows.len() == filter.page_size() {
                    shown.note_next((number << LINE_BITS) | line, document);
                    return ControlFlow::Break(());
                }
                let text = record.to_string();
                section.push([text.clone()], &RecordReport::of_line(&text, None));
            }
            line += 1;
            ControlFlow::Continue(())
        });
        if page.is_break() {
            break;
        }
        skipped = 0;
    }
    if place == 0 && zone.ns_addresses.is_empty() {
        section.push_text([UNKNOWN_SERVER.to_owned()]);
        section.rows.rotate_right(1);
    }
    document.sections.push(section);
    Ok(())
}

/// Chooses the zone to print: the only one with names of clusters, if none is named.
fn choose_zone<'z>(zones: &'z Zones, named: Option<&str>) -> Result<&'z Zone, ViewError> {
    let served = format!(
        "served are {}",
        join_texts(zones.iter().map(|zone| &zone.name), " ")
    );
    if let Some(text) = named {
        let name = text.parse::<ZoneName>().ok();
        let zone = zones.iter().find(|zone| Some(&zone.name) == name.as_ref());
        return zone.ok_or_else(|| ViewError::invalid("zone", text, &served));
    }
    let is_usual = |zone: &&Zone| zone.grammar == Grammar::Global || zones.0.len() == 1;
    match zones.iter().filter(is_usual).collect::<Vec<_>>().as_slice() {
        [only] => Ok(only),
        _ => Err(ViewError::Invalid(format!("name one zone; {served}"))),
    }
}
