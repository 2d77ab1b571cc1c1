//! Objects that show how far a server has read its watches: one changes with each step on every watch. When all of them
//! answer as after the last step, the server has applied all events before them.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use global_dns::model::key;
use serde_json::{Value, json};
use support::objects::{Manifest, exported, gateway_mirror, local, mirror, objects};
use support::wire::resolve;

/// The namespace of all markers. No other object is in it.
pub const NAMESPACE: &str = "marker";

/// Time in which a server must show the second state of a marker. Without it, the marker is not visible with its flags.
const VISIBLE_WITHIN: Duration = Duration::from_secs(10);

/// A marker: the object that changes, its question, and the answer of a step, with the TTL.
struct Marker {
    question: &'static str,
    answer: fn(u32) -> (String, u32),
}

const MARKERS: &[Marker] = &[
    // An endpoint mirror.
    Marker {
        question: "m.marker.global. A",
        answer: |step| (address(0, step), 5),
    },
    // A slice of the EndpointSlice controller.
    Marker {
        question: "l.marker.global. A",
        answer: |step| (address(1, step), 5),
    },
    // A slice of another controller.
    Marker {
        question: "f.marker.global. A",
        answer: |step| (address(2, step), 5),
    },
    // A headless Service of this cluster.
    Marker {
        question: "t.marker.global. A",
        answer: |step| ("10.209.1.1".to_owned(), 1 + step % 20),
    },
    // An exported Service with a cluster IP.
    Marker {
        question: "x.marker.global. A",
        answer: |step| (address(3, step), 5),
    },
    // The slice of such a Service.
    Marker {
        question: "y.marker.global. A",
        answer: |step| (one_or_both("10.209.2.1", "10.209.2.2", step), 5),
    },
    // The slice of a gateway mirror.
    Marker {
        question: "g.marker.global. A",
        answer: |step| (one_or_both("10.209.3.1", "10.209.3.2", step), 5),
    },
    // The slice of a headless mirror.
    Marker {
        question: "h.marker.global. A",
        answer: |step| (format!("10.209.4.{}", step % 2), 5),
    },
    // A Service that only has annotations.
    Marker {
        question: "p.marker.global. A",
        answer: |step| (format!("10.209.5.{}", step % 2), 5),
    },
];

/// The markers that the flags of a world make visible.
pub struct Visible(Vec<&'static Marker>);

/// Returns the objects of all markers after a step.
pub fn manifest(step: u32) -> Manifest {
    let is_even = step.is_multiple_of(2);
    let ready_if_even = |service: support::objects::ClusterIp| {
        if is_even {
            service
        } else {
            service.without_ready_endpoint()
        }
    };
    let host = format!("h-{}", step % 2);
    let of_step = |number: u8| address(number, step);
    objects()
        .with(mirror(NAMESPACE, "m", "east").endpoint("m-0", &[&of_step(0)]))
        .with(
            local(NAMESPACE, "l")
                .exported()
                .endpoint(Some("l-0"), &of_step(1), true),
        )
        .with(
            local(NAMESPACE, "f")
                .exported()
                .without_selector()
                .endpoint(Some("f-0"), &of_step(2), true),
        )
        .with(
            local(NAMESPACE, "t")
                .exported()
                .annotation(key::TTL, &(1 + step % 20).to_string())
                .endpoint(Some("t-0"), "10.209.1.1", true),
        )
        .with(exported(NAMESPACE, "x", &of_step(3)))
        .with(gateway_mirror(NAMESPACE, "y", "east", "10.209.2.1"))
        .with(ready_if_even(exported(NAMESPACE, "y", "10.209.2.2")))
        .with(gateway_mirror(NAMESPACE, "g", "east", "10.209.3.1"))
        .with(ready_if_even(gateway_mirror(
            NAMESPACE,
            "g",
            "west",
            "10.209.3.2",
        )))
        .with(gateway_mirror(NAMESPACE, "h-0", "east", "10.209.4.0"))
        .with(gateway_mirror(NAMESPACE, "h-1", "east", "10.209.4.1"))
        .with(mirror(NAMESPACE, "h", "east"))
        .with(mirror(NAMESPACE, "h", "east").listing(&[(&host, &format!("10.209.4.{}", step % 2))]))
        .with(gateway_mirror(NAMESPACE, "p", "east", "10.209.5.0"))
        .with(gateway_mirror(NAMESPACE, "p", "west", "10.209.5.1"))
        .with(policy(is_even))
}

fn address(marker: u8, step: u32) -> String {
    format!("10.21{marker}.{}.{}", step / 250, step % 250 + 1)
}

fn one_or_both(always: &str, even: &str, step: u32) -> String {
    if step.is_multiple_of(2) {
        format!("{always} {even}")
    } else {
        always.to_owned()
    }
}

/// Returns a Service that only chooses between two clusters.
fn policy(prefers_east: bool) -> Value {
    let order = if prefers_east {
        "east:west"
    } else {
        "west:east"
    };
    let mut service = exported(NAMESPACE, "p", "10.209.5.9").service();
    service["metadata"]["labels"][key::EXPORTED] = json!("skip");
    service["metadata"]["annotations"][key::FAILOVER] = json!(order);
    service
}

// === impl Marker ===

impl Marker {
    /// Returns the answer of a server if it is not that of the step.
    fn wrong_answer(&self, server: SocketAddr, step: u32) -> Option<String> {
        let reply = resolve(server, self.question);
        let ttl = reply.answers.first().map_or(0, |record| record.ttl);
        let (answer, expected) = (reply.outcome(), (self.answer)(step));
        ((&answer, ttl) != (&expected.0, expected.1)).then_some(answer)
    }
}

// === impl Visible ===

impl Visible {
    /// Finds the markers that both servers show, from their answers before and after the change to a step.
    pub fn find(servers: &[SocketAddr], step: u32, change: impl FnOnce()) -> Self {
        let is_shown = |marker: &Marker, step| {
            let mut servers = servers.iter();
            servers.all(|server| marker.wrong_answer(*server, step).is_none())
        };
        let mut shown: Vec<&Marker> = MARKERS.iter().collect();
        shown.retain(|marker| is_shown(marker, step - 1));
        change();
        let deadline = Instant::now() + VISIBLE_WITHIN;
        shown.retain(|marker| {
            while !is_shown(marker, step) {
                if Instant::now() > deadline {
                    return false;
                }
                thread::sleep(Duration::from_millis(2));
            }
            true
        });
        Self(shown)
    }

    /// Returns the number of markers.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Waits until a server shows a step. The error names a marker that it does not show.
    pub fn wait(&self, server: SocketAddr, step: u32, within: Duration) -> Result<(), String> {
        let deadline = Instant::now() + within;
        for marker in &self.0 {
            while let Some(answer) = marker.wrong_answer(server, step) {
                if Instant::now() > deadline {
                    let expected = (marker.answer)(step);
                    let question = marker.question;
                    return Err(format!("{question} is {answer}, expected {expected:?}"));
                }
                thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    }
}
