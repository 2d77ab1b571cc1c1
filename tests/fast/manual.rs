//! The manual, which is an mdBook.

mod settings; // the page and the schema of the settings
