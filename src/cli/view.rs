//! The flags of the commands that ask a server: `explain`, `table`, `events` and `check`.

use std::net::{IpAddr, SocketAddr};

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{ArgMatches, Args};

use super::cluster::is_pod;
use super::groups::{KubeconfigArgs, ServerArgs, ViewArgs, is_given};
use super::print::{Output, PrintArgs, output};
use crate::model::{ProblemKind, Timestamp};
use crate::table::change::ChangeKind;
use crate::view::{State, is_subject, names, past_time};
use crate::zone::{Grammar, Name};

/// Flags of `explain`.
#[derive(Args)]
pub struct ExplainArgs {
    /// Name to explain; db.prod and prod/db are short for db.prod.global.; or an address: that of its endpoint
    #[arg(value_parser = parse_subject, required_unless_present = "kind")]
    pub name: Option<String>,

    /// Print the section of the manual on a kind of problem, without a server
    #[arg(long, hide_possible_values = true, conflicts_with_all = ["name", "at", "server", "server_namespace", "direct", "file", "kubeconfig", "context", "namespace", "config", "cluster_name", "zone", "output"], value_parser = PossibleValuesParser::new(names::<ProblemKind>()).try_map(|name| name.parse::<ProblemKind>()))]
    pub kind: Option<ProblemKind>,

    /// Show what was answered at this time: 03:12 (the last such local time), 90m (ago), or RFC 3339; only a running server knows it (history in its settings)
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = past_time, conflicts_with_all = ["file", "direct"])]
    pub at: Option<Timestamp>,

    /// The server or the objects.
    #[command(flatten)]
    pub view: ViewArgs,

    /// The output.
    #[command(flatten)]
    pub print: PrintArgs,
}

/// Flags of `table`.
#[derive(Args)]
#[command(mut_arg("output", |arg| arg.value_parser(output(["text", "wide", "json", "zone"]))
    .help("Format of the output; wide: all columns; zone: a zone file (RFC 1035) of --zone")))]
pub struct TableArgs {
    /// Show only services with this text in NAMESPACE/SERVICE or SERVICE.NAMESPACE (repeatable)
    pub filter: Vec<String>,

    /// Show only services in this state (repeatable)
    #[arg(long, value_parser = PossibleValuesParser::new(names::<State>()))]
    pub state: Vec<String>,

    /// Show only services with an endpoint in this cluster (repeatable)
    #[arg(long, value_name = "NAME")]
    pub cluster: Vec<String>,

    /// Show what was answered at this time: 03:12 (the last such local time), 90m (ago), or RFC 3339; only a running server knows it (history in its settings)
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = past_time, conflicts_with_all = ["file", "direct"])]
    pub at: Option<Timestamp>,

    /// The server or the objects.
    #[command(flatten)]
    pub view: ViewArgs,

    /// The output.
    #[command(flatten)]
    pub print: PrintArgs,
}

/// Flags of `events`.
#[derive(Args)]
pub struct EventsArgs {
    /// Show only events of services with this text in NAMESPACE/SERVICE or SERVICE.NAMESPACE (repeatable)
    pub filter: Vec<String>,

    /// Print the events so far, then each event when it happens
    #[arg(short, long)]
    pub watch: bool,

    /// Show only events since this time: 1h (ago), 03:12 (the last such local time), or RFC 3339
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = past_time)]
    pub since: Option<Timestamp>,

    /// Show only events of this cluster (repeatable)
    #[arg(long)]
    pub cluster: Vec<String>,

    /// Show only events of this kind (repeatable)
    #[arg(long, hide_possible_values = true, value_parser = PossibleValuesParser::new(names::<ChangeKind>()))]
    pub kind: Vec<String>,

    /// The server.
    #[command(flatten)]
    pub server: ServerArgs,

    /// The API server.
    #[command(flatten)]
    pub kubeconfig: KubeconfigArgs,

    /// The output.
    #[command(flatten)]
    pub print: PrintArgs,
}

/// Flags of `check`.
#[derive(Args)]
pub struct CheckArgs {
    /// Address of the DNS Service of global-dns, usually its cluster IP, to query it directly; without it, the cluster's DNS is compared with the API of the server [default port: 53]
    #[arg(long, value_name = "IP[:PORT]", value_parser = parse_name_server)]
    pub dns: Option<SocketAddr>,

    /// Name to ask for, as programs do [default: in each zone, that of the smallest service with an alive endpoint]
    #[arg(long, value_parser = parse_name)]
    pub name: Option<Name>,

    /// Also connect to the answered addresses over TCP, and report the time for each; endpoints of other clusters accept only meshed clients, so run it in a Pod with Linkerd's proxy
    #[arg(long)]
    pub connect: bool,

    /// Address of the cluster's DNS, which should forward the zones to the server [default: the name servers of /etc/resolv.conf, in a pod or with --dns]
    #[arg(long, value_name = "IP[:PORT]", value_parser = parse_name_server)]
    pub resolver: Option<SocketAddr>,

    /// The server or the objects.
    #[command(flatten)]
    pub view: ViewArgs,

    /// The output.
    #[command(flatten)]
    pub print: PrintArgs,
}

// === impl TableArgs ===

impl TableArgs {
    /// Reads the settings. Returns an error if flags select parts of a zone file, or not one zone.
    pub(super) fn load(&mut self, flags: &ArgMatches) -> Result<(), String> {
        let is_zone = self.print.output == Output::Zone;
        // The server decides the grammar of its zones.
        let is_one = match self.view.settings.zone.as_deref() {
            Some([one]) => self.view.reads_objects() || one.grammar == Grammar::Global,
            _ => !is_given(flags, "zone"),
        };
        self.view.load(is_zone, flags)?;
        let is_filtered = !self.filter.is_empty()
            || !self.state.is_empty()
            || !self.cluster.is_empty()
            || is_given(flags, "namespace") && !self.view.reads_objects();
        if is_zone && is_filtered {
            Err("--output zone prints a whole zone; remove the filters".to_owned())
        } else if is_zone && !is_one {
            Err("--output zone prints one zone: name it with one --zone, for a server without its grammar".to_owned())
        } else {
            Ok(())
        }
    }
}

// === impl CheckArgs ===

impl CheckArgs {
    /// Reads the settings. Returns an error if nothing can be asked for a name.
    pub(super) fn load(&mut self, flags: &ArgMatches) -> Result<(), String> {
        let flag = if self.connect { "--connect" } else { "--name" };
        if (self.connect || self.name.is_some()) && !self.can_ask() {
            return Err(format!(
                "{flag} asks the cluster's DNS: run check in a pod, or set --resolver to its address, and --dns to that of the server"
            ));
        }
        self.view.load(false, flags)
    }

    /// Returns whether name servers can be asked. In a pod, those of this machine are the cluster's DNS.
    pub fn can_ask(&self) -> bool {
        self.resolver.or(self.dns).is_some() || is_pod()
    }
}

// === Values ===

/// Parses the address of a name server. The default port is 53.
fn parse_name_server(text: &str) -> Result<SocketAddr, String> {
    const PORT: u16 = 53;
    let bare = || text.parse().map(|ip: IpAddr| SocketAddr::new(ip, PORT));
    let address = text.parse().or_else(|_| bare()).ok();
    let address = address.filter(|address: &SocketAddr| address.port() != 0);
    let examples = "10.96.0.53, 10.96.0.53:5353, [2001:db8::53]:5353";
    address.ok_or_else(|| format!("expected an IP address with an optional port: {examples}"))
}

/// Parses the name or the address of `explain`.
fn parse_subject(text: &str) -> Result<String, String> {
    let rule = "it is not a domain name: a label has 1 to 63 octets, and a name 255";
    is_subject(text)
        .then(|| text.to_owned())
        .ok_or(rule.to_owned())
}

/// Parses a domain name.
fn parse_name(text: &str) -> Result<Name, String> {
    let expected = "expected a domain name, for example db.prod.global";
    Name::from_text(text).ok_or(expected.to_owned())
}
