//! `events`: the output, filters, and a stream that ends. The server is simulated, so that the events are known.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use serde_json::{Value, json};
use support::commands::global_dns;
use support::process::{Log, Process, run_global_dns};

fn event(id: u64, kind: &str, name: [&str; 2]) -> Value {
    let [namespace, service] = name;
    json!({
        "id": id, "time": format!("2026-11-22T15:00:{id:02}Z"), "kind": kind, "namespace": namespace,
        "service": service, "cluster": "west", "hostname": "db-0", "text": format!("sentence {id}"),
    })
}

fn recorded() -> Vec<Value> {
    vec![
        event(1, "endpoint-added", ["prod", "db"]),
        event(2, "gateway-down", ["shop", "cart"]),
    ]
}

/// Simulates the API: answers requests for events, and sends what the test gives it to each stream.
struct Api {
    address: String,
    frames: Sender<Option<String>>,
    requests: Receiver<String>,
}

impl Api {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (frames, to_send) = channel::<Option<String>>();
        let (seen, requests) = channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                serve(&stream.unwrap(), &to_send, &seen);
            }
        });
        Self {
            address,
            frames,
            requests,
        }
    }

    fn send(&self, frame: &str) {
        self.frames.send(Some(frame.to_owned())).unwrap();
    }
}

/// Answers the requests of one connection.
fn serve(stream: &TcpStream, to_send: &Receiver<Option<String>>, seen: &Sender<String>) {
    let mut lines = BufReader::new(stream).lines();
    loop {
        let head: Vec<String> = lines
            .by_ref()
            .map_while(Result::ok)
            .take_while(|line| !line.is_empty())
            .collect();
        let Some(first) = head.first() else {
            return;
        };
        seen.send(first.clone()).unwrap();
        let mut stream = stream;
        if !head
            .iter()
            .any(|line| line.to_lowercase() == "accept: text/event-stream")
        {
            let body = json!({"schemaVersion": 1, "events": recorded()}).to_string();
            let length = body.len();
            write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}"
            )
            .unwrap();
            continue;
        }
        write!(
            stream,
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
        )
        .unwrap();
        while let Ok(Some(frame)) = to_send.recv() {
            stream.write_all(frame.as_bytes()).unwrap();
        }
        return; // ends the stream
    }
}

fn change(event: &Value) -> String {
    format!("id: {}\nevent: change\ndata: {event}\n\n", event["id"])
}

#[test]
fn events_are_printed_in_each_format() {
    let api = Api::start();
    let flag = format!("--server={}", api.address);
    let output = |arguments: &[&str]| {
        let ended = run_global_dns(&[&["events", &flag], arguments].concat());
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
        ended.stdout
    };
    let rows = |text: &str| -> Vec<String> {
        let lines = text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>());
        lines.map(|words| words.join(" ")).collect()
    };
    assert_eq!(
        rows(&output(&[])),
        [
            "TIME KIND SERVICE TEXT",
            "2026-11-22T15:00:01Z endpoint-added prod/db sentence 1",
            "2026-11-22T15:00:02Z gateway-down shop/cart sentence 2",
        ]
    );
    assert_eq!(
        rows(&output(&["-o", "wide", "-n", "prod"])),
        [
            "ID TIME KIND NAMESPACE SERVICE CLUSTER HOST TEXT",
            "1 2026-11-22T15:00:01Z endpoint-added prod db west db-0 sentence 1",
        ]
    );
    let json: Value = serde_json::from_str(&output(&["-o", "json", "cart"])).unwrap();
    assert_eq!(json, json!({"schemaVersion": 1, "events": [recorded()[1]]}));
    assert!(output(&["-o", "yaml"]).contains("schemaVersion: 1\n"));
}

#[test]
fn watch_prints_each_event_once_also_after_the_stream_has_ended() {
    let api = Api::start();
    let command = global_dns(&[
        "events",
        "--watch",
        "-o",
        "json",
        "--server",
        &api.address,
        "-n",
        "prod",
    ]);
    let mut process = Process::start("events --watch", command).unwrap();
    let wait = |process: &mut Process, text: &str| {
        let shown = |log: &Log| log.text().contains(text).then_some(());
        process.wait_for(text, shown).unwrap();
    };
    wait(&mut process, "sentence 1");
    api.send(": a comment\n\n");
    api.send("event: table\ndata: {\"generation\":3}\n\n");
    api.send(&change(&event(3, "endpoint-added", ["shop", "cart"])));
    // A frame in two parts.
    let frame = change(&event(4, "endpoint-gone", ["prod", "db"]));
    api.send(&frame[..20]);
    api.send(&frame[20..]);
    wait(&mut process, "sentence 4");
    api.send("event: reset\ndata: {}\n\n");
    wait(&mut process, "the server restarted");
    api.frames.send(None).unwrap();
    wait(&mut process, "reconnecting");
    api.send(&change(&event(5, "endpoint-added", ["prod", "db"])));
    wait(&mut process, "sentence 5");
    // A shell that starts the tests in the background makes them ignore SIGINT.
    process.signal("TERM").unwrap();
    assert_eq!(process.end().unwrap().code(), None);
    let events = process.log().events();
    let ids = events.iter().filter_map(|event| event["id"].as_u64());
    assert_eq!(ids.collect::<Vec<_>>(), [1, 4, 5]);
    let requests: Vec<String> = api.requests.try_iter().collect();
    let [list, stream] = [
        "GET /api/v1/events HTTP/1.1",
        "GET /api/v1/events?after=2 HTTP/1.1",
    ];
    assert_eq!(requests, [list, stream, list, stream]);
}

#[test]
fn flags_of_objects_are_no_flags_of_events() {
    for flag in ["--file=x", "--direct", "--zone=global"] {
        assert_eq!(run_global_dns(&["events", flag]).code, Some(2), "{flag}");
    }
}
