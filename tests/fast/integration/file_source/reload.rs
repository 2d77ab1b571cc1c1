//! Reloads of served files.

use std::fs;
use std::os::unix::fs::symlink;

use support::objects::{Manifest, mirror};
use support::repository::repository;
use support::server::{Server, WaitUntil};
use support::wait::wait_for;
use support::wire::Transport;

fn one_endpoint() -> Manifest {
    mirror("prod", "db", "east")
        .endpoint("db-0", &["10.96.1.1"])
        .into()
}

fn two_endpoints() -> Manifest {
    mirror("prod", "db", "east")
        .endpoint("db-0", &["10.96.1.1"])
        .endpoint("db-1", &["10.96.1.2"])
        .into()
}

/// Returns the serial of the SOA record.
fn soa_serial(server: &Server) -> u32 {
    let zone = server.zone_file();
    let soa = zone.lines().next().unwrap().to_owned();
    soa.split(' ').nth(2).unwrap().parse().unwrap()
}

#[test]
fn changed_file_changes_answers_generation_and_serial() {
    let server = Server::with_objects(one_endpoint(), &[]);
    assert_eq!(server.outcome("db.prod.global. A"), "10.96.1.1");
    let (generation, serial) = server.generation_and_serial();
    assert_eq!((generation, soa_serial(&server)), (1, serial));

    server.rewrite(&two_endpoints().text());
    server.wait_for_outcome("db.prod.global. A", "10.96.1.1 10.96.1.2");
    let (generation, later) = server.generation_and_serial();
    assert_eq!((generation, soa_serial(&server)), (2, later));
    assert!(later > serial, "{serial} -> {later}");

    let other = mirror("shop", "cache", "west").endpoint("cache-0", &["10.96.2.1"]);
    server.rewrite(&Manifest::from(other).text());
    server.wait_for_outcome("cache.shop.global. A", "10.96.2.1");
    assert_eq!(server.outcome("db.prod.global. A"), "NXDOMAIN");
    // A slow machine needs several rounds.
    assert!(server.generation_and_serial().0 > 2);
}

/// Linkerd deletes endpoint mirrors and creates them again within half a second. A cache would keep an NXDOMAIN for as long as
/// its negative TTL.
#[test]
fn name_fails_while_endpoint_mirrors_are_deleted_and_created_again() {
    let demo = fs::read_to_string(repository("src/demo.yaml")).unwrap();
    let listing = mirror("prod", "cache", "west").listing(&[("cache-0", "10.96.40.1")]);
    let (before, rest) = demo
        .split_once("- apiVersion: v1\n  kind: Service\n  metadata:\n    name: cache-0-west")
        .unwrap();
    let (_, after) = rest.split_once("\n- apiVersion").unwrap();
    let text = |objects: &str| format!("{objects}---\n{listing}\n");
    let with_mirrors = text(&demo);
    let server = Server::with_text(&with_mirrors, &[]);
    for name in ["cache.prod.global.", "cache-0.west.cache.prod.global."] {
        assert_eq!(server.outcome(&format!("{name} A")), "10.96.40.1");
    }
    server.rewrite(&text(&format!("{before}- apiVersion{after}")));
    server.wait_for_outcome("cache.prod.global. A", "SERVFAIL");
    let question = "cache-0.west.cache.prod.global. A +bufsize=1232";
    let options = server.ask(question, Transport::Udp).opt.unwrap().options;
    let (code, error) = &options[0];
    let text = b"endpoint mirror cache-0-west is missing";
    assert_eq!(
        (*code, &error[..]),
        (15, &[&[0, 14], &text[..]].concat()[..])
    );
    assert_eq!(
        server.outcome("cache-1.west.cache.prod.global. A"),
        "NXDOMAIN"
    );
    server.rewrite(&with_mirrors);
    server.wait_for_outcome("cache.prod.global. A", "10.96.40.1");
}

#[test]
fn invalid_or_empty_file_keeps_the_answers_until_it_is_valid_again() {
    let server = Server::with_objects(one_endpoint(), &[]);
    let before = server.generation_and_serial();
    let path = server.file.display().to_string();
    let empty = format!("{path}: contains no Service or EndpointSlice");
    let twice = format!("Service/prod/db-east occurs twice, in {path} and in {path}");
    let doubled = format!("{0}{0}", one_endpoint().text());
    for (what, text, expected) in [
        ("broken", "a: [\nb: {\n", format!("{path}:")),
        ("empty", "", empty.clone()),
        ("without usable objects", "kind: Pod\n", empty),
        ("ambiguous", &doubled, twice),
    ] {
        let message = server.write_invalid(text);
        assert!(message.starts_with(&expected), "{what}: {message}");
        let page = wait_for("the reason in /readyz", || {
            let page = server.admin("/readyz");
            page.body.contains(&message).then_some(page)
        });
        assert_eq!(page.status, 200, "{what}: {}", page.body);
        assert_eq!(page.body.lines().next(), Some("ok"), "{what}");
        for over in [Transport::Udp, Transport::Tcp] {
            let reply = server.ask("db.prod.global. A", over);
            assert_eq!(
                (reply.rcode, reply.data()),
                (0, vec!["10.96.1.1"]),
                "{what}"
            );
        }
        assert_eq!(server.generation_and_serial(), before, "{what}");
    }
    server.rewrite(&two_endpoints().text());
    server.wait_for_outcome("db.prod.global. A", "10.96.1.1 10.96.1.2");
    wait_for("readiness without a problem", || {
        let page = server.admin("/readyz");
        (page.status == 200 && page.body == "ok\n").then_some(())
    });
    assert_eq!(server.generation_and_serial().0, before.0 + 1);
}

/// Output of `kubectl get services,endpointslices -A -o yaml` for an empty cluster.
const EMPTY_LIST: &str =
    "apiVersion: v1\nitems: []\nkind: List\nmetadata:\n  resourceVersion: \"\"\n";

#[test]
fn empty_list_is_a_cluster_without_services() {
    let server = Server::with_text(EMPTY_LIST, &[]);
    assert_eq!(server.admin("/readyz").body, "ok\n");
    assert_eq!(server.outcome("db.prod.global. A"), "NXDOMAIN");
    server.rewrite(&one_endpoint().text());
    server.wait_for_outcome("db.prod.global. A", "10.96.1.1");
    server.rewrite(EMPTY_LIST);
    server.wait_for_outcome("db.prod.global. A", "NXDOMAIN");
    assert_eq!(server.admin("/readyz").body, "ok\n");
}

#[test]
fn removed_file_keeps_the_answers_until_it_returns() {
    let server = Server::with_objects(one_endpoint(), &[]);
    let mark = server.log.mark();
    fs::remove_file(&server.file).unwrap();
    let fields = server.log.wait(mark, "Source of objects is not available");
    let path = server.file.display();
    let expected = format!("cannot read {path}: No such file or directory (os error 2)");
    assert_eq!(fields["detail"], expected.as_str());
    assert_eq!(server.admin("/readyz").status, 200);
    assert_eq!(server.outcome("db.prod.global. A"), "10.96.1.1");
    server.rewrite(&two_endpoints().text());
    server.wait_for_outcome("db.prod.global. A", "10.96.1.1 10.96.1.2");
}

#[test]
fn mounted_config_map_is_reloaded() {
    // Like the kubelet: objects.yaml -> ..data/objects.yaml, and ..data -> a folder that is replaced.
    let folder = tempfile::tempdir().unwrap();
    let put = |version: &str, manifest: &Manifest| {
        let inner = folder.path().join(version);
        fs::create_dir(&inner).unwrap();
        fs::write(inner.join("objects.yaml"), manifest.text()).unwrap();
        let fresh = folder.path().join("..data_tmp");
        symlink(version, &fresh).unwrap();
        fs::rename(fresh, folder.path().join("..data")).unwrap();
    };
    put("..1", &one_endpoint());
    let file = folder.path().join("objects.yaml");
    symlink("..data/objects.yaml", &file).unwrap();
    let path = folder.path().to_owned();
    let flag = format!("--file={}", file.display());
    let server = Server::start(tempfile::tempdir().unwrap(), &[&flag], WaitUntil::Ready);
    assert_eq!(server.outcome("db.prod.global. A"), "10.96.1.1");
    put("..2", &two_endpoints());
    fs::remove_dir_all(path.join("..1")).unwrap();
    server.wait_for_outcome("db.prod.global. A", "10.96.1.1 10.96.1.2");
}

#[test]
fn each_of_several_files_is_reloaded() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other.yaml");
    let cache = |address: &str| {
        let cache = mirror("shop", "cache", "west").endpoint("cache-0", &[address]);
        Manifest::from(cache).text()
    };
    fs::write(&other, cache("10.96.2.1")).unwrap();
    let flag = format!("--file={}", other.display());
    let server = Server::with_objects(one_endpoint(), &[&flag]);
    assert_eq!(server.outcome("cache.shop.global. A"), "10.96.2.1");
    fs::write(&other, cache("10.96.2.2")).unwrap();
    server.wait_for_outcome("cache.shop.global. A", "10.96.2.2");
    assert_eq!(server.outcome("db.prod.global. A"), "10.96.1.1");
    // An object in both files is an error.
    let mark = server.log.mark();
    let both = format!("{}{}", cache("10.96.2.3"), one_endpoint().text());
    fs::write(&other, both).unwrap();
    let fields = server.log.wait(mark, "Source of objects is not available");
    let (first, second) = (server.file.display(), other.display());
    let expected = format!("Service/prod/db-east occurs twice, in {first} and in {second}");
    assert_eq!(fields["detail"], expected.as_str());
    assert_eq!(server.outcome("cache.shop.global. A"), "10.96.2.2");
}
