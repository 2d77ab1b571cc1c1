//! `completions`: the script that completes commands and flags in a shell.

use clap_complete::{Shell, generate};

use super::command::{CompletionsArgs, command, file_name};

// === impl CompletionsArgs ===

impl CompletionsArgs {
    /// Returns the script. It completes the name that the program was called by.
    pub fn script(&self) -> String {
        let name = file_name();
        if self.shell == Shell::Bash {
            return bash_script(&name);
        }
        script(self.shell, &name)
    }
}

/// Returns the script for bash. In that of clap_complete 4.6, the labels of subcommands differ from the jumps to them if
/// the name of the program has a hyphen, so only the last line of the script gets the real name.
fn bash_script(name: &str) -> String {
    let plain = name.replace('-', "_");
    let script = script(Shell::Bash, &plain);
    let lines = script.lines().map(|line| {
        let is_registration = line.trim_start().starts_with("complete -F ");
        let command = line.strip_suffix(&plain).filter(|_| is_registration);
        command.map_or_else(|| line.to_owned(), |start| format!("{start}{name}"))
    });
    lines.map(|line| line + "\n").collect()
}

fn script(shell: Shell, name: &str) -> String {
    let mut script = Vec::new();
    generate(shell, &mut command(), name, &mut script);
    String::from_utf8_lossy(&script).into_owned()
}
