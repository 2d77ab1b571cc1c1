//! Similar names, for a name with a typing error.

use crate::table::Table;
use crate::zone::print::owner_names;
use crate::zone::{Name, Zones};

/// Maximum number of similar names.
pub(super) const MAX_NAMES: usize = 5;

/// Returns the names that exist and are most similar to a name that does not.
pub(super) fn nearest(zones: &Zones, table: &Table, name: &Name) -> Vec<String> {
    let Some(zone) = zones.find(name).or_else(|| zones.iter().next()) else {
        return Vec::new();
    };
    let missing = name.to_string();
    let is_srv = missing.starts_with('_');
    let names = owner_names(zone, table)
        .into_iter()
        .filter(|existing| existing.starts_with('_') == is_srv);
    let mut ranked: Vec<(usize, String)> = names
        .map(|existing| (strsim::levenshtein(&missing, &existing), existing))
        .collect();
    ranked.sort();
    ranked
        .into_iter()
        .take(MAX_NAMES)
        .map(|(_, existing)| existing)
        .collect()
}
