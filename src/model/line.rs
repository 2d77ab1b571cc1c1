//! Texts for people, with parts of objects that anybody may have written.
//!
//! Linkerd copies annotations from other clusters. Printed as they are, they could forge a line of the log, write to a
//! terminal, or reverse the order of the text around them. Every explanation of an object, a conflict, a change or a check
//! is therefore a [`Line`].

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A text of one line that is safe to print. Control characters, line and paragraph separators, and marks of direction are
/// escaped, such as `\n` and `\u{202e}`. They are also escaped in a text of a server of another version.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(from = "String")]
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Line(Box<str>);

/// Returns whether a character can end a line, control a terminal, or change the order of the text around it: controls,
/// separators of lines and paragraphs (Unicode Zl, Zp), and marks of direction (Unicode `Bidi_Control`).
pub fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Escapes the [deceptive](is_deceptive) characters of a text. A text that was escaped stays as it is.
pub(super) fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(is_deceptive) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_deceptive(c) {
            safe.extend(c.escape_default());
        } else {
            safe.push(c);
        }
    }
    Cow::Owned(safe)
}

/// Maximum number of things that a sentence lists.
pub const MAX_LISTED: usize = 5;

/// Joins items, with a text between two of them.
pub fn join_texts<T: fmt::Display>(items: impl IntoIterator<Item = T>, between: &str) -> String {
    let texts: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    texts.join(between)
}

/// Lists the first items of a sentence, and the number of the others: `a, b and 7 more`.
pub fn list_some<T: fmt::Display>(items: impl IntoIterator<Item = T>, max: usize) -> String {
    let mut items = items.into_iter();
    let listed = join_texts(items.by_ref().take(max), ", ");
    match items.count() {
        0 => listed,
        more => format!("{listed} and {more} more"),
    }
}

/// Joins the parts of a sentence that are not empty.
pub fn sentence_of(parts: &[&str]) -> String {
    let mut parts = parts.to_vec();
    parts.retain(|part| !part.is_empty());
    parts.join(": ")
}

/// Truncates a value of an annotation for reports. Annotations may have 256 KiB.
pub fn shorten(value: &str) -> String {
    value.chars().take(40).collect()
}

// === impl Line ===

impl Line {
    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Cuts the text after `max` characters.
    pub fn truncated(self, max: usize) -> Self {
        match self.0.char_indices().nth(max) {
            Some((end, _)) => Self(format!("{}…", &self.0[..end]).into()),
            None => self,
        }
    }
}

impl<T: AsRef<str>> From<T> for Line {
    fn from(text: T) -> Self {
        Self(escaped(text.as_ref()).into())
    }
}

impl Deref for Line {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl PartialEq<&str> for Line {
    fn eq(&self, other: &&str) -> bool {
        *self.0 == **other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_list_is_shortened() {
        assert_eq!(list_some([1, 2, 3, 4, 5], 5), "1, 2, 3, 4, 5");
        assert_eq!(list_some(1..=7, 5), "1, 2, 3, 4, 5 and 2 more");
        assert_eq!(list_some([""; 0], 5), "");
    }

    #[test]
    fn characters_that_forge_lines_are_escaped() {
        for (text, expected) in [
            (
                "plain 'text' with \\, ü and 中",
                "plain 'text' with \\, ü and 中",
            ),
            ("a\nb\r\tc", "a\\nb\\r\\tc"),
            (
                "\u{1b}[2J\u{7}\u{0}\u{7f}\u{9b}",
                "\\u{1b}[2J\\u{7}\\u{0}\\u{7f}\\u{9b}",
            ),
            ("\u{85}\u{2028}\u{2029}", "\\u{85}\\u{2028}\\u{2029}"),
            ("\u{200e}\u{200f}\u{61c}", "\\u{200e}\\u{200f}\\u{61c}"),
            (
                "\u{202a}\u{202e}\u{2066}\u{2069}",
                "\\u{202a}\\u{202e}\\u{2066}\\u{2069}",
            ),
            // The neighbors of the ranges. They join letters, are spaces, or are never printed.
            (
                "\u{200d}\u{2027}\u{202f}\u{206a}",
                "\u{200d}\u{2027}\u{202f}\u{206a}",
            ),
        ] {
            let line = Line::from(text);
            assert_eq!(line, expected);
            assert_ne!(line, "another");
            assert_eq!(Line::from(text.to_owned()), line);
            assert_eq!(Line::from(&*line), line, "escaped twice");
            let json = serde_json::to_string(text).unwrap();
            assert_eq!(serde_json::from_str::<Line>(&json).unwrap(), line);
        }
    }

    #[test]
    fn long_line_is_cut_between_characters() {
        assert_eq!(Line::from("öö").truncated(2), "öö");
        assert_eq!(Line::from("ööö").truncated(2), "öö…");
    }
}
