//! Names that exist, for somebody who mistyped one.

use crate::table::Table;
use crate::zone::print::owner_names;
use crate::zone::{Name, Zones};

/// How many names are shown.
pub(super) const NEAREST: usize = 5;

/// Finds names that exist and are like one that does not.
pub(super) fn nearest(zones: &Zones, table: &Table, name: &Name) -> Vec<String> {
    let Some(zone) = zones.of(name).or_else(|| zones.iter().next()) else {
        return Vec::new();
    };
    let asked = name.to_string();
    let is_srv = asked.starts_with('_');
    let names = owner_names(zone, table)
        .into_iter()
        .filter(|known| known.starts_with('_') == is_srv);
    let mut ranked: Vec<(usize, String)> = names
        .map(|known| (strsim::levenshtein(&asked, &known), known))
        .collect();
    ranked.sort();
    ranked
        .into_iter()
        .take(NEAREST)
        .map(|(_, known)| known)
        .collect()
}
