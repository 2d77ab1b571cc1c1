//! Decodes replies with dnspython too, in one child process for all tests. Off by default, because not every machine
//! has dnspython.

use std::env;
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{ChildStdin, ChildStdout};
use std::sync::{Mutex, OnceLock, PoisonError};

use serde::Deserialize;
use support::commands::command;
use support::process::Process;
use support::query::hex;
use support::reply::{Record, Reply};

const PROGRAM: &str = include_str!("second_decoder.py");
/// Environment variable: enables the second decoder, and names a Python interpreter that has dnspython. `tests/run all`
/// sets it.
const SECOND_DECODER: &str = "GLOBAL_DNS_TEST_SECOND_DECODER";

/// A dnspython process. It exits with the test process, because its input ends.
struct Decoder {
    _process: Process,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// The parts of a message that are compared.
#[derive(Debug, PartialEq, Eq, Deserialize)]
struct Message {
    rcode: u16,
    opcode: u8,
    questions: usize,
    /// Records in zone file syntax.
    answer: Vec<String>,
    authority: Vec<String>,
    additional: Vec<String>,
    opt: Option<Opt>,
}

/// An OPT record.
#[derive(Debug, PartialEq, Eq, Deserialize)]
struct Opt {
    version: u8,
    payload: u16,
    flags: u16,
    /// Option codes, and values in hexadecimal.
    options: Vec<(u16, String)>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Decoded {
    Message(Message),
    Error(String),
}

/// Asserts that dnspython decodes the same message, if the second decoder is enabled.
pub fn assert_same_decoding(octets: &[u8], reply: &Reply) {
    static DECODER: OnceLock<Option<Mutex<Decoder>>> = OnceLock::new();
    let open = || Some(Mutex::new(Decoder::open(env::var_os(SECOND_DECODER)?)));
    let Some(decoder) = DECODER.get_or_init(open) else {
        return;
    };
    let mut decoder = decoder.lock().unwrap_or_else(PoisonError::into_inner);
    let hex = hex(octets);
    writeln!(decoder.input, "{hex}").unwrap();
    let mut line = String::new();
    decoder.output.read_line(&mut line).unwrap();
    match serde_json::from_str(&line).unwrap() {
        Decoded::Message(decoded) => assert_eq!(Message::from(reply), decoded, "{hex}"),
        Decoded::Error(error) => panic!("dnspython cannot decode the reply: {error}\n{hex}"),
    }
}

impl From<&Reply> for Message {
    fn from(reply: &Reply) -> Self {
        let texts = |records: &[Record]| records.iter().map(Record::to_string).collect();
        Self {
            rcode: reply.rcode,
            opcode: reply.opcode,
            questions: reply.questions.len(),
            answer: texts(&reply.answers),
            authority: texts(&reply.authority),
            additional: texts(&reply.additional),
            opt: reply.opt.as_ref().map(|opt| Opt {
                version: opt.version,
                payload: opt.payload,
                flags: opt.flags,
                options: opt
                    .options
                    .iter()
                    .map(|(code, value)| (*code, hex(value)))
                    .collect(),
            }),
        }
    }
}

impl Decoder {
    fn open(python: OsString) -> Self {
        let mut command = command(python);
        command.args(["-c", PROGRAM]);
        let mut process = Process::start_with_pipes("dnspython", command).unwrap();
        let (input, output) = process.pipes();
        Self {
            _process: process,
            input,
            output: BufReader::new(output),
        }
    }
}
