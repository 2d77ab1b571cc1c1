//! A running etcd moves to names of the zone, member by member, as the manual says. A client writes all the time, and no write
//! is lost.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use support::certificates::Authority;
use support::commands::tool;
use support::manual::Section;
use support::multicluster::Clusters;
use support::multicluster::plan::{EAST, Member, NAMESPACE, WEST};
use support::output::print_line;
use support::process::{Process, run_checked};
use support::repository::repository;
use support::wait::eventually;

use crate::databases::plan::DB;

/// Members in the first cluster.
const MEMBERS: u8 = 3;
/// Through gateways, the address of a peer is that of the gateway. Here, the members of a cluster share a network, too, so that a
/// connection comes from the address that it goes to.
const SKIP_ADDRESSES: &str = "--experimental-peer-skip-client-san-verification";
/// Longest time without an acknowledged write. A leader that ends costs an election, and etcdctl waits two seconds for a member
/// that does not reply.
const MAX_PAUSE: Duration = Duration::from_secs(15);
/// Writes one key after the other, each until it is acknowledged. Notes each acknowledged key with its time, and each attempt
/// that failed. Reads its flags for each write, so that they can change.
const WRITER: &str = r#"
    cd "$1" || exit
    number=0
    while [ ! -e stop ]; do
        number=$((number + 1))
        # shellcheck disable=SC2046
        until etcdctl --command-timeout=2s $(cat flags) put "key-$number" "value-$number" >/dev/null 2>>attempts; do
            echo "attempt $number failed" >>failures
        done
        echo "key-$number $(date +%s%3N)" >>acknowledged
    done
"#;

/// The database and its client.
#[derive(Default)]
pub struct Moved {
    /// The processes of the members in the first cluster, by their ordinal.
    processes: Vec<Process>,
    other: Option<Process>,
    writer: Option<Process>,
    folder: PathBuf,
    authority: Option<Authority>,
}

/// Returns the members of the first cluster.
pub fn members() -> Vec<Member> {
    (0..MEMBERS)
        .map(|ordinal| DB.member(EAST, ordinal))
        .collect()
}

/// Returns the name that a member has within its own cluster.
fn old_name(member: Member) -> String {
    format!(
        "{}.{}.{NAMESPACE}.svc.cluster.local",
        member.host(),
        DB.name
    )
}

fn url(scheme: &str, name: &str, port: u16) -> String {
    format!("{scheme}://{name}:{port}")
}

// === impl Moved ===

impl Moved {
    /// Starts the members with the names of their own cluster, and the client.
    pub fn form(&mut self, clusters: &mut Clusters) -> Result<()> {
        self.folder = clusters.directory().join("moved");
        fs::create_dir_all(&self.folder)?;
        let authority = Authority::new("authority of db");
        fs::write(self.folder.join("ca.crt"), &authority.certificate)?;
        self.authority = Some(authority);
        let initial: Vec<String> = members()
            .into_iter()
            .map(|member| {
                format!(
                    "{}={}",
                    member.host(),
                    url("https", &old_name(member), 2380)
                )
            })
            .collect();
        let further = [
            format!("--initial-cluster={}", initial.join(",")),
            "--initial-cluster-state=new".to_owned(),
        ];
        for member in members() {
            self.issue(member, &[&old_name(member)])?;
            let process = self.start(clusters, member, &old_name(member), &further)?;
            self.processes.push(process);
        }
        self.wait_until_healthy(clusters, &members())?;
        let old: Vec<String> = members()
            .into_iter()
            .map(|member| url("http", &old_name(member), 2379))
            .collect();
        self.set_flags(&format!("--endpoints={}", old.join(",")))?;
        let mut writer = clusters.pod_command(EAST, &tool("sh")?)?;
        writer
            .env("ETCDCTL_API", "3")
            .args(["-c", WRITER, "writer"])
            .arg(&self.folder);
        self.writer = Some(Process::start("writer", writer)?);
        self.wait_for_writes("before the move")
    }

    /// Step 2: certificates with both names. etcd reads them at the next connection.
    pub fn add_names_to_certificates(&mut self) -> Result<()> {
        for member in members() {
            self.issue(member, &[&old_name(member), &member.global_name()])?;
        }
        self.wait_for_writes("with other certificates")
    }

    /// Step 3: one member after the other.
    pub fn move_members(&mut self, clusters: &mut Clusters) -> Result<()> {
        let section = Section::read("databases.md", "Move a running database to its new name")?;
        let update = section.texts("sh")?;
        let update = update.first().context("no command")?.trim();
        for member in members() {
            let id = self.id(clusters, &member.host())?;
            let command = update.replace("ID", &id).replace("db-0", &member.host());
            ensure!(command.contains(&member.global_name()), "{command}");
            self.run(clusters, &command)?;
            let index = usize::from(member.ordinal);
            self.processes[index].signal("TERM")?;
            self.processes[index].end()?;
            let further = new_flags()?;
            self.processes[index] =
                self.start(clusters, member, &member.global_name(), &further)?;
            self.wait_until_healthy(clusters, &members())?;
            self.wait_for_writes(&format!("after the move of {}", member.host()))?;
        }
        let list = self.etcdctl(clusters, "member list")?;
        for member in members() {
            let urls = [
                url("https", &member.global_name(), 2380),
                url("http", &member.global_name(), 2379),
            ];
            ensure!(urls.iter().all(|url| list.contains(url)), "{list}");
        }
        ensure!(!list.contains("cluster.local"), "{list}");
        Ok(())
    }

    /// Step 4: the client uses the new name.
    pub fn move_client(&mut self) -> Result<()> {
        self.set_flags(&format!(
            "--discovery-srv={}.{NAMESPACE}.global --insecure-discovery",
            DB.name
        ))?;
        self.wait_for_writes("by the new name")
    }

    /// Step 5: a member in the next cluster.
    pub fn start_in_the_next_cluster(&mut self, clusters: &mut Clusters) -> Result<()> {
        let member = DB.member(WEST, 0);
        clusters.add(&[member])?;
        clusters.link(WEST)?;
        for viewer in [EAST, WEST] {
            clusters.check_answer(viewer, &DB, &[EAST, WEST])?;
        }
        let section = Section::read("databases.md", "Move a running database to its new name")?;
        let add = section.texts("sh")?;
        let add = add.get(1).context("no second command")?.trim();
        ensure!(add.contains(&member.global_name()), "{add}");
        self.run(clusters, add)?;
        self.issue(member, &[&member.global_name()])?;
        let mut further = new_flags()?;
        further.push("--initial-cluster-state=existing".to_owned());
        self.other = Some(self.start(clusters, member, &member.global_name(), &further)?);
        let all = [members(), vec![member]].concat();
        self.wait_until_healthy(clusters, &all)?;
        self.wait_for_writes("with a member in the next cluster")
    }

    /// Ends the client. Each acknowledged write is in the database, read in the next cluster.
    pub fn check_writes(&mut self, clusters: &mut Clusters) -> Result<()> {
        fs::write(self.folder.join("stop"), "")?;
        let mut writer = self.writer.take().context("no client")?;
        writer.end()?;
        let mut get = clusters.pod_command(WEST, &tool("etcdctl")?)?;
        get.env("ETCDCTL_API", "3")
            .arg("--command-timeout=20s")
            .arg(format!(
                "--endpoints={}",
                url("http", &DB.member(WEST, 0).pod_address(), 2379)
            ));
        let text = run_checked(get.args(["get", "--prefix", "key-"]))?;
        let lines: Vec<&str> = text.lines().collect();
        let stored: BTreeMap<&str, &str> = lines
            .chunks(2)
            .filter_map(|pair| Some((*pair.first()?, *pair.get(1)?)))
            .collect();
        let acknowledged = self.acknowledged()?;
        let mut longest = 0;
        let mut last: Option<u64> = None;
        for (key, time) in &acknowledged {
            let value = key.replace("key", "value");
            ensure!(
                stored.get(key.as_str()) == Some(&value.as_str()),
                "{key} is lost: {:?}",
                stored.get(key.as_str())
            );
            longest = longest.max(time - last.unwrap_or(*time));
            last = Some(*time);
        }
        let failures = fs::read_to_string(self.folder.join("failures")).unwrap_or_default();
        print_line(&format!(
            "moved: {} acknowledged writes, none lost; {} attempts failed and were repeated; longest pause {:.1} s",
            acknowledged.len(),
            failures.lines().count(),
            longest as f64 / 1000.0
        ));
        ensure!(
            u128::from(longest) < MAX_PAUSE.as_millis(),
            "a pause of {longest} ms"
        );
        for process in self.processes.iter_mut().chain(&mut self.other) {
            process.check()?;
        }
        Ok(())
    }

    // === Helpers ===

    /// Writes the certificate of a member for these names.
    fn issue(&self, member: Member, names: &[&str]) -> Result<()> {
        let authority = self.authority.as_ref().context("no authority")?;
        authority
            .issue_peer_for(names)
            .write_as(&self.folder, &file_of(member));
        Ok(())
    }

    fn start(
        &self,
        clusters: &Clusters,
        member: Member,
        name: &str,
        further: &[String],
    ) -> Result<Process> {
        let (pod, file) = (member.pod_address(), file_of(member));
        let path = |name: &str| self.folder.join(name).display().to_string();
        let mut command = clusters.pod_command(member.cluster, &tool("etcd")?)?;
        command.args([
            format!("--name={file}"),
            "--initial-cluster-token=db".to_owned(),
            SKIP_ADDRESSES.to_owned(),
            format!("--initial-advertise-peer-urls={}", url("https", name, 2380)),
            format!("--advertise-client-urls={}", url("http", name, 2379)),
            format!("--listen-peer-urls=https://{pod}:2380"),
            format!("--listen-client-urls=http://{pod}:2379"),
            format!("--peer-cert-file={}", path(&format!("{file}.crt"))),
            format!("--peer-key-file={}", path(&format!("{file}.key"))),
            format!("--peer-trusted-ca-file={}", path("ca.crt")),
            format!("--data-dir={}", path(&format!("data-{file}"))),
        ]);
        command.args(further);
        Process::start(file, command)
    }

    /// Waits until each member is in sync, and all have the same data.
    fn wait_until_healthy(&mut self, clusters: &Clusters, members: &[Member]) -> Result<()> {
        eventually("the health of the members", || {
            for process in self.processes.iter_mut().chain(&mut self.other) {
                process.check()?;
            }
            for member in members {
                let mut health = clusters.pod_command(member.cluster, &tool("etcdctl")?)?;
                health.env("ETCDCTL_API", "3").arg("--command-timeout=3s");
                health.arg(format!("--endpoints=http://{}:2379", member.pod_address()));
                run_checked(health.args(["endpoint", "health"]))?;
            }
            Ok(())
        })
    }

    /// Runs a command of the manual in a pod of the first cluster, with the client's endpoints.
    fn run(&self, clusters: &Clusters, line: &str) -> Result<String> {
        let mut shell = clusters.pod_command(EAST, &tool("sh")?)?;
        let endpoints: Vec<String> = members()
            .into_iter()
            .map(|member| format!("http://{}:2379", member.pod_address()))
            .collect();
        shell
            .env("ETCDCTL_API", "3")
            .env("ETCDCTL_ENDPOINTS", endpoints.join(","));
        run_checked(shell.args(["-c", line])).with_context(|| line.to_owned())
    }

    fn etcdctl(&self, clusters: &Clusters, arguments: &str) -> Result<String> {
        self.run(clusters, &format!("etcdctl {arguments}"))
    }

    /// Returns the ID of a member. A line of the list is `ID, started, NAME, PEER URLS, CLIENT URLS, IS LEARNER`.
    fn id(&self, clusters: &Clusters, name: &str) -> Result<String> {
        let list = self.etcdctl(clusters, "member list")?;
        let mut lines = list
            .lines()
            .map(|line| line.split(", ").collect::<Vec<_>>());
        let line = lines.find(|words| words.get(2) == Some(&name));
        Ok(line.with_context(|| list.clone())?[0].to_owned())
    }

    /// Sets the flags of the client, at once.
    fn set_flags(&self, flags: &str) -> Result<()> {
        fs::write(self.folder.join("flags.new"), flags)?;
        Ok(fs::rename(
            self.folder.join("flags.new"),
            self.folder.join("flags"),
        )?)
    }

    /// Returns the keys of the acknowledged writes, each with its time in milliseconds.
    fn acknowledged(&self) -> Result<Vec<(String, u64)>> {
        let text = fs::read_to_string(self.folder.join("acknowledged")).unwrap_or_default();
        let lines = text.lines().map(|line| {
            let (key, time) = line.split_once(' ').with_context(|| line.to_owned())?;
            Ok((key.to_owned(), time.parse()?))
        });
        lines.collect()
    }

    /// Waits until the client has written ten more keys.
    fn wait_for_writes(&mut self, when: &str) -> Result<()> {
        let before = self.acknowledged()?.len();
        let started = Instant::now();
        eventually(&format!("writes {when}"), || {
            self.writer.as_mut().context("no client")?.check()?;
            let now = self.acknowledged()?.len();
            let attempts = fs::read_to_string(self.folder.join("attempts")).unwrap_or_default();
            let last = attempts.lines().last().unwrap_or_default();
            ensure!(now >= before + 10, "{} writes; {last}", now - before);
            Ok(())
        })?;
        print_line(&format!(
            "moved: ten writes {when} in {:.1} s",
            started.elapsed().as_secs_f64()
        ));
        Ok(())
    }
}

/// Returns the flag of a member with a name of the zone. The recipe has it, and that of all members here.
fn new_flags() -> Result<Vec<String>> {
    let path = repository("charts/global-dns/docs/src/databases.md");
    let page = fs::read_to_string(path)?;
    let flag = format!("--discovery-srv={}.{NAMESPACE}.global", DB.name);
    for flag in [&flag, SKIP_ADDRESSES] {
        ensure!(
            page.contains(&format!("`{flag}`")),
            "the recipe has no {flag}"
        );
    }
    Ok(vec![flag])
}

/// Returns the name of a member in etcd, which is that of its files.
fn file_of(member: Member) -> String {
    match member.cluster {
        EAST => member.host(),
        _ => format!("{}.west", member.host()),
    }
}
