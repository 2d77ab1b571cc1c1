//! The second decoder: dnspython, in one child process for all tests. Off by default, because not every machine has it.

use std::env;
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use serde::Deserialize;

use super::reply::Message;

const PROGRAM: &str = include_str!("second_decoder.py");
/// Names a Python that has dnspython; `tests/run` prepares one.
const PYTHON: &str = "GLOBAL_DNS_TEST_PYTHON";
/// Set for the tests that are to use the second decoder: the Python to start.
const SECOND_DECODER: &str = "GLOBAL_DNS_TEST_SECOND_DECODER";

/// The child. It ends with this process, because its input ends then.
struct Decoder {
    _child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Decoded {
    Message(Message),
    Error(String),
}

/// Runs all other tests of this suite once more, with the second decoder.
#[test]
#[ignore = "needs Python with dnspython"]
fn dnspython_decodes_every_reply_as_hickory_does() {
    let mut suite = Command::new(env::current_exe().unwrap());
    let output = suite.env(SECOND_DECODER, python()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    let result = text.lines().rfind(|line| line.starts_with("test result: "));
    let result = result.unwrap_or_else(|| panic!("no result: {text}"));
    assert!(!result.contains(" 0 passed"), "{result}");
}

/// Decodes a message, if this run uses the second decoder.
pub fn decode(bytes: &[u8]) -> Option<Result<Message, String>> {
    static DECODER: OnceLock<Option<Mutex<Decoder>>> = OnceLock::new();
    let open = || Some(Mutex::new(Decoder::open(env::var_os(SECOND_DECODER)?)));
    let decoder = DECODER.get_or_init(open).as_ref()?;
    let mut decoder = decoder.lock().unwrap_or_else(PoisonError::into_inner);
    let hex: String = bytes.iter().map(|octet| format!("{octet:02x}")).collect();
    writeln!(decoder.input, "{hex}").unwrap();
    let mut line = String::new();
    decoder.output.read_line(&mut line).unwrap();
    Some(match serde_json::from_str(&line).unwrap() {
        Decoded::Message(message) => Ok(message),
        Decoded::Error(error) => Err(error),
    })
}

impl Decoder {
    fn open(python: OsString) -> Self {
        let mut child = Command::new(python)
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
        "{python:?} has no dnspython: tests/run conformance prepares one and sets {PYTHON}"
    );
    python
}
