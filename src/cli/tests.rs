use super::*;

/// Kubernetes sets such variables in a Pod for each Service of its namespace, also for one whose name begins with
/// `global-dns`.
#[test]
fn no_flag_reads_a_variable_that_kubernetes_sets_for_a_service() {
    for command in program::command().get_subcommands() {
        for flag in command.get_arguments() {
            let Some(variable) = flag.get_env().and_then(|name| name.to_str()) else {
                continue;
            };
            let ends = ["_SERVICE_HOST", "_SERVICE_PORT", "_PORT"];
            let has_part = ["_SERVICE_PORT_", "_PORT_"].map(|part| variable.contains(part));
            let is_set = ends.iter().any(|end| variable.ends_with(end));
            assert!(!is_set && has_part == [false; 2], "{variable}");
        }
    }
}
