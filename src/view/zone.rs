//! The view `zone`: the records of a zone, as lines of a zone file.

use std::ops::ControlFlow;

use super::{Column, Document, RecordReport, Section, Shown, ViewError};
use crate::model::join_texts;
use crate::zone::print::ZoneFile;
use crate::zone::{Grammar, Zone, ZoneName, Zones};

/// A place in a zone: numbers, from 0, of a part, of a name in it, and of a line of that.
struct ZonePlace {
    part: usize,
    name: usize,
    line: usize,
}

/// The bits of a place that have the numbers of the line and of the name. The others have that of the part.
const LINE_BITS: u32 = 28;
const NAME_BITS: u32 = 12;

/// The comment of a zone whose server has no known address.
const UNKNOWN_SERVER: &str =
    "; the address of the name server is not known (answers.nsAddresses): ns.dns has a placeholder";

/// Adds the lines of a zone.
pub(super) fn zone(shown: &Shown<'_>, document: &mut Document) -> Result<(), ViewError> {
    let (filter, zones) = (shown.filter, &shown.server.zones);
    let zone = choose_zone(zones, filter.zone.as_deref())?;
    let file = ZoneFile::new(zones, zone, &shown.published).ok_or(ViewError::NoTable)?;
    let mut section = Section::new("", [Column::text("")]);
    if let Some(next) = add_lines(&file, shown, &mut section) {
        shown.note_next(next.offset(), document);
    }
    if shown.offset == 0 && zone.ns_addresses.is_empty() {
        section.push_text([UNKNOWN_SERVER.to_owned()]);
        section.rows.rotate_right(1);
    }
    document.sections.push(section);
    Ok(())
}

/// Adds the lines of a page. Returns the place after them, if there are more.
fn add_lines(file: &ZoneFile<'_>, shown: &Shown<'_>, section: &mut Section) -> Option<ZonePlace> {
    let page_size = shown.filter.page_size();
    let mut from = ZonePlace::new(shown.offset);
    for (part, own) in file.parts().enumerate().skip(from.part) {
        let names = file.names(own);
        for (name, owner) in names.iter().enumerate().skip(from.name) {
            let mut line = 0;
            let page = file.visit_records(owner, |record| {
                if line >= from.line {
                    if section.rows.len() == page_size {
                        return ControlFlow::Break(());
                    }
                    let text = record.to_string();
                    section.push([text.clone()], &RecordReport::of_line(&text, None));
                }
                line += 1;
                ControlFlow::Continue(())
            });
            if page.is_break() {
                return Some(ZonePlace { part, name, line });
            }
            from.line = 0;
        }
        from.name = 0;
    }
    None
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

// === impl ZonePlace ===

impl ZonePlace {
    /// Reads the place of a page.
    fn new(offset: usize) -> Self {
        let low = |value: usize, bits: u32| value & ((1 << bits) - 1);
        Self {
            part: offset >> (NAME_BITS + LINE_BITS),
            name: low(offset >> LINE_BITS, NAME_BITS),
            line: low(offset, LINE_BITS),
        }
    }

    fn offset(&self) -> usize {
        (self.part << (NAME_BITS + LINE_BITS)) | (self.name << LINE_BITS) | self.line
    }
}
