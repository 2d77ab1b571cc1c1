//! The examples in the help of each command: what each does, and the command to copy. Notes for users and scripts follow.

/// Returns the text below the flags in the help of a command, or of the program itself. `program` is the name that the user
/// typed.
pub(super) fn of(command: &str, program: &str) -> String {
    text_of(command).replace("global-dns", program)
}

fn text_of(command: &str) -> &'static str {
    match command {
        "serve" => {
            "\
Examples:
  # In a pod, or with a kubeconfig
  global-dns serve --cluster-name hub
  # Serve the objects of a file on other ports
  global-dns serve --file objects.yaml --listen :1053 --admin-listen localhost:0
  # Print all settings, as a file to edit
  global-dns serve --print-settings
"
        }
        "demo" => {
            "\
Examples:
  # Serve the sample; it prints the queries to try
  global-dns demo
  # Change the sample every 5 seconds, to watch the page
  global-dns demo --live=5s
"
        }
        "explain" => {
            "\
Examples:
  # The answer for db.prod.global, and why
  global-dns explain db.prod
  # The endpoints of one cluster, with all columns
  global-dns explain east.db.prod -o wide
  # The names that return an address
  global-dns explain 10.96.10.1
  # What was answered at 03:12
  global-dns explain db.prod --at 03:12
  # What objects of a file would answer
  global-dns explain db.prod --file objects.yaml

With --file or --direct, the settings of --config apply. A server knows its own.

Exit codes: 0 the name exists; 1 failure; 2 wrong usage; 3 the name does not exist
"
        }
        "table" => {
            "\
Examples:
  # What is wrong with the server and its source, and all services, those with trouble first
  global-dns table
  # Trouble of services with an endpoint in one cluster
  global-dns table --cluster east --state failing,attention
  # What was answered at 03:12
  global-dns table db -n prod --at 03:12
  # The objects of the cluster, without a server
  global-dns table --direct --cluster-name hub

With --file or --direct, the settings of --config apply. A server knows its own.

Exit codes: 0 success; 1 failure; 2 wrong usage; 3 no service has such a name, namespace or cluster
"
        }
        "events" => {
            "\
Examples:
  # The last changes of all answers
  global-dns events
  # Those of one cluster, as they happen
  global-dns events --cluster east --watch
  # The same, for a program
  global-dns events -o json

Exit codes: 0 success; 1 failure; 2 wrong usage
"
        }
        "check" => {
            "\
Examples:
  # Check the server in the cluster of the current context
  global-dns check
  # Also the way of queries, which a pod knows by itself
  global-dns check --dns 10.96.0.53 --resolver 10.96.0.10
  # Wait in a pipeline until nothing fails
  global-dns check --wait 2m

With --file or --direct, the settings of --config apply. A server knows its own.

Exit codes: 0 nothing fails; 1 something fails, or no server answers; 2 wrong usage
"
        }
        "fleet" => {
            "\
Examples:
  # Compare three clusters of the kubeconfig
  global-dns fleet --contexts hub,east,west
  # Compare the replicas of the current context
  global-dns fleet
  # One of them by the address of its API
  global-dns fleet --contexts hub,east --server west=127.0.0.1:9154 -o json
  # Compare files with the objects of the clusters
  global-dns fleet --file hub=hub.yaml --file east=east.yaml

Exit codes: 0 nothing differs; 1 something differs, or a cluster cannot be read; 2 wrong usage
"
        }
        "completions" => {
            "\
Examples:
  # Complete commands and flags in bash
  global-dns completions bash
"
        }
        _ => {
            "\
Examples:
  # Try it without a cluster, then ask it in another terminal
  global-dns demo
  # What is answered for a service, and why
  global-dns explain db.prod
  # Which services have trouble, and in which cluster
  global-dns table
  # Find mistakes of an installation
  global-dns check
"
        }
    }
}
