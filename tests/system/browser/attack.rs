//! Markup in every text of the API, and in names that a link contains. The page and its policy are those of the server.
//! Requests of pages of other sites.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::thread;

use serde_json::{Value, json};
use support::server::Server;
use support::wait::wait_for;

use crate::browser::chromium::{Chromium, WIDE};
use crate::browser::{demo, open, url};

const ATTACK: &str = "<img src=x onerror=\"window.attacked=1\"><script>window.attacked=1</script>";

/// Puts the attack before every text of a document. The server alone makes times and names sections.
fn poison(document: &mut Value) {
    match document {
        Value::String(text) => text.insert_str(0, ATTACK),
        Value::Array(items) => items.iter_mut().for_each(poison),
        Value::Object(fields) => {
            let is_text = |name: &&String| !["time", "section"].contains(&name.as_str());
            let fields = fields.iter_mut().filter(|(name, _)| is_text(name));
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

/// What takes the place of requests to the API: a document for each view, and a stream of messages.
const SUBSTITUTE: &str = "
    window.fetch = async (path) => new Response(documents[/api.v1.(\\w+)/.exec(path)[1]]);
    window.EventSource = class extends EventTarget {
        static OPEN = 1;
        readyState = 1;
        constructor() {
            super();
            setTimeout(() => messages.forEach(([type, data]) => this.dispatchEvent(new MessageEvent(type, {data}))), 500);
        }
        close() {}
    };";

/// Returns a script with poisoned documents of a server, with fields that the demo does not have.
fn substitute(server: &Server) -> String {
    let event = json!({"id": 1, "time": "2026-01-01T00:00:00Z", "kind": "grew", "services": ["prod/db"], "text": "a sentence"});
    let line = |section: &str, text: &str| json!({"section": section, "text": text});
    let mut change = event.clone();
    change["section"] = json!("events");
    let mut further = BTreeMap::from([
        ("events", vec![event.clone()]),
        (
            "explain",
            vec![
                line("nearest names that exist", "cache.prod.global."),
                change,
            ],
        ),
    ]);
    let mut documents = json!({});
    for view in ["status", "problems", "table", "events", "explain"] {
        let name = ["", "?name=db.prod.global"][usize::from(view == "explain")];
        let mut document = server.api(&format!("/api/v1/{view}{name}"));
        let items = document["items"].as_array_mut().unwrap();
        items.extend(further.remove(view).unwrap_or_default());
        if view == "status" {
            let link = json!({"name": "north", "link": "frozen", "since": "2026-01-01T00:00:00Z"});
            items[0]["clusters"].as_array_mut().unwrap().push(link);
        }
        items.iter_mut().for_each(poison);
        documents[view] = document.to_string().into();
    }
    let mut streamed = event;
    streamed["id"] = json!(2);
    streamed["text"] = json!("streamed");
    poison(&mut streamed);
    let table = json!({"version": 1, "services": [ATTACK]});
    let messages = json!([
        ["change", streamed.to_string()],
        ["table", table.to_string()]
    ]);
    format!("const documents = {documents}, messages = {messages};{SUBSTITUTE}")
}

#[test]
fn markup_in_every_field_of_the_api_is_shown_as_text() {
    let server = demo();
    let mut chromium = Chromium::start(WIDE);
    chromium.run_first(&substitute(&server));
    chromium.go(&url(&server, ""));
    chromium.wait_for("document.querySelector('#causes summary')");
    chromium.evaluate("document.querySelector('#causes summary').click()");
    for (place, texts) in [
        (
            "location.hash + '&name=db.prod.global'",
            &[
                ("#own-cluster", "hub"),
                ("#replica", ""),
                ("#zone", "svc.clusterset.local."),
                ("#causes", "Gateway is down"),
                ("#causes .section", "check the gateway"),
                ("#causes .section", "gateway-down"),
                ("#causes .affected", "cluster 'west': cache-0"),
                ("#map thead", "north"),
                ("#map thead", "frozen"),
                ("#map tbody", "db"),
                ("#map tbody", "headless"),
                ("#content", "10.96.10.1"),
                ("#content", "a sentence"),
                ("#content", "Mirror of a service in another namespace"),
                ("#content", "its pod is not ready"),
                ("#content", "EndpointSlice/prod/db-x7k2p"),
                ("#content", "cache.prod.global"),
            ][..],
        ),
        (
            "'#show=changes'",
            &[("#content", "a sentence"), ("#content", "streamed")],
        ),
    ] {
        chromium.evaluate(&format!("location.hash = {place}"));
        for (selector, text) in texts {
            let text = json!(format!("{ATTACK}{text}"));
            chromium.wait_for(&format!(
                "document.querySelector('{selector}')?.textContent.includes({text})"
            ));
        }
        let overflow = chromium.evaluate("document.documentElement.scrollWidth - innerWidth");
        assert!(overflow.as_i64().unwrap() <= 0, "{place}: {overflow}");
        assert_no_markup(&mut chromium);
    }
    chromium.assert_no_complaint();
}

#[test]
fn markup_in_a_link_is_shown_as_text() {
    let server = demo();
    let mut chromium = open(&server, "", WIDE);
    for place in [
        "#name=",
        "#name=%3Cimg%20src=x%20onerror=%22window.attacked=1%22%3E",
        "#name=%",
        "#//evil.example",
        "#show=<img src=x>&open=<img src=x>",
        "#q=<img src=x>&state=<img src=x>&zone=<img src=x>&namespace=<img src=x>",
    ] {
        chromium.go("about:blank");
        chromium.go(&url(&server, place));
        chromium.wait_for("document.body.dataset.connection === 'live'");
        if place.contains("img%20src") {
            chromium.wait_for_text("#title", "<img src=x");
            chromium.wait_for_text("#content", "img");
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

/// A web page makes the browser send requests to a port-forward. They have no `Origin`. An icon would be loaded.
#[test]
fn pages_of_other_sites_get_no_response_and_can_only_link_to_the_page() {
    let server = demo();
    let own = format!("http://localhost:{}", server.api.port());
    let port = serve_document(format!(
        "<!doctype html><title>foreign</title><a href='{own}/'>link</a><script>\
         const image = new Image(); \
         image.onload = image.onerror = ({{type}}) => {{ window.loaded = type; }}; \
         image.src = '{own}/page/icon.svg';</script>"
    ));
    // Another port of the same host is the same site. The other name of the host is another site.
    for host in ["localhost", "127.0.0.1"] {
        let mut chromium = Chromium::start(WIDE);
        chromium.go(&format!("http://{host}:{port}/"));
        chromium.wait_for("window.loaded");
        assert_eq!(chromium.evaluate("window.loaded"), "error", "{host}");
        chromium.evaluate("document.querySelector('a').click()");
        wait_for("the page", || {
            let tree = chromium.call("Page.getFrameTree", json!({}));
            (tree["frameTree"]["frame"]["url"] == format!("{own}/")).then_some(())
        });
        chromium.wait_for_text("#connection", "Live");
    }
}
