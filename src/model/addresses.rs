//! Serializes addresses as a list.

use std::net::IpAddr;

use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};
use smallvec::SmallVec;

pub(super) fn serialize<S: Serializer>(addresses: &[IpAddr], to: S) -> Result<S::Ok, S::Error> {
    addresses.serialize(to)
}

pub(super) fn deserialize<'d, D: Deserializer<'d>>(
    from: D,
) -> Result<SmallVec<[IpAddr; 1]>, D::Error> {
    Vec::deserialize(from).map(SmallVec::from_vec)
}
