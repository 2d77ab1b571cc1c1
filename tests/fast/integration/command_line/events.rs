//! `events`: the output, filters, and a stream that ends. The server is simulated, so that the events are known.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};
use support::commands::global_dns;
use support::objects::{Manifest, mirror};
use support::process::{Log, Process, run_global_dns};
use support::server::Server;
use support::wait::wait_for;

fn event(id: u64, kind: &str, service: &str) -> Value {
    json!({
        "id": id, "time": format!("2026-11-22T15:00:{id:02}Z"), "kind": kind,
        "services": [service, "prod/web"], "cluster": "west", "text": format!("sentence {id}"),
    })
}

fn recorded() -> Vec<Value> {
    vec![event(1, "grew", "prod/db"), event(2, "down", "shop/cart")]
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
        let to_send = Arc::new(Mutex::new(to_send));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (to_send, seen) = (to_send.clone(), seen.clone());
                thread::spawn(move || serve(&stream.unwrap(), &to_send, &seen));
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
fn serve(stream: &TcpStream, to_send: &Mutex<Receiver<Option<String>>>, seen: &Sender<String>) {
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
            let body = json!({"schemaVersion": 2, "events": recorded()}).to_string();
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
        let to_send = to_send.lock().unwrap();
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
            "2026-11-22T15:00:01Z grew prod/db and 1 more sentence 1",
            "2026-11-22T15:00:02Z down shop/cart and 1 more sentence 2",
        ]
    );
    assert_eq!(
        rows(&output(&["-o", "wide", "--kind", "grew"])),
        [
            "ID TIME KIND SERVICE CLUSTER TEXT",
            "1 2026-11-22T15:00:01Z grew prod/db and 1 more west sentence 1",
        ]
    );
    let json: Value = serde_json::from_str(&output(&["-o", "json", "--kind=down"])).unwrap();
    assert_eq!(json, json!({"schemaVersion": 2, "events": [recorded()[1]]}));
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
        "--kind=grew,shrank",
    ]);
    let mut process = Process::start("events --watch", command).unwrap();
    let wait = |process: &mut Process, text: &str| {
        let shown = |log: &Log| log.text().contains(text).then_some(());
        process.wait_for(text, shown).unwrap();
    };
    wait(&mut process, "sentence 1");
    // An event that both responses have.
    api.send(&change(&recorded()[0]));
    api.send(": a comment\n\n");
    api.send("event: table\ndata: {\"generation\":3}\n\n");
    api.send(&change(&event(3, "up", "shop/cart")));
    // A frame in two parts.
    let frame = change(&event(4, "shrank", "prod/db"));
    api.send(&frame[..20]);
    api.send(&frame[20..]);
    wait(&mut process, "sentence 4");
    api.send("event: reset\ndata: {}\n\n");
    wait(&mut process, "the server no longer has all events");
    api.frames.send(None).unwrap();
    wait(&mut process, "reconnecting");
    api.send(&change(&event(5, "grew", "prod/db")));
    wait(&mut process, "sentence 5");
    // A shell that starts the tests in the background makes them ignore SIGINT.
    process.signal("TERM").unwrap();
    assert_eq!(process.end().unwrap().code(), None);
    let events = process.log().events();
    let ids = events.iter().filter_map(|event| event["id"].as_u64());
    assert_eq!(ids.collect::<Vec<_>>(), [1, 4, 5]);
    let requests: Vec<String> = api.requests.try_iter().collect();
    // A stream and a list, twice. The stream has no position, because a new server would not know it.
    let selected = "GET /api/v1/events?kind=grew,shrank HTTP/1.1";
    assert_eq!(
        requests,
        ["GET /api/v1/events HTTP/1.1", selected].repeat(2)
    );
}

/// A server without events has not been restarted.
#[test]
fn watch_of_a_new_server_prints_its_first_event_and_nothing_else() {
    let east = mirror("prod", "db", "east").endpoint("db-0", &["10.96.1.1"]);
    let server = Server::with_objects(east.clone(), &[]);
    assert_eq!(server.api("/api/v1/events")["events"], json!([]));
    let address = server.api.to_string();
    let command = global_dns(&["events", "--watch", "-o", "json", "--server", &address]);
    let mut process = Process::start("events --watch", command).unwrap();
    // Until the stream is open, the list of the command has the changes.
    let mut hosts = 1;
    wait_for("an event", || {
        hosts += 1;
        let pods = (0..hosts).fold(mirror("prod", "db", "east"), |db, host| {
            db.endpoint(&format!("db-{host}"), &[&format!("10.96.1.{}", host + 1)])
        });
        server.rewrite(&Manifest::from(pods).text());
        process.log().text().contains("grew").then_some(())
    });
    process.signal("TERM").unwrap();
    assert_eq!(process.end().unwrap().code(), None);
    let text = process.log().text();
    for line in text.lines() {
        let event: Result<Value, _> = serde_json::from_str(line);
        assert!(event.is_ok_and(|event| event["kind"] == "grew"), "{text}");
    }
}
