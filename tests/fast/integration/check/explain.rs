//! `check --explain`: the documentation of one check.

use support::process::run_global_dns;

#[test]
fn explain_prints_the_section_of_a_check() {
    let ended = run_global_dns(&["check", "--explain", "headless-mirroring"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let text = ended.stdout;
    assert!(
        text.starts_with("Headless mirroring\n\nYellow if "),
        "{text}"
    );
    assert!(text.contains("enableHeadlessServices"), "{text}");
    assert!(!text.contains("Orphaned mirrors"), "{text}");
}

#[test]
fn explain_of_an_unknown_check_is_wrong_usage_that_lists_the_checks() {
    let ended = run_global_dns(&["check", "--explain", "headless"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""));
    for part in [
        "'headless'",
        "'--explain <NAME>'",
        "api-server",
        "link-status",
    ] {
        assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
    }
}
