//! The second decoder: dnspython, in one child process for all tests.

use std::env;
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use serde::Deserialize;

use super::reply::Message;

const PROGRAM: &str = include_str!("other_eyes.py");
/// Names the Python that has dnspython; `tests/run` prepares one.
const PYTHON: &str = "GLOBAL_DNS_TEST_PYTHON";

/// The child. It ends with this process, because its input ends then.
struct Eyes {
    _child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Seen {
    Message(Message),
    Error(String),
}

/// Decodes a message.
pub fn decode(bytes: &[u8]) -> Result<Message, String> {
    static EYES: OnceLock<Mutex<Eyes>> = OnceLock::new();
    let eyes = EYES.get_or_init(|| Mutex::new(Eyes::open()));
    let mut eyes = eyes.lock().unwrap_or_else(PoisonError::into_inner);
    let hex: String = bytes.iter().map(|octet| format!("{octet:02x}")).collect();
    writeln!(eyes.input, "{hex}").unwrap();
    let mut line = String::new();
    eyes.output.read_line(&mut line).unwrap();
    match serde_json::from_str(&line).unwrap() {
        Seen::Message(message) => Ok(message),
        Seen::Error(error) => Err(error),
    }
}

impl Eyes {
    fn open() -> Self {
        let mut child = Command::new(python())
            .args(["-c", PROGRAM])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self {
            _child: child,
            input,
            output: BufReader::new(output),
        }
    }
}

fn python() -> OsString {
    let python = env::var_os(PYTHON).unwrap_or_else(|| "python3".into());
    let mut check = Command::new(&python);
    check.args(["-c", "import dns.message"]);
    let has_dnspython = check
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success());
    assert!(
        has_dnspython,
        "{python:?} has no dnspython: run tests/run conformance, which prepares one and sets {PYTHON}"
    );
    python
}
