//! Chromium, driven by its DevTools protocol over a pair of pipes. Each message is JSON and ends with a zero octet.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use support::commands::{guarded, tool};
use support::process::Process;
use support::wait::TIMEOUT;
use tempfile::TempDir;

/// Chromium reads requests from descriptor 3 and writes responses to descriptor 4.
const PIPES: &str = r#"exec "$0" "$@" 3<&0 4>&1 0</dev/null 1>&2"#;

/// A window: width, height, and the color scheme of the reader.
#[derive(Clone, Copy, Debug)]
pub struct Window(pub u32, pub u32, pub &'static str);

pub const WIDE: Window = Window(1440, 900, "light");
pub const PHONE: Window = Window(360, 740, "light");

/// A running Chromium with one page. The drop ends it.
pub struct Chromium {
    requests: ChildStdin,
    messages: Receiver<Value>,
    last: u64,
    session: Value,
    /// The ID of the document that is loaded.
    loaded: Value,
    /// Errors and warnings of the console, exceptions, and violations of the policy.
    complaints: Vec<String>,
    _process: Process,
    _profile: TempDir,
}

// === impl Chromium ===

impl Chromium {
    /// Starts Chromium with an empty page in a window.
    pub fn start(window: Window) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let mut command = guarded("/bin/sh");
        command.args(["-c", PIPES]).arg(tool("chromium").unwrap());
        command.args(["--headless=new", "--no-sandbox", "--disable-gpu"]);
        command.args(["--no-first-run", "--disable-background-networking"]);
        command.args(["--disable-component-update", "--remote-debugging-pipe"]);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        command.env("HOME", profile.path()).env_remove("DISPLAY");
        let process = Process::start_with_pipes("chromium", command).unwrap();
        let mut process = process.with_children();
        let (requests, responses) = process.pipes();
        let (sender, messages) = channel();
        thread::spawn(move || read(responses, &sender));
        let mut chromium = Self {
            requests,
            messages,
            last: 0,
            session: Value::Null,
            loaded: Value::Null,
            complaints: Vec::new(),
            _process: process,
            _profile: profile,
        };
        let target = chromium.call("Target.createTarget", json!({"url": "about:blank"}));
        let id = &target["targetId"];
        let attach = json!({"targetId": id, "flatten": true});
        chromium.session = chromium.call("Target.attachToTarget", attach)["sessionId"].take();
        for domain in ["Page", "Runtime", "Log"] {
            chromium.call(&format!("{domain}.enable"), json!({}));
        }
        let events = json!({"enabled": true});
        chromium.call("Page.setLifecycleEventsEnabled", events);
        chromium.resize(window);
        chromium
    }

    /// Starts Chromium and opens a page in a window.
    pub fn open(url: &str, window: Window) -> Self {
        let mut chromium = Self::start(window);
        chromium.go(url);
        chromium
    }

    // === Protocol ===

    fn send(&mut self, method: &str, params: Value) -> u64 {
        self.last += 1;
        let mut message = json!({"id": self.last, "method": method, "params": params});
        if self.session.is_string() {
            message["sessionId"] = self.session.clone();
        }
        self.requests
            .write_all(format!("{message}\0").as_bytes())
            .unwrap();
        self.last
    }

    /// Calls a method of the protocol and returns its result.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let rest = deadline.saturating_duration_since(Instant::now());
            let message = self.messages.recv_timeout(rest);
            let mut message = message.unwrap_or_else(|error| panic!("{method}: {error}"));
            if message["id"] == id {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].take();
            }
            self.note(&message);
        }
    }

    /// Handles an event of the protocol.
    fn note(&mut self, message: &Value) {
        let params = &message["params"];
        match message["method"].as_str() {
            Some("Page.lifecycleEvent") if params["name"] == "load" => {
                self.loaded = params["loaderId"].clone();
            }
            Some("Runtime.exceptionThrown") => self.complain(&params["exceptionDetails"]),
            Some("Runtime.consoleAPICalled") if params["type"] != "log" => self.complain(params),
            Some("Log.entryAdded") if params["entry"]["level"] != "verbose" => {
                self.complain(&params["entry"])
            }
            _ => {}
        }
    }

    fn complain(&mut self, about: &Value) {
        self.complaints.push(about.to_string());
    }

    /// Runs a script before those of each document.
    pub fn run_first(&mut self, script: &str) {
        let source = json!({"source": script});
        self.call("Page.addScriptToEvaluateOnNewDocument", source);
    }

    // === Page ===

    /// Opens an address in a new document, and waits until it is loaded.
    pub fn go(&mut self, url: &str) {
        let document = self.call("Page.navigate", json!({"url": url}))["loaderId"].take();
        while self.loaded != document {
            let message = self.messages.recv_timeout(TIMEOUT);
            let message = message.unwrap_or_else(|error| panic!("{url}: {error}"));
            self.note(&message);
        }
    }

    /// Sets the size of the window and the color scheme. Motion is reduced, so that pictures do not depend on the time.
    pub fn resize(&mut self, Window(width, height, scheme): Window) {
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.call("Emulation.setDeviceMetricsOverride", metrics);
        let features = json!([
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]);
        self.call("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    /// Evaluates an expression of JavaScript, and waits if it is a promise.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "awaitPromise": true, "returnByValue": true, "allowUnsafeEvalBlockedByCSP": false});
        let mut result = self.call("Runtime.evaluate", params);
        let exception = &result["exceptionDetails"];
        assert!(exception.is_null(), "{expression}: {exception}");
        result["result"]["value"].take()
    }

    /// Waits until an expression of JavaScript is true.
    pub fn wait_for(&mut self, condition: &str) {
        let milliseconds = TIMEOUT.as_millis() / 2;
        let script = format!(
            "new Promise((resolve) => {{ const end = Date.now() + {milliseconds}; const look = () => \
             ({condition}) ? resolve(true) : Date.now() > end ? resolve(false) : setTimeout(look, 10); look(); }})"
        );
        if self.evaluate(&script) != true {
            self.screenshot("failed");
            let text = self.evaluate("document.body.innerText");
            panic!(
                "not reached: {condition}\n{text}\n{}",
                self.complaints.join("\n")
            );
        }
    }

    /// Waits until an element contains a text.
    pub fn wait_for_text(&mut self, selector: &str, text: &str) {
        self.wait_for(&format!(
            "document.querySelector({})?.innerText.includes({})",
            json!(selector),
            json!(text)
        ));
    }

    /// Returns the visible text of an element.
    pub fn text(&mut self, selector: &str) -> String {
        let text = self.evaluate(&format!(
            "document.querySelector({}).innerText",
            json!(selector)
        ));
        text.as_str().unwrap().to_owned()
    }

    /// Clicks on the center of the element that an expression returns.
    pub fn click(&mut self, element: &str) {
        let center = self.evaluate(&format!(
            "(() => {{ const box = ({element}).getBoundingClientRect(); \
             return [box.x + box.width / 2, box.y + box.height / 2]; }})()"
        ));
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({"type": kind, "x": center[0], "y": center[1], "button": "left", "buttons": 1, "clickCount": 1});
            self.call("Input.dispatchMouseEvent", event);
        }
    }

    /// Presses a key: `Enter`, `Tab`, `Escape`.
    pub fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "Enter" => (13, "\r"),
            "Tab" => (9, ""),
            "Escape" => (27, ""),
            _ => panic!("unknown key {key}"),
        };
        for kind in ["keyDown", "keyUp"] {
            let mut event =
                json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code});
            if kind == "keyDown" && !text.is_empty() {
                event["text"] = json!(text);
            }
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// Saves a picture of the window as `target/page/NAME.png`.
    pub fn screenshot(&mut self, name: &str) {
        let captured = self.call("Page.captureScreenshot", json!({"format": "png"}));
        let picture = STANDARD.decode(captured["data"].as_str().unwrap()).unwrap();
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("page");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("{name}.png")), picture).unwrap();
    }

    /// Fails if the console has reported something.
    pub fn assert_no_complaint(&mut self) {
        // Events come before the next response.
        self.evaluate("0");
        assert_eq!(self.complaints, [""; 0]);
    }
}

/// Reads messages until Chromium ends.
fn read(responses: ChildStdout, messages: &Sender<Value>) {
    for message in BufReader::new(responses).split(0).map_while(Result::ok) {
        let Ok(message) = serde_json::from_slice(&message) else {
            return;
        };
        if messages.send(message).is_err() {
            return;
        }
    }
}
