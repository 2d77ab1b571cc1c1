#![allow(warnings, clippy::all)]
//! temporary
pub mod order; pub mod print; pub mod records; pub mod write; pub mod respond;
use crate::zone::View;

pub(crate) fn target_tail<'n>(view: &View<'_>, question: &'n crate::zone::Name) -> std::borrow::Cow<'n, [u8]> {
    use std::borrow::Cow;
        match view.targets {
            crate::zone::Targets::Asked(at) => Cow::Borrowed(&question.wire()[at..]),
            crate::zone::Targets::Canonical(at) => {
                let mut wire = Vec::with_capacity(255);
                for label in view.service.key.labels() {
                    wire.push(label.len() as u8); // a label has at most 63 octets
                    wire.extend(label.as_bytes());
                }
                wire.extend(&question.wire()[at..]);
                Cow::Owned(wire)
            }
        }
}
