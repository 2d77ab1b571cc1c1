//! The pods of the replicas, for a check that no replica answers.

use serde_json::Value;

use super::finding::{Check, Finding, items, text};
use super::told::joined;

/// Makes the finding about the pods of a release, none of which answers.
pub fn check(pods: &[Value]) -> Finding {
    const HINT: &str = "kubectl describe pod and kubectl logs --previous show more; helm list -A shows the release";
    let pods: Vec<String> = pods.iter().map(state).collect();
    let sentence = match pods.as_slice() {
        [] => "the release has no pods".to_owned(),
        pods => pods.join("; "),
    };
    Finding::failing(Check::Pods, sentence, HINT)
}

/// Returns the account of a pod: its namespace and its name.
pub fn account(pod: &Value) -> (String, String) {
    let name = pod["spec"]["serviceAccountName"]
        .as_str()
        .unwrap_or("default");
    (
        text(&pod["metadata"], "namespace").to_owned(),
        name.to_owned(),
    )
}

/// Describes a pod: its phase, the conditions that are false, and the containers that wait or have ended.
fn state(pod: &Value) -> String {
    let (metadata, status) = (&pod["metadata"], &pod["status"]);
    let reason = |object: &Value| joined(&["reason", "message"].map(|field| text(object, field)));
    let mut parts = vec![text(status, "phase").to_owned(), reason(status)];
    if !metadata["deletionTimestamp"].is_null() {
        parts.push("being deleted".to_owned());
    }
    let is_false = |one: &&Value| text(one, "status") == "False";
    let conditions = items(status, "conditions").filter(is_false);
    parts.extend(conditions.map(|one| format!("not {} ({})", text(one, "type"), reason(one))));
    for container in items(status, "containerStatuses") {
        for (verb, state) in [
            ("waiting", &container["state"]["waiting"]),
            ("ended", &container["state"]["terminated"]),
            ("ended before", &container["lastState"]["terminated"]),
        ] {
            let name = text(container, "name");
            let part = format!("{name} {verb} ({})", reason(state));
            parts.extend(state.is_object().then_some(part));
        }
        let restarts = container["restartCount"]
            .as_u64()
            .filter(|count| *count > 0);
        parts.extend(restarts.map(|restarts| format!("{restarts} restarts")));
    }
    parts.retain(|part| !part.is_empty());
    let [namespace, name] = ["namespace", "name"].map(|field| text(metadata, field));
    format!("{namespace}/{name}: {}", parts.join(", ")).replace(" ()", "")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pod_that_does_not_start_says_why() {
        let pod = json!({
            "metadata": {"namespace": "dns", "name": "dns-0"}, "spec": {"serviceAccountName": "global-dns"},
            "status": {
                "phase": "Running",
                "conditions": [
                    {"type": "Ready", "status": "False", "reason": "ContainersNotReady"},
                    {"type": "PodScheduled", "status": "True"},
                ],
                "containerStatuses": [{
                    "name": "global-dns", "restartCount": 7,
                    "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}},
                    "lastState": {"terminated": {"reason": "OOMKilled"}},
                }],
            },
        });
        assert_eq!(
            check(std::slice::from_ref(&pod)).sentence,
            "dns/dns-0: Running, not Ready (ContainersNotReady), global-dns waiting (CrashLoopBackOff: back-off 5m0s), \
             global-dns ended before (OOMKilled), 7 restarts"
        );
        assert_eq!(account(&pod), ("dns".to_owned(), "global-dns".to_owned()));
        assert_eq!(check(&[]).sentence, "the release has no pods");
    }
}
