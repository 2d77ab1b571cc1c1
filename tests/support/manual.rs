//! The pages of the manual, as tests read them: the blocks of a section.

use std::fs;

use anyhow::{Context, Result, ensure};

use crate::repository::repository;

/// The folder of the pages.
const MANUAL: &str = "charts/global-dns/docs/src";

/// A fenced block of a page.
struct Block {
    language: String,
    lines: Vec<String>,
}

/// The blocks of a section of a page.
pub struct Section {
    place: String,
    blocks: Vec<Block>,
}

// === impl Section ===

impl Section {
    /// Reads the section of a page with a heading, without the sections after it. Its own subsections belong to it.
    pub fn read(page: &str, heading: &str) -> Result<Self> {
        let place = format!("{page}, {heading}");
        let text = fs::read_to_string(repository(MANUAL).join(page)).context(place.clone())?;
        let level = |line: &str| line.chars().take_while(|char| *char == '#').count();
        let mut lines = text.lines();
        let start = lines.find(|line| line.trim_start_matches('#').trim() == heading);
        let own = level(start.with_context(|| place.clone())?);
        let mut blocks: Vec<Block> = Vec::new();
        let mut is_open = false;
        for line in lines {
            // Blocks in a list are indented.
            let bare = line.trim_start();
            match bare.strip_prefix("```") {
                Some(language) if !is_open => {
                    let (language, lines) = (language.to_owned(), Vec::new());
                    blocks.push(Block { language, lines });
                    is_open = true;
                }
                Some(_) => is_open = false,
                None if is_open => {
                    let block = blocks.last_mut().context("no block")?;
                    block.lines.push(line.to_owned());
                }
                None if (1..=own).contains(&level(line)) => break,
                None => {}
            }
        }
        Ok(Self { place, blocks })
    }

    /// Returns the blocks of a language, which has some.
    pub fn texts(&self, language: &str) -> Result<Vec<String>> {
        let blocks = self.blocks.iter();
        let blocks = blocks.filter(|block| block.language == language);
        let texts: Vec<String> = blocks.map(|block| block.lines.join("\n") + "\n").collect();
        ensure!(!texts.is_empty(), "{}: no block {language}", self.place);
        Ok(texts)
    }
}
