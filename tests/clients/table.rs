//! The table of `tests/clients/README.md`, made from the results of the last run of each program.

use std::env;
use std::fs;

use support::output::print_line;
use support::repository::repository;

use crate::scenario::MANY_PODS;
use crate::scenario::client::Event;
use crate::scenario::outcome::{Keeping, Outcome, Reaction, Start, ViewOutcome};
use crate::scenario::recorder::Fault;

/// A program that asks more often than this has no cache: the scenario uses it all the time.
const CACHED: f64 = 0.5;
const README: &str = "tests/clients/README.md";
const BEGIN: &str = "<!-- table: tests/clients/table writes it -->\n";
const END: &str = "<!-- end of the table -->\n";

/// `tests/clients/table` runs this test.
#[test]
#[ignore = "needs results of programs"]
fn readme_has_the_table_of_the_last_runs() {
    let outcomes = Outcome::read_all().unwrap();
    let table = table(&outcomes);
    match env::var_os("GLOBAL_DNS_WRITE_TABLE") {
        None => print_line(&format!("the table of the last runs:\n{table}")),
        Some(_) => {
            let file = repository(README);
            let text = fs::read_to_string(&file).unwrap();
            fs::write(&file, with_table(&text, &table)).unwrap();
        }
    }
}

/// Replaces the table of the README.
fn with_table(text: &str, table: &str) -> String {
    let (before, rest) = text.split_once(BEGIN).expect("the begin of the table");
    let (_, after) = rest.split_once(END).expect("the end of the table");
    format!("{before}{BEGIN}\n{table}\n{END}{after}")
}

/// Returns both tables: the times, and the limits.
fn table(outcomes: &[Outcome]) -> String {
    let titles = Event::ALL.map(Event::title).join(" | ");
    let mut text = format!(
        "| program | {titles} | setting |\n|---|{}---|\n",
        "---|".repeat(6)
    );
    for (outcome, view) in views(outcomes) {
        let times = Event::ALL.map(|event| time(view.events.get(&event)));
        let (name, setting) = (name(outcome, view), &view.setting);
        text += &format!("| {name} | {} | {setting} |\n", times.join(" | "));
    }
    text += &format!(
        "\n| program | of {MANY_PODS} endpoints | asks | every | before the first cluster | SERVFAIL at start | no records at start \
         | SERVFAIL | NXDOMAIN | no records |\n|---|{}\n",
        "---|".repeat(9)
    );
    for (outcome, view) in views(outcomes) {
        let start = |fault| start(outcome.starts.get(&fault));
        let cells = [
            name(outcome, view),
            many(view),
            questions(view),
            period(view),
            self::start(outcome.without_clusters.as_ref()),
            start(Fault::Servfail),
            start(Fault::Empty),
            keeping(view, Fault::Servfail),
            keeping(view, Fault::Nxdomain),
            keeping(view, Fault::Empty),
        ];
        text += &format!("| {} |\n", cells.join(" | "));
    }
    text
}

fn views(outcomes: &[Outcome]) -> impl Iterator<Item = (&Outcome, &ViewOutcome)> {
    outcomes.iter().flat_map(|outcome| {
        let views = outcome.views.iter();
        views.map(move |view| (outcome, view))
    })
}

fn name(outcome: &Outcome, view: &ViewOutcome) -> String {
    let Outcome {
        program,
        title,
        version,
        ..
    } = outcome;
    format!("[{title}]({program}/README.md) {version}, {}", view.view)
}

fn time(reaction: Option<&Reaction>) -> String {
    match reaction {
        None => String::new(),
        Some(Reaction::Unaffected) => "–".to_owned(),
        Some(Reaction::Seen(seconds)) => format!("{seconds:.1} s"),
        Some(Reaction::Sometimes(reason)) => format!("not always: {reason}"),
        Some(Reaction::Blind(reason)) => format!("not seen: {reason}"),
    }
}

fn many(view: &ViewOutcome) -> String {
    match (view.many, view.many_without_tcp) {
        (Some(with), Some(without)) if with == without => with.to_string(),
        (Some(with), Some(without)) => format!("{with}, without TCP {without}"),
        _ => String::new(),
    }
}

fn questions(view: &ViewOutcome) -> String {
    let Some(habits) = &view.habits else {
        return String::new();
    };
    let types: Vec<&str> = habits.types.iter().map(String::as_str).collect();
    let mut text = types.join(if habits.asks_both_families {
        " and "
    } else {
        ", "
    });
    text += &match habits.edns {
        Some(size) => format!("; EDNS {size}"),
        None => "; no EDNS".to_owned(),
    };
    match habits.retries_over_tcp {
        None => {}
        Some(true) => text += "; TCP after TC",
        Some(false) => text += "; ignores TC",
    }
    text
}

fn period(view: &ViewOutcome) -> String {
    match view.habits.as_ref().and_then(|habits| habits.period) {
        None => "once".to_owned(),
        Some(seconds) if seconds < CACHED => "each use".to_owned(),
        Some(seconds) => format!("{seconds:.0} s"),
    }
}

fn start(start: Option<&Start>) -> String {
    match start {
        None => String::new(),
        Some(Start::Runs) => "runs".to_owned(),
        Some(Start::Recovers(seconds)) => format!("runs, {seconds:.1} s afterwards"),
        Some(Start::Ends(line)) => format!("ends: `{}`", line.replace('|', "\\|").trim()),
    }
}

fn keeping(view: &ViewOutcome, fault: Fault) -> String {
    match view.faults.get(&fault) {
        None => String::new(),
        Some(Keeping::Keeps) => "keeps".to_owned(),
        Some(Keeping::DoesNotAsk) => "keeps, does not ask".to_owned(),
        Some(Keeping::Drops(seconds)) => format!("none after {seconds:.1} s"),
        Some(Keeping::Ends) => "ends".to_owned(),
    }
}
