//! The lines that suites print.

use std::env;
use std::io::{Write as _, stdout};

/// The suite that runs, by the name of its program: `e2e`, `bench`.
pub fn suite() -> String {
    let program = env::current_exe().unwrap();
    let stem = program.file_stem().unwrap_or_default().to_string_lossy();
    // Behind the dash is cargo's hash.
    stem.split('-').next().unwrap_or_default().to_owned()
}

/// Prints a line, past the capture of the test runner: figures are wanted of passing tests too.
pub fn say(line: &str) {
    // Fails if nobody reads, who then misses nothing.
    let _ = writeln!(stdout(), "{}: {line}", suite());
}

/// A number as people write it: `5,214`.
pub fn figure(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
