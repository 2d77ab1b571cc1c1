//! Lines that test suites print.

use std::env;
use std::io::{Write as _, stdout};
use std::thread;

/// Returns the name of the running suite: the first module of the running test, such as `e2e`, or the name of the program,
/// such as `bench`.
pub fn suite_name() -> String {
    if let Some((suite, _)) = thread::current()
        .name()
        .and_then(|name| name.split_once("::"))
    {
        return suite.to_owned();
    }
    let program = env::current_exe().unwrap();
    let stem = program.file_stem().unwrap_or_default().to_string_lossy();
    // Cargo appends a dash and a hash.
    stem.split('-').next().unwrap_or_default().to_owned()
}

/// Prints a line without the capture of the test runner, so that passing tests print their measurements, too.
pub fn print_line(line: &str) {
    // A closed stdout is not a failure of the test.
    let _ = writeln!(stdout(), "{}: {line}", suite_name());
}

/// Formats a number with thousands separators: `5,214`.
pub fn with_separators(number: usize) -> String {
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
