//! curl: messages with POST and GET and curl's default headers, and names of web servers with `--doh-url`.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use support::commands::{command, tool};
use support::networks::{Network, in_new_network};
use support::objects::mirror;
use support::process::run;
use support::query::query;
use support::reply::Reply;
use support::server::Server;

use super::Method::Https;
use super::{Case, Encrypted, Reading, cases, file, row};
use crate::peers::clients::encrypted::certificates::Certificates;
use crate::peers::serve;

/// Address of an endpoint. Unlike a loopback address, a mirror may publish it.
pub const ENDPOINT: &str = "10.96.7.1";

/// Output of `--write-out`, and the message.
struct Response {
    write_out: String,
    body: Vec<u8>,
}

const WRITE_OUT: &str =
    "%{stderr}HTTP/%{http_version} %{response_code} %{content_type} %header{cache-control}";

/// Sends one query, with POST or GET.
fn ask(server: &Encrypted, options: &[&str], is_get: bool, case: &Case) -> Response {
    let folder = tempfile::tempdir().unwrap();
    // The identifier is zero, so that equal questions have equal URLs (RFC 8484 section 4.1).
    let query = query(&case.question()).with_id(0).0;
    let mut url = server.fill("https://localhost:{https-port}/dns-query");
    let mut command = command(tool("curl").unwrap());
    command.args([
        "--silent",
        "--show-error",
        "--ipv4",
        "--write-out",
        WRITE_OUT,
    ]);
    command
        .args(["--cacert", &server.files.path("ca.crt")])
        .args(options);
    if is_get {
        url = format!("{url}?dns={}", URL_SAFE_NO_PAD.encode(&query));
    } else {
        let query = file(&folder, "query", &query);
        command
            .arg("--data-binary")
            .arg(format!("@{}", query.display()));
        command.args(["--header", "content-type: application/dns-message"]);
    }
    let reply = folder.path().join("reply");
    let ended = run(command.arg("--output").arg(&reply).arg(url));
    assert!(ended.is_success(), "{}: {}", case.name, ended.stderr);
    Response {
        write_out: ended.stderr,
        body: std::fs::read(reply).unwrap(),
    }
}

#[test]
fn curl_reads_every_answer_by_post_and_by_get() {
    let server = Encrypted::start();
    for (version, number) in [("--http2", "2"), ("--http1.1", "1.1")] {
        for is_get in [false, true] {
            let way = if is_get { "GET" } else { "POST" };
            server.check(
                Https,
                &format!("curl {version} {way}, accept: */*"),
                |cases| {
                    let reading = cases.iter().map(|case| {
                        let response = ask(&server, &[version], is_get, case);
                        // The TTLs of positive and negative answers are equal here.
                        let wanted = format!("HTTP/{number} 200 application/dns-message max-age=5");
                        assert_eq!(response.write_out, wanted, "{}", case.name);
                        Reading::from(Reply::read(&response.body).unwrap())
                    });
                    reading.collect()
                },
            );
        }
    }
}

#[test]
fn curl_without_an_accept_header_is_answered() {
    let server = Encrypted::start();
    server.check(Https, "curl --http2 POST, no accept", |cases| {
        let options = ["--http2", "--header", "accept:"];
        let reply = |case| ask(&server, &options, false, case).body;
        let reading = |case| Reading::from(Reply::read(&reply(case)).unwrap());
        cases.iter().map(reading).collect()
    });
}

#[test]
fn curl_uses_a_client_certificate() {
    let server = Encrypted::with_client_certificates();
    let path = |name: &str| server.files.path(name);
    let own = ["--cert", &path("client.crt"), "--key", &path("client.key")];
    server.check(Https, "curl --cert --key", |cases| {
        let reply = |case| ask(&server, &own, false, case).body;
        let reading = |case| Reading::from(Reply::read(&reply(case)).unwrap());
        cases.iter().map(reading).collect()
    });
    let strange = [
        "--cert",
        &path("stranger.crt"),
        "--key",
        &path("stranger.key"),
    ];
    for (which, options, alert) in [
        ("no certificate", &[][..], "alert certificate required"),
        ("an untrusted certificate", &strange, "alert unknown ca"),
    ] {
        let mut command = command(tool("curl").unwrap());
        command.args([
            "--silent",
            "--show-error",
            "--ipv4",
            "--cacert",
            &path("ca.crt"),
        ]);
        command
            .args(options)
            .arg(server.fill("https://localhost:{https-port}/dns-query?dns=AAAB"));
        let ended = run(&mut command);
        let (is_refused, stderr) = (!ended.is_success(), &ended.stderr);
        assert!(is_refused && ended.stdout.is_empty(), "{which}: {ended:?}");
        // curl sends its request before the server's alert arrives, and still reports the alert.
        assert!(stderr.contains(alert), "{which}: {stderr}");
        row(
            Https,
            &format!("curl, {which}"),
            &format!("refused: {}", stderr.trim()),
        );
    }
    assert_eq!(server.server.requests("https"), cases().len() as u64);
}

/// A server in a separate network. A name of its zone resolves to the server itself: its admin listener has the address
/// of `db.prod.global`.
pub struct Website {
    pub server: Server,
    pub files: Certificates,
    /// URL of the page.
    pub url: String,
}

impl Website {
    /// Starts the server; only in [`in_new_network`].
    pub fn start() -> Self {
        let network = Network::of_this_thread();
        network
            .ip(&format!("address add {ENDPOINT}/32 dev lo"))
            .unwrap();
        let mirror = mirror("prod", "db", "west").ports(&[("http", "TCP", 8080)]);
        let files = Certificates::issue();
        let flags = [
            "--https-listen=127.0.0.1:443".to_owned(),
            format!("--admin-listen={ENDPOINT}:8080"),
            format!("--tls-cert={}", files.path("server.crt")),
            format!("--tls-key={}", files.path("server.key")),
        ];
        let mirror = mirror.endpoint("db-0", &[ENDPOINT]);
        let server = serve(mirror, &flags.each_ref().map(String::as_str));
        let url = "http://db.prod.global:8080/livez".to_owned();
        Self { server, files, url }
    }
}

#[test]
fn curl_finds_a_web_server_by_its_name_with_doh_url() {
    in_new_network(|| {
        let website = Website::start();
        let ask = |options: &[&str]| {
            let mut command = command(tool("curl").unwrap());
            command.args(["--silent", "--show-error", "--write-out", "%{remote_ip}"]);
            run(command.args(options).arg(&website.url))
        };
        // No other name server is reachable.
        let ended = ask(&[]);
        let error = &ended.stderr;
        assert!(
            !ended.is_success() && error.contains("Could not resolve host"),
            "{error}"
        );
        let url = "https://127.0.0.1/dns-query";
        let ca = website.files.path("ca.crt");
        for (client, options) in [
            (
                "curl --doh-url --cacert",
                &["--doh-url", url, "--cacert", &ca][..],
            ),
            (
                "curl --doh-url --doh-insecure",
                &["--doh-url", url, "--doh-insecure"],
            ),
        ] {
            let before = website.server.requests("https");
            let ended = ask(options);
            assert!(ended.is_success(), "{client}: {}", ended.stderr);
            assert_eq!(ended.stdout, format!("ok\n{ENDPOINT}"), "{client}");
            assert!(website.server.requests("https") > before, "{client}");
            row(
                Https,
                client,
                &format!("{} from {ENDPOINT}: ok", website.url),
            );
        }
        let ended = ask(&["--doh-url", url]);
        assert!(
            !ended.is_success(),
            "curl accepts an unknown certificate authority"
        );
        row(
            Https,
            "curl --doh-url, an unknown certificate authority",
            &format!("refused: {}", ended.stderr.trim()),
        );
    });
}
