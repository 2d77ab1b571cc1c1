//! tour
pub mod mirror;
pub mod source;
pub mod table;
pub mod wire;
pub mod zone;
