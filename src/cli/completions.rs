//! `completions`: the script that completes commands and flags in a shell.

use clap_complete::{Shell, generate};

use super::command::{CompletionsArgs, command, file_name};

// === impl CompletionsArgs ===

impl CompletionsArgs {
    /// Returns the script. It completes the name that the program was called by.
    pub fn script(&self) -> String {
        let name = file_name();
        // In the script for bash of clap_complete 4.6, the labels of subcommands differ from the jumps to them if the name of
        // the program has a hyphen, so only the last lines of the script get the real name.
        let plain = match self.shell {
            Shell::Bash => name.replace('-', "_"),
            _ => name.clone(),
        };
        let mut script = Vec::new();
        generate(self.shell, &mut command(), &plain, &mut script);
        let end = |name: &str| format!("-o default {name}\n");
        String::from_utf8_lossy(&script).replace(&end(&plain), &end(&name))
    }
}
