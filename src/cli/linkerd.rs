//! The program as an extension of Linkerd's CLI, which runs it as a part of `linkerd check` (EXTENSIONS.md of linkerd2).

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::Arg;
use serde_json::json;

use super::print::local_text;
use crate::check::finding::{Finding, FindingState};

/// The name of the program as an extension, which is that of its category of checks.
const EXTENSION: &str = "linkerd-globaldns";

/// Returns whether the program is called by the name of the extension.
pub fn is_extension() -> bool {
    let program = env::args_os().next().unwrap_or_default();
    Path::new(&program).file_name() == Some(OsStr::new(EXTENSION))
}

/// Returns the arguments of the program. Linkerd passes those of its own `check` as `--FLAG=VALUE`, also ones that have no effect here
/// and those of newer versions: an extension should ignore them.
pub(super) fn arguments(command: &clap::Command) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = env::args_os().collect();
    let named = arguments
        .get(1)
        .and_then(|name| command.find_subcommand(name));
    if let Some(subcommand) = named.filter(|_| is_extension()) {
        let flags = subcommand.get_arguments().chain(command.get_arguments());
        let known: Vec<&str> = flags.filter_map(Arg::get_long).collect();
        arguments.retain(|argument| {
            let text = argument.to_str();
            let flag = text.and_then(|text| text.strip_prefix("--")?.split_once('='));
            flag.is_none_or(|(name, _)| known.contains(&name))
        });
    }
    arguments
}

/// Returns what Linkerd asks an extension for. It runs the checks in clusters with the label of the extension. In all, it would be
/// `always`.
pub fn extension_metadata() -> String {
    format!("{}\n", json!({"name": EXTENSION, "checks": "cluster"}))
}

/// Returns the findings of `check` as Linkerd reads those of an extension (`pkg/healthcheck/healthcheck_output.go` of linkerd2). What
/// could not be checked is left out, as Linkerd leaves out checks that it skips. Linkerd prints the texts as they are.
pub fn extension_checks(findings: &[Finding]) -> String {
    let mut checks = Vec::new();
    for finding in findings {
        let [name, sentence, hint] =
            [&finding.name, &finding.sentence, &finding.hint].map(|text| local_text(text));
        let result = match finding.state {
            FindingState::Failing => "error",
            FindingState::Attention => "warning",
            FindingState::Ok => {
                let description = format!("{name}: {sentence}");
                checks.push(json!({"description": description, "result": "success"}));
                continue;
            }
            FindingState::Unknown => continue,
        };
        let command = finding.manual_command();
        let more = command.unwrap_or_else(|| "section Checks of the manual".to_owned());
        checks.push(json!({
            "description": name, "hint": local_text(&more), "error": format!("{sentence} → {hint}"), "result": result,
        }));
    }
    let success = FindingState::worst(findings) != FindingState::Failing;
    let category = json!({"categoryName": EXTENSION, "checks": checks});
    format!(
        "{:#}\n",
        json!({"success": success, "categories": [category]})
    )
}
