//! Markup in every text of the API, and in names that a link contains. The page and its policy are those of the server.
//! Requests of pages of other sites.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::thread;

use serde_json::{Value, json};
use support::wait::wait_for;

use crate::browser::chromium::{Chromium, WIDE};
use crate::browser::{demo, open, url};

const ATTACK: &str = "<img src=x onerror=\"window.attacked=1\"><script>window.attacked=1</script>";

/// Puts the attack before every text of a document. Times are made by the server alone.
fn poison(document: &mut Value) {
    match document {
        Value::String(text) => text.insert_str(0, ATTACK),
        Value::Array(items) => items.iter_mut().for_each(poison),
        Value::Object(fields) => {
            let fields = fields.iter_mut().filter(|(name, _)| *name != "time");
            fields.for_each(|(_, value)| poison(value));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn assert_no_markup(chromium: &mut Chromium) {
    assert_eq!(chromium.evaluate("window.attacked ?? 'safe'"), "safe");
    assert_eq!(
        chromium.evaluate("document.querySelectorAll('img, iframe, script:not([src])').length"),
        0
    );
}

#[test]
fn markup_in_every_field_of_the_api_is_shown_as_text() {
    let server = demo();
    let mut summary = server.api("/api/v1/summary");
    // Fields that this sample does not have.
    let link = json!({"name": "east", "link": "frozen", "since": "2026-01-01T00:00:00Z"});
    summary["clusters"].as_array_mut().unwrap().push(link);
    let mut update = json!({"tables": 7, "services": [summary["services"][1]], "removed": []});
    update["services"][0]["service"] = json!("streamed");
    let mut problems = server.api("/api/v1/problems");
    let mut explanation = server.api("/api/v1/explain?name=db.prod.global");
    explanation["nearest"] = json!(["cache.prod.global."]);
    explanation["notes"] = json!(["a note"]);
    explanation["names"] =
        json!([{"name": "pay.shop.global.", "namespace": "shop", "service": "pay"}]);
    let mut event = json!({"id": 1, "time": "2026-01-01T00:00:00Z", "kind": "grew", "services": ["prod/db"],
        "cluster": "east", "endpoints": ["db-0"], "text": "a sentence"});
    explanation["history"] = json!([event]);
    for document in [
        &mut summary,
        &mut update,
        &mut problems,
        &mut explanation,
        &mut event,
    ] {
        poison(document);
    }
    let events = json!({"schemaVersion": 2, "events": [event]});
    event["id"] = json!(2);
    let stream = format!("event: change\ndata: {event}\n\nevent: summary\ndata: {update}\n\n");
    let mut chromium = Chromium::start(WIDE);
    chromium.substitute(Box::new(move |path| {
        let document = match path.split('?').next().unwrap() {
            "summary" => &summary,
            "problems" => &problems,
            "explain" => &explanation,
            "status" => return None,
            "events" if path == "events" => &events,
            // The end of the stream makes the page connect again.
            _ => return Some((stream.clone(), "text/event-stream")),
        };
        Some((document.to_string(), "application/json"))
    }));
    chromium.go(&url(&server, ""));
    chromium.wait_for("document.querySelector('#attention .fold')");
    chromium.evaluate("document.querySelector('#attention .fold').click()");
    for (route, texts) in [
        (
            "location.hash.replace('?', 'problems?name=db.prod.global&')",
            &[
                ("#cluster", "hub"),
                ("#replica", ""),
                ("#by-zone", "svc.clusterset.local."),
                ("#sentence", "ready"),
                ("#attention", "Gateway is down"),
                ("#attention .unfolded", "check the gateway"),
                ("#attention .affected", "in this cluster: db-2"),
                ("#problem-list", "Mirror of a service in another namespace"),
                ("#problem-list", "problems.html#namespace-mismatch"),
                ("#explanation", "10.96.10.1"),
                ("#explanation", "a note"),
                ("#explanation", "a sentence"),
                ("#explanation", "Pods are not ready"),
                ("#explanation", "its pod is not ready"),
                ("#explanation", "EndpointSlice/prod/db-x7k2p"),
                ("#explanation", "cache.prod.global"),
                ("#explanation", "pay.shop.global"),
            ][..],
        ),
        ("'#/changes'", &[("#change-list", "a sentence")]),
        (
            "'#/'",
            &[
                ("#map tbody", "db"),
                ("#map tbody", "streamed"),
                ("#map tbody", "headless"),
            ],
        ),
    ] {
        chromium.evaluate(&format!("location.hash = {route}"));
        for (selector, text) in texts {
            let text = json!(format!("{ATTACK}{text}"));
            chromium.wait_for(&format!(
                "document.querySelector('{selector}')?.textContent.includes({text})"
            ));
        }
        let overflow = chromium.evaluate("document.documentElement.scrollWidth - innerWidth");
        assert!(overflow.as_i64().unwrap() <= 0, "{route}: {overflow}");
        assert_no_markup(&mut chromium);
    }
    chromium.assert_no_complaint();
}

#[test]
fn markup_in_a_link_is_shown_as_text() {
    let server = demo();
    let mut chromium = open(&server, "", WIDE);
    for route in [
        "#/?name=",
        "#/?name=%3Cimg%20src=x%20onerror=%22window.attacked=1%22%3E",
        "#/?name=%",
        "#//evil.example",
        "#/changes?service=<img src=x>",
        "#/problems?kind=<img src=x>&offset=<img src=x>",
        "#/?q=<img src=x>&state=<img src=x>&zone=<img src=x>&open=<img src=x>",
    ] {
        chromium.go("about:blank");
        chromium.go(&url(&server, route));
        chromium.wait_for_text("#link", "Live");
        if route.contains("img%20src") {
            chromium.wait_for_text("#answer-title", "<img src=x");
            chromium.wait_for_text("#explanation", "img");
        }
        assert_no_markup(&mut chromium);
    }
}

/// The policy is the second line of defense. It must hold if the first one fails.
#[test]
fn policy_stops_markup_scripts_and_requests_to_other_hosts() {
    let server = demo();
    let mut chromium = open(&server, "", WIDE);
    for attempt in [
        "document.body.innerHTML = '<img src=x onerror=window.attacked=1>'",
        "document.body.insertAdjacentHTML('beforeend', '<b>')",
        "eval('window.attacked = 1')",
        "document.createElement('script').text = 'window.attacked = 1'",
        "document.body.setAttribute('onclick', 'window.attacked = 1')",
    ] {
        let tried = chromium.evaluate(&format!(
            "(() => {{ try {{ {attempt} }} catch (error) {{ return error.name }} }})()"
        ));
        assert!(
            tried == "TypeError" || tried == "EvalError",
            "{attempt}: {tried}"
        );
    }
    let blocked = chromium.evaluate(
        "new Promise((resolve) => { \
         addEventListener('securitypolicyviolation', (event) => resolve(event.effectiveDirective)); \
         fetch('http://192.0.2.1/').catch(() => undefined); })",
    );
    assert_eq!(blocked, "connect-src");
    assert_eq!(chromium.evaluate("window.attacked ?? 'safe'"), "safe");
}

/// Serves a document on a port of its own.
fn serve_document(html: String) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = BufReader::new(&stream).lines().map_while(Result::ok);
            // Chromium opens connections in advance, and closes them without a request.
            if head.any(|line| line.is_empty()) {
                let length = html.len();
                let fields = "content-type: text/html\r\nconnection: close";
                let head =
                    format!("HTTP/1.1 200 OK\r\n{fields}\r\ncontent-length: {length}\r\n\r\n");
                stream
                    .write_all(format!("{head}{html}").as_bytes())
                    .unwrap();
            }
        }
    });
    port
}

/// A web page makes the browser send requests to a port-forward. They have no `Origin`, and the page could measure how long
/// they take, or only cause load.
#[test]
fn pages_of_other_sites_get_no_response_and_can_only_link_to_the_page() {
    let server = demo();
    let own = format!("http://localhost:{}", server.api.port());
    let port = serve_document(format!(
        "<!doctype html><title>foreign</title><a href='{own}/'>link</a><script>\
         const image = new Image(); \
         const loaded = new Promise((resolve) => {{ image.onload = image.onerror = resolve; }}); \
         image.src = '{own}/page/icon.svg'; document.body.append(image); \
         const fetched = fetch('{own}/api/v1/summary', {{mode: 'no-cors'}}).catch(() => undefined); \
         Promise.all([loaded, fetched]).then(() => {{ window.done = true; }});</script>"
    ));
    // Another port of the same host is the same site. The other name of the host is another site.
    for host in ["localhost", "127.0.0.1"] {
        let mut chromium = Chromium::start(WIDE);
        chromium.record_responses();
        chromium.go(&format!("http://{host}:{port}/"));
        chromium.wait_for("window.done");
        // Chromium reports a response at any time, also after the page has handled it.
        let mut responses = wait_for("both responses", || {
            let responses = chromium.responses(&own);
            (responses.len() >= 2).then_some(responses)
        });
        responses.sort();
        let refused = ["/api/v1/summary", "/page/icon.svg"].map(|path| (path.to_owned(), 403));
        assert_eq!(responses, refused, "{host}");
        chromium.evaluate("document.querySelector('a').click()");
        wait_for("the page", || {
            let tree = chromium.call("Page.getFrameTree", json!({}));
            (tree["frameTree"]["frame"]["url"] == format!("{own}/")).then_some(())
        });
        chromium.wait_for_text("#link", "Live");
        let statuses: BTreeSet<u64> = chromium.responses(&own)[2..]
            .iter()
            .map(|(_, status)| *status)
            .collect();
        assert_eq!(statuses, BTreeSet::from([200]), "{host}");
    }
}
