//! The examples in the help of each command, in one form: what it does, and the command to copy.

/// The examples of a command.
struct Examples {
    /// The command. Empty: the program itself.
    command: &'static str,
    /// Each with what it does, and the arguments.
    examples: &'static [(&'static str, &'static str)],
    /// What else a user or a script needs.
    notes: &'static [&'static str],
}

/// Where the flags of `serve` are that the help of `explain` and `table` leaves out.
const MODEL_FLAGS: &str = "With --file or --direct, the flags of serve for names and members apply too, such as --zone and \
                           --cluster-name. A server knows its own. List them: global-dns help flags";

const ALL: [Examples; 11] = [
    Examples {
        command: "",
        examples: &[
            (
                "Try it without a cluster, then ask it in another terminal",
                "demo",
            ),
            ("What is answered for a service, and why", "explain db.prod"),
            (
                "Which services have trouble, and in which cluster",
                "table --summary",
            ),
            ("Find mistakes of an installation", "check"),
        ],
        notes: &[],
    },
    Examples {
        command: "serve",
        examples: &[
            ("In a pod, or with a kubeconfig", "serve --cluster-name hub"),
            (
                "Serve the objects of a file on other ports",
                "serve --file objects.yaml --listen :1053 --admin-listen localhost:0",
            ),
        ],
        notes: &[],
    },
    Examples {
        command: "demo",
        examples: &[
            ("Serve the sample; it prints the queries to try", "demo"),
            (
                "Change the sample every 5 seconds, to watch the page",
                "demo --live=5s",
            ),
        ],
        notes: &[],
    },
    Examples {
        command: "explain",
        examples: &[
            ("The answer for db.prod.global, and why", "explain db.prod"),
            (
                "The endpoints of one cluster, with all columns",
                "explain east.db.prod -o wide",
            ),
            ("The names that return an address", "explain 10.96.10.1"),
            ("What was answered at 03:12", "explain db.prod --at 03:12"),
            (
                "What objects of a file would answer",
                "explain db.prod --file objects.yaml",
            ),
        ],
        notes: &[
            MODEL_FLAGS,
            "Exit codes: 0 the name exists; 1 failure; 2 wrong usage; 3 the name does not exist",
        ],
    },
    Examples {
        command: "table",
        examples: &[
            ("All services, endpoints and problems", "table"),
            (
                "One row for each service, troubled ones first",
                "table --summary",
            ),
            (
                "What is down in one cluster",
                "table --cluster east --state down,not-ready",
            ),
            (
                "Services of a namespace, again at each change",
                "table db -n prod --watch",
            ),
            (
                "The objects of the cluster, without a server",
                "table --direct --cluster-name hub",
            ),
        ],
        notes: &[
            MODEL_FLAGS,
            "Exit codes: 0 success; 1 failure; 2 wrong usage; 3 no service has such a name, namespace or cluster",
        ],
    },
    Examples {
        command: "events",
        examples: &[
            ("The last changes of all answers", "events"),
            (
                "Those of one service, as they happen",
                "events db.prod --watch",
            ),
            (
                "Those of a namespace, for a program",
                "events -n prod -o json",
            ),
        ],
        notes: &["Exit codes: 0 success; 1 failure; 2 wrong usage"],
    },
    Examples {
        command: "check",
        examples: &[
            ("Check the cluster of the current context", "check"),
            (
                "Also the way of queries, from a pod",
                "check --dns 10.96.0.53",
            ),
            (
                "Wait in a pipeline until nothing fails",
                "check --wait 2m -o short",
            ),
            ("What a check is about", "check --explain gateways"),
        ],
        notes: &[
            "The flags of serve for names and members apply too, such as --zone and --cluster-name; give those of the server. \
             List them: global-dns help flags",
            "Exit codes: 0 no check failed; 1 a check failed, or the objects cannot be read; 2 wrong usage",
        ],
    },
    Examples {
        command: "fleet",
        examples: &[
            (
                "Compare three clusters of the kubeconfig",
                "fleet --contexts hub,east,west",
            ),
            (
                "One of them by the address of its API",
                "fleet --contexts hub,east --server west=127.0.0.1:9154 -o json",
            ),
            (
                "Compare files with the objects of the clusters",
                "fleet --file hub=hub.yaml --file east=east.yaml",
            ),
        ],
        notes: &[
            "Exit codes: 0 nothing differs; 1 something differs, or a cluster cannot be read; 2 wrong usage",
        ],
    },
    Examples {
        command: "corefile",
        examples: &[
            (
                "The stanza for a Corefile that you manage",
                "corefile --platform coredns",
            ),
            (
                "Without reading the cluster",
                "corefile --platform coredns --address 10.96.0.53",
            ),
        ],
        notes: &[],
    },
    Examples {
        command: "completions",
        examples: &[("Complete commands and flags in bash", "completions bash")],
        notes: &[],
    },
    Examples {
        command: "help",
        examples: &[
            ("The help of a command", "help explain"),
            ("All flags of serve, with their variables", "help flags"),
        ],
        notes: &[],
    },
];

/// Returns the text below the flags in the help of a command. `program` is the name that the user typed.
pub(super) fn of(command: &str, program: &str) -> String {
    let found = ALL.iter().filter(|one| one.command == command);
    let sections = found.flat_map(
        |Examples {
             examples, notes, ..
         }| {
            let examples = examples.iter();
            let lines =
                examples.map(|(what, arguments)| format!("  # {what}\n  {program} {arguments}\n"));
            let notes = notes
                .iter()
                .map(|note| note.replace("global-dns", program) + "\n");
            std::iter::once(format!("Examples:\n{}", lines.collect::<String>())).chain(notes)
        },
    );
    sections.collect::<Vec<_>>().join("\n")
}
