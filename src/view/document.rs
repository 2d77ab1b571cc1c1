//! The form of all documents. A response of the API has the cells of a document or its objects, as the client accepts.

use std::borrow::Borrow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The media type of a document with cells, as that of tables in Kubernetes' API. Without it, the API sends objects.
pub const CELLS: &str = "application/json;as=Table";

/// What a view says: sections of rows with cells for people, or the objects of all rows for programs.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Document {
    /// The view, such as `table`.
    pub kind: String,
    /// The server that answered: the name of its host, in a cluster that of its pod. Empty: computed by the command itself.
    pub replica: String,
    /// The number of published tables with other answers than the one before.
    pub generation: u64,
    /// The time of the answers, if it is one of the past (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// The exit code of the command: 0; 1: failed or red; 3: no such name.
    pub exit: u8,
    /// The sections, the most important one first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sections: Vec<Section>,
    /// The objects, in place of the sections. A program must ignore fields and values that it does not know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<Vec<Value>>,
    /// The parameter `continue` of the request for the next page, if there is one.
    #[serde(rename = "continue", skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A part of a document: rows with the same columns.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Section {
    /// The heading. Empty: none.
    pub title: String,
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows.
    pub rows: Vec<Row>,
}

/// A column.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Column {
    /// The heading. A section whose columns have none is printed without headings.
    pub name: String,
    /// 0: always shown; higher: with `-o wide` only, as in kubectl.
    pub priority: u8,
    /// The kind of its cells.
    #[serde(rename = "type")]
    pub kind: ColumnKind,
}

/// The kind of the cells of a column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ColumnKind {
    /// A time (RFC 3339), with or without a word before it: `before 2026-11-24T03:12:00Z`.
    Time,
    /// `ok`, `attention` or `failing`, which are printed in colors, or another word.
    State,
    /// A sentence, which may be printed in several lines.
    Sentence,
    /// Any text.
    #[default]
    #[serde(other)]
    Text,
}

/// A row.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Row {
    /// The texts, one for each column.
    pub cells: Vec<String>,
    /// The object of the row for programs. Null: none.
    #[serde(skip)]
    pub object: Value,
}

/// The columns of reports.
pub(super) struct Cells<R> {
    columns: Vec<Column>,
    /// The text of the cell of a report, for each column.
    texts: Vec<fn(&R) -> String>,
}

/// Returns the text of a value that may be absent.
pub(super) fn text_of<T: ToString>(value: Option<&T>) -> String {
    value.map_or_else(String::new, ToString::to_string)
}

/// A row of a document: one object for programs, with cells for people.
pub(super) trait Report: Serialize + Sized {
    /// Adds the columns.
    fn cells(columns: Cells<Self>) -> Cells<Self>;
}

// === impl Document ===

impl Document {
    /// Adds a sentence, if there is one, and the exit code of the command for it.
    pub fn fail_if(&mut self, exit: u8, sentence: Option<String>) {
        if let Some(sentence) = sentence {
            self.exit = self.exit.max(exit);
            let mut section = Section::new("", [Column::text("")]);
            section.push_text([sentence]);
            self.sections.push(section);
        }
    }

    /// Returns the document with the objects of all rows. Each names its section, if that has a title.
    pub fn into_items(mut self) -> Self {
        let items = self.items.get_or_insert_default();
        for Section { title, rows, .. } in self.sections.drain(..) {
            for mut object in rows.into_iter().map(|row| row.object) {
                if !title.is_empty() && object.is_object() {
                    object["section"] = title.as_str().into();
                }
                items.push(object);
            }
        }
        items.retain(|object| !object.is_null());
        self
    }

    /// Returns the objects of all rows.
    pub fn objects(self) -> Vec<Value> {
        self.into_items().items.unwrap_or_default()
    }

    /// Appends the next page: its objects, and its rows to the sections with the same titles.
    pub fn append(&mut self, next: Self) {
        self.exit = self.exit.max(next.exit);
        self.next = next.next;
        if let Some(items) = next.items {
            self.items.get_or_insert_default().extend(items);
        }
        for section in next.sections {
            let mut known = self.sections.iter_mut();
            match known.find(|one| one.title == section.title) {
                Some(known) => known.rows.extend(section.rows),
                None => self.sections.push(section),
            }
        }
    }
}

// === impl Section ===

impl Section {
    /// Makes a section without rows.
    pub fn new(title: &str, columns: impl IntoIterator<Item = Column>) -> Self {
        Self {
            title: title.to_owned(),
            columns: columns.into_iter().collect(),
            rows: Vec::new(),
        }
    }

    /// Makes a section of reports: their cells for people, and themselves for programs.
    pub(super) fn of<R: Report>(
        title: &str,
        reports: impl IntoIterator<Item = impl Borrow<R>>,
    ) -> Self {
        let cells = R::cells(Cells {
            columns: Vec::new(),
            texts: Vec::new(),
        });
        let mut section = Self::new(title, cells.columns);
        for report in reports {
            let report = report.borrow();
            section.push(cells.texts.iter().map(|text| text(report)), report);
        }
        section
    }

    /// Adds a row for people and for programs.
    pub fn push(&mut self, cells: impl IntoIterator<Item = String>, object: &impl Serialize) {
        self.rows.push(Row {
            cells: cells.into_iter().collect(),
            // Documents have only texts as keys, so that they always are JSON.
            object: serde_json::to_value(object).unwrap_or_default(),
        });
    }

    /// Adds a row without an object.
    pub fn push_text(&mut self, cells: impl IntoIterator<Item = String>) {
        self.push(cells, &Value::Null);
    }
}

// === impl Column ===

impl Column {
    /// Returns a column of texts.
    pub fn text(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }

    /// Returns a column of times.
    pub fn time(name: &str) -> Self {
        Self {
            kind: ColumnKind::Time,
            ..Self::text(name)
        }
    }

    /// Returns a column of states.
    pub fn state(name: &str) -> Self {
        Self {
            kind: ColumnKind::State,
            ..Self::text(name)
        }
    }
}

// === impl Cells ===

impl<R> Cells<R> {
    /// Adds a column of texts.
    pub(super) fn text(self, name: &str, text: fn(&R) -> String) -> Self {
        self.with(Column::text(name), text)
    }

    /// Adds a column of texts that only `-o wide` shows.
    pub(super) fn wide(self, name: &str, text: fn(&R) -> String) -> Self {
        let column = Column {
            priority: 1,
            ..Column::text(name)
        };
        self.with(column, text)
    }

    /// Adds a column of times.
    pub(super) fn time(self, name: &str, text: fn(&R) -> String) -> Self {
        self.with(Column::time(name), text)
    }

    /// Adds a column of sentences.
    pub(super) fn sentence(self, name: &str, text: fn(&R) -> String) -> Self {
        let column = Column {
            kind: ColumnKind::Sentence,
            ..Column::text(name)
        };
        self.with(column, text)
    }

    /// Adds a column of states.
    pub(super) fn state(self, name: &str, text: fn(&R) -> String) -> Self {
        self.with(Column::state(name), text)
    }

    fn with(mut self, column: Column, text: fn(&R) -> String) -> Self {
        self.columns.push(column);
        self.texts.push(text);
        self
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn page_is_appended_to_the_section_with_its_title() {
        let page = |cell: &str, next: Option<&str>| {
            let mut section = Section::new("services", [Column::text("SERVICE")]);
            section.push([cell.to_owned()], &json!({"service": cell}));
            Document {
                kind: "table".to_owned(),
                sections: vec![section],
                next: next.map(str::to_owned),
                ..Document::default()
            }
        };
        let mut document = page("db", Some("1.1"));
        document.append(page("web", None));
        assert_eq!(document.next, None);
        assert_eq!(document.sections.len(), 1);
        let items = document.into_items().items.unwrap();
        let service = |name| json!({"service": name, "section": "services"});
        assert_eq!(items, ["db", "web"].map(service));
    }

    #[test]
    fn document_of_a_newer_server_is_read() {
        let text = r#"{"kind": "table", "news": 1, "sections": [{"title": "t", "columns": [{"name": "A", "type": "color"}],
            "rows": [{"cells": ["x"], "more": true}]}]}"#;
        let document: Document = serde_json::from_str(text).unwrap();
        assert_eq!(document.sections[0].columns[0], Column::text("A"));
    }
}
