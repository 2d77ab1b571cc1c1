//! `demo`: the built-in sample and the printed commands.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use support::process::{run_global_dns, run_tool};
use support::reply::sorted_texts;
use support::repository::repository;
use support::server::Server;
use support::wait::wait_for;
use support::wire::Transport;

/// Starts the demo on free ports. A file receives its output.
fn demo() -> (Server, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let printed = folder.path().join("printed");
    let output = Stdio::from(File::create(&printed).unwrap());
    let server = Server::demo(folder, output);
    (server, printed)
}

/// Waits for the complete output of the demo and returns it.
fn text(printed: &Path) -> String {
    wait_for("the hints", || {
        let text = fs::read_to_string(printed).unwrap();
        text.contains("Ctrl-C").then_some(text)
    })
}

/// Somebody else on the machine could prepare a folder with a name that is known before, with a link in it.
#[test]
fn sample_is_in_a_folder_of_its_own_that_only_its_user_can_open() {
    let (one, other) = (demo().0, demo().0);
    let folders = [&one, &other].map(|server| {
        let entries = fs::read_dir(server.folder()).unwrap();
        let mut paths = entries.map(|entry| entry.unwrap().path());
        let folder = paths.find(|path| path.is_dir()).unwrap();
        let mode = folder.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{}", folder.display());
        let name = folder.file_name().unwrap().to_str().unwrap();
        name.to_owned()
    });
    assert_ne!(folders[0], folders[1]);
}

#[test]
#[ignore = "needs dig"]
fn each_printed_command_works() {
    let (server, printed) = demo();
    let mut questions = Vec::new();
    let mut commands = Vec::new();
    let text = text(&printed);
    // Commands are indented, unlike the text around them.
    for line in text.lines().filter_map(|line| line.strip_prefix("  ")) {
        let words: Vec<&str> = line.split(' ').collect();
        let (program, arguments) = words.split_first().unwrap();
        let ended = match *program {
            "global-dns" => run_global_dns(arguments),
            program => run_tool(program, arguments),
        };
        assert_eq!(ended.code, Some(0), "{line}: {}", ended.stderr);
        let ["dig", at, "-p", port, asked @ ..] = words.as_slice() else {
            assert_eq!(*program, "global-dns", "{line}");
            assert!(ended.stdout.contains("db.prod"), "{line}: {}", ended.stdout);
            commands.push(arguments[0].to_owned());
            continue;
        };
        assert_eq!(format!("{}:{port}", &at[1..]), server.dns.to_string());
        questions.push(asked.join(" "));
        let output = &ended.stdout;
        assert!(output.contains("status: NOERROR"), "{line}: {output}");
        assert!(output.contains("flags: qr aa rd;"), "{line}: {output}");
        assert!(!output.contains("ANSWER: 0,"), "{line}: {output}");
        assert!(!output.contains("WARNING: Message"), "{line}: {output}");
    }
    // The sample has a service in three clusters, ports, names of clusters and hosts, dashes, and a gateway that is down.
    let expected = [
        "db.prod.global",
        "_sql._tcp.db.prod.global SRV",
        "db.global",
        "east.db.prod.global",
        "db-0.west.db.prod.global",
        "db-east.shop.global",
        "cache.prod.global",
        "pay.shop.global",
        "_http._tcp.pay.shop.global SRV",
        "api.shop.global",
        "web.shop.global",
        "db.prod.svc.clusterset.local",
    ];
    assert_eq!(questions, expected);
    assert_eq!(commands, ["explain", "table"]);
}

/// The answers, in any order.
#[test]
fn commands_of_the_readme_print_its_output() {
    let (server, _printed) = demo();
    let readme = fs::read_to_string(repository("README.md")).unwrap();
    let examples = readme
        .split("\n$ dig @127.0.0.1 -p 1053 +noall +answer ")
        .skip(1);
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut count = 0;
    for example in examples {
        let (question, output) = example
            .split("```")
            .next()
            .unwrap()
            .split_once('\n')
            .unwrap();
        let question = if question.contains(' ') {
            question.to_owned()
        } else {
            format!("{question} A")
        };
        let reply = server.ask(&question, Transport::Udp);
        let mut expected: Vec<String> = output.lines().map(words).collect();
        expected.sort();
        assert_eq!(sorted_texts(&reply.answers), expected, "{question}");
        count += 1;
    }
    assert_eq!(count, 2);
}

#[test]
fn sample_can_be_changed_and_is_removed_with_the_demo() {
    let (mut server, printed) = demo();
    let printed = text(&printed);
    let (_, rest) = printed.split_once("Edit ").unwrap();
    let copy = rest.split(' ').next().unwrap().to_owned();
    let text = fs::read_to_string(&copy).unwrap();
    fs::write(&copy, text.replace("10.96.30.1", "10.96.30.7")).unwrap();
    server.wait_for_outcome("db-east.shop.global. A", "10.96.30.7");
    server.signal("INT");
    assert_eq!(server.exit_code(), Some(0));
    assert!(!Path::new(&copy).exists(), "{copy}");
}
