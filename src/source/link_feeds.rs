//! The lists of Links that the states of links need (rule L2).

use std::collections::BTreeSet;

use tokio::time::Instant;

use super::{Feed, Feeds};
use crate::model::Timestamp;
use crate::table::links::LinkList;

/// Which feeds of Links are listed, and which list must confirm that no Link names a cluster.
#[derive(Debug)]
pub(super) struct LinkFeeds {
    /// The feeds that are not listed yet.
    unlisted: BTreeSet<Feed>,
    has_feeds: bool,
    confirmation: Option<Confirmation>,
}

/// Requested lists.
#[derive(Debug)]
struct Confirmation {
    requested: Timestamp,
    /// The feeds whose list is not complete yet.
    missing: BTreeSet<Feed>,
}

// === impl LinkFeeds ===

impl LinkFeeds {
    /// Waits for the first lists of `feeds`.
    pub(super) fn new(feeds: BTreeSet<Feed>) -> Self {
        Self {
            has_feeds: !feeds.is_empty(),
            unlisted: feeds,
            confirmation: None,
        }
    }

    /// Notes a complete list of a feed.
    pub(super) fn note_listed(&mut self, feed: &Feed) {
        self.unlisted.remove(feed);
        if let Some(confirmation) = &mut self.confirmation {
            confirmation.missing.remove(feed);
        }
    }

    /// Returns whether the first lists are complete.
    pub(super) fn is_listed(&self) -> bool {
        self.has_feeds && self.unlisted.is_empty()
    }

    /// Returns how the Links are listed, and when the lists were requested that are complete now. Returns `None` before the first
    /// lists are complete.
    pub(super) fn take_list(&mut self, feeds: &Feeds) -> Option<LinkList> {
        if !self.is_listed() {
            return None;
        }
        let complete = self.confirmation.take_if(|one| one.missing.is_empty());
        let requested = complete.map(|confirmation| confirmation.requested);
        let listed = LinkList::Listed { requested };
        Some(feeds.undefined_links().map_or(listed, LinkList::None))
    }

    /// Requests lists of all feeds, unless such a request is open.
    pub(super) fn request_list(&mut self, feeds: &Feeds, now: Timestamp) {
        if self.is_list_requested() {
            return;
        }
        let missing = feeds.links();
        for feed in &missing {
            feeds.request_relist(feed, Instant::now());
        }
        self.confirmation = Some(Confirmation {
            requested: now,
            missing,
        });
    }

    /// Returns whether a requested list is not complete yet.
    pub(super) fn is_list_requested(&self) -> bool {
        self.confirmation.is_some()
    }
}
