//! Pages of lists. A list of a table continues in that table, whatever has changed since.

use super::error::ViewError;
use super::filter::Filter;

/// Maximum number of rows of a page.
pub const MAX_LIMIT: usize = 1000;
/// The number of rows of a page, unless the request says another one.
const DEFAULT_LIMIT: usize = 200;

/// The place of a page: `VERSION.OFFSET` in the parameter `continue`.
pub(super) struct PagePlace {
    /// The version of the table.
    pub version: u64,
    /// The number of rows before it.
    pub offset: usize,
}

// === impl PagePlace ===

impl PagePlace {
    /// Reads the place of the page that a filter selects. `None`: the first one.
    pub(super) fn of(filter: &Filter) -> Result<Option<Self>, ViewError> {
        let Some(text) = &filter.next else {
            return Ok(None);
        };
        let place = text.split_once('.').and_then(|(version, offset)| {
            Some(Self {
                version: version.parse().ok()?,
                offset: offset.parse().ok()?,
            })
        });
        let invalid = || ViewError::invalid("continue", text, "use the one of the last page");
        place.map(Some).ok_or_else(invalid)
    }
}

/// Returns the number of rows of a page.
pub(super) fn limit(filter: &Filter) -> usize {
    filter.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT)
}
