//! The manual, which is an mdBook, and the links of all documents of this repository.

mod links; // links between documents, and names of chapters in other files
mod markdown; // links and anchors of a Markdown document
mod settings; // the page and the schema of the settings
