//! An object as the readers return it.

use std::sync::Arc;

use super::interned::Text;
use super::item::Item;
use super::keys::ServiceKey;
use super::label::ClusterName;
use super::problem::Problem;
use super::slice::Slice;

/// A Kubernetes object, reduced to the fields that this server uses. Items are boxed, because there may be some hundred
/// thousand objects and slices are smaller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// A Service.
    Item(Box<Item>),
    /// An EndpointSlice.
    Slice(Slice),
    /// A Service of this cluster without settings, which matters only because it exists (rule K6).
    Plain,
    /// A Link: the cluster that it names.
    Link(ClusterName),
    /// An object that cannot or must not be used (rule M9).
    Skipped(Arc<Problem>),
}

// === impl Object ===

impl Object {
    /// Returns the item, if the object is one.
    pub fn item(&self) -> Option<&Item> {
        match self {
            Self::Item(item) => Some(item),
            Self::Slice(_) | Self::Plain | Self::Link(_) | Self::Skipped(_) => None,
        }
    }

    /// Returns the service that the object belongs to. Slices have that of their owner.
    pub fn service(&self) -> Option<&ServiceKey> {
        Some(&self.item()?.service)
    }

    /// Returns the name of the Service that owns the object, if it is a slice.
    pub fn owner(&self) -> Option<&Text> {
        Some(&self.slice()?.owner)
    }

    /// Returns the slice, if the object is one.
    pub fn slice(&self) -> Option<&Slice> {
        match self {
            Self::Slice(slice) => Some(slice),
            Self::Item(_) | Self::Plain | Self::Link(_) | Self::Skipped(_) => None,
        }
    }
}

impl From<Item> for Object {
    fn from(item: Item) -> Self {
        Self::Item(Box::new(item))
    }
}
