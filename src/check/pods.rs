//! The pods of the replicas, for a check that no replica answers.

use serde_json::Value;

use super::finding::{Check, Finding, items, text};

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
    let reason = |object: &Value| {
        let parts = ["reason", "message"].map(|field| text(object, field));
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join(": ")
    };
    let mut parts = vec![text(status, "phase").to_owned(), reason(status)];
    if !metadata["deletionTimestamp"].is_null() {
        parts.push("being deleted".to_owned());
    }
    let is_false = |one: &&Value| text(one, "status") == "False";
    parts.extend(items(status, "conditions").filter(is_false).map(
        |one| match reason(one).as_str() {
            "" => format!("not {}", text(one, "type")),
            reason => format!("not {} ({reason})", text(one, "type")),
        },
    ));
    for container in items(status, "containerStatuses") {
        let name = text(container, "name");
        let states = [
            ("waiting", &container["state"]["waiting"]),
            ("ended", &container["state"]["terminated"]),
            ("ended before", &container["lastState"]["terminated"]),
        ];
        let states = states.into_iter().filter(|(_, state)| state.is_object());
        parts.extend(states.map(|(verb, state)| format!("{name} {verb} ({})", reason(state))));
        if let Some(restarts) = container["restartCount"]
            .as_u64()
            .filter(|count| *count > 0)
        {
            parts.push(format!("{restarts} restarts"));
        }
    }
    parts.retain(|part| !part.is_empty());
    let [namespace, name] = ["namespace", "name"].map(|field| text(metadata, field));
    format!("{namespace}/{name}: {}", parts.join(", "))
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
