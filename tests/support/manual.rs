//! The pages of the manual, as tests read them: blocks of a section, and commands with their outputs.

use std::collections::BTreeSet;
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

/// A command, and the lines that it prints.
pub struct Example {
    /// The command, without the prompt.
    pub command: String,
    output: Vec<String>,
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

    /// Returns the commands of the section in their order.
    pub fn examples(&self) -> Result<Vec<Example>> {
        let mut examples: Vec<Example> = Vec::new();
        for block in &self.blocks {
            if block.language != "console" {
                continue;
            }
            for line in block.lines.iter().map(|line| line.trim()) {
                match line.strip_prefix("$ ") {
                    Some(command) => examples.push(Example {
                        command: command.to_owned(),
                        output: Vec::new(),
                    }),
                    None => {
                        let example = examples.last_mut().context("output without a command")?;
                        example.output.push(line.to_owned());
                    }
                }
            }
        }
        ensure!(!examples.is_empty(), "{}: no command", self.place);
        Ok(examples)
    }
}

// === impl Example ===

impl Example {
    /// Asserts that a text is the output of the manual. The order of records and the width of columns do not matter, nor does a
    /// TTL, because caches decrease it. `…` stands for lines that the manual leaves out.
    pub fn check(&self, text: &str) -> Result<()> {
        let is_zone = self.command.contains("+noall +answer");
        let normal = |line: &str| {
            let mut words: Vec<&str> = line.split_whitespace().collect();
            if is_zone && words.len() > 4 {
                words.remove(1);
            }
            words.join(" ")
        };
        let lines = |text: &mut dyn Iterator<Item = &str>| -> BTreeSet<String> {
            text.map(normal).filter(|line| !line.is_empty()).collect()
        };
        let mut expected = lines(&mut self.output.iter().map(String::as_str));
        let got = lines(&mut text.lines());
        let is_part = expected.remove("…");
        let is_same = if is_part {
            expected.is_subset(&got)
        } else {
            expected == got
        };
        ensure!(
            is_same,
            "{}: expected {expected:#?}, got {got:#?}",
            self.command
        );
        Ok(())
    }
}
