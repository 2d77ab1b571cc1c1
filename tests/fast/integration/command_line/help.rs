//! `help`: the help of commands, and the table of the flags of `serve`.

use support::process::run_global_dns;

#[test]
fn help_of_a_topic_equals_the_help_flag() {
    for (topic, flag) in [
        (&["help"][..], &["--help"][..]),
        (&["help", "serve"], &["serve", "--help"]),
        (&["help", "check"], &["check", "--help"]),
        (&["help", "help"], &["help", "--help"]),
    ] {
        let (by_topic, by_flag) = (run_global_dns(topic), run_global_dns(flag));
        assert_eq!(
            (by_topic.code, by_flag.code),
            (Some(0), Some(0)),
            "{topic:?}"
        );
        assert!(by_topic.stdout.contains("Usage: global-dns"), "{topic:?}");
        assert_eq!(by_topic.stdout, by_flag.stdout, "{topic:?}");
    }
}

#[test]
fn unknown_topic_is_wrong_usage() {
    let ended = run_global_dns(&["help", "frob"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""));
    for part in ["'frob'", "serve", "flags"] {
        assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
    }
}

#[test]
fn help_flags_lists_every_flag_of_serve() {
    let text = run_global_dns(&["help", "flags"]);
    let markdown = run_global_dns(&["help", "flags", "--output", "markdown"]);
    assert_eq!((text.code, markdown.code), (Some(0), Some(0)));
    let help = run_global_dns(&["serve", "--help"]).stdout;
    let variables = help.split("[env: ").skip(1);
    let variables: Vec<&str> = variables
        .filter_map(|rest| rest.split('=').next())
        .collect();
    assert!(variables.len() > 40, "{help}");
    for variable in variables {
        assert!(
            text.stdout.contains(variable),
            "{variable}: {}",
            text.stdout
        );
        let cell = format!("| `{variable}` |");
        assert!(
            markdown.stdout.contains(&cell),
            "{cell}: {}",
            markdown.stdout
        );
    }
}
