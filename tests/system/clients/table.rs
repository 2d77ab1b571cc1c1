//! The tables of `tests/system/clients/README.md`, made from the results of the last run of each program.

use std::env;
use std::fs;

use serde_json::Value;
use support::output::print_line;
use support::repository::repository;

use crate::clients::database::Alone;
use crate::clients::kept_rows::with_kept_rows;
use crate::clients::scenario::MANY_PODS;
use crate::clients::scenario::client::Event;
use crate::clients::scenario::outcome::{Keeping, Outcome, Reaction, Start, ViewOutcome};
use crate::clients::scenario::recorder::Fault;

/// A program that asks more often than this has no cache: the scenario uses it all the time.
const CACHED: f64 = 0.5;
const README: &str = "tests/system/clients/README.md";
const TOGETHER: &str = "the ways of this program ask for the same name, and were measured together";

/// `tests/system/clients/table` runs this, with `GLOBAL_DNS_WRITE_TABLE`. Without it, the tables are only printed.
#[test]
fn tables_of_the_last_runs_are_written_to_the_readme() {
    let outcomes = Outcome::read_all().unwrap();
    let file = repository(README);
    let mut text = fs::read_to_string(&file).unwrap();
    for (name, table) in tables(&outcomes) {
        let table = with_kept_rows(table_of(&text, name).1, &table);
        print_line(&format!("{name}, of the last runs:\n{table}"));
        text = with_table(&text, name, &table);
    }
    if env::var_os("GLOBAL_DNS_WRITE_TABLE").is_some() {
        fs::write(&file, text).unwrap();
    }
}

/// Replaces a table of a document.
pub fn with_table(text: &str, name: &str, table: &str) -> String {
    let (before, _, after) = table_of(text, name);
    format!("{before}\n{table}\n{after}")
}

/// Splits a document at a table: the text before it, the table, and the text after it. The marks belong to the text.
fn table_of<'t>(text: &'t str, name: &str) -> (&'t str, &'t str, &'t str) {
    let begin = format!("<!-- table of {name}: tests/system/clients/table writes it -->\n");
    let end = format!("<!-- end of the table of {name} -->\n");
    let begin = text.find(&begin).expect("the begin of the table") + begin.len();
    let end = begin + text[begin..].find(&end).expect("the end of the table");
    (&text[..begin], &text[begin..end], &text[end..])
}

/// Returns each table with its name.
fn tables(outcomes: &[Outcome]) -> [(&'static str, String); 4] {
    let (databases, clients): (Vec<_>, Vec<_>) =
        outcomes.iter().partition(|outcome| outcome.alone.is_some());
    [
        ("changes", changes(&clients)),
        ("answers", answers(&clients)),
        ("faults", faults(&clients)),
        ("databases", changes_of_databases(&databases)),
    ]
}

/// A table with notes below it.
pub struct Table {
    text: String,
    notes: Vec<String>,
}

// === The tables ===

fn changes(outcomes: &[&Outcome]) -> String {
    let mut head = vec!["program", "way"];
    head.extend(Event::ALL.map(Event::title));
    head.push("decided by");
    let mut table = Table::new(&head);
    for (outcome, view) in views(outcomes) {
        let mut cells = vec![name(outcome), view.view.clone()];
        cells.extend(Event::ALL.map(|event| table.time(view.events.get(&event), "not seen")));
        cells.push(view.setting.clone());
        table.push(&cells);
    }
    table.finish()
}

fn changes_of_databases(outcomes: &[&Outcome]) -> String {
    let mut head = vec!["program", "before any cluster is linked"];
    head.extend(Event::ALL.map(Event::title));
    head.push("decided by");
    let mut table = Table::new(&head);
    for (outcome, view) in views(outcomes) {
        let alone = match outcome.alone {
            Some(Alone::Splits) => "every member works alone",
            _ => "no member accepts writes",
        };
        let start = table.start(outcome.without_clusters.as_ref());
        let mut cells = vec![name(outcome), format!("{start}; {alone}")];
        cells.extend(Event::ALL.map(|event| table.time(view.events.get(&event), "–")));
        cells.push(view.setting.clone());
        table.push(&cells);
    }
    table.finish()
}

fn answers(outcomes: &[&Outcome]) -> String {
    let of_many = format!("addresses of {MANY_PODS}");
    let mut table = Table::new(&[
        "program",
        "way",
        &of_many,
        "without TCP",
        "EDNS",
        "truncated answer",
        "asks for",
        "asks again after",
    ]);
    for (outcome, view) in views(outcomes) {
        let count =
            |count: Option<usize>| count.map_or_else(String::new, |count| count.to_string());
        let edns = view.habits.as_ref().and_then(|habits| habits.edns);
        let mut period = period(view);
        if shares_questions(outcome, view) {
            period += &table.note(TOGETHER);
        }
        table.push(&[
            name(outcome),
            view.view.clone(),
            count(view.many),
            count(view.many_without_tcp),
            edns.map_or_else(|| "no".to_owned(), |size| size.to_string()),
            truncated(view).to_owned(),
            types(view),
            period,
        ]);
    }
    table.finish()
}

fn faults(outcomes: &[&Outcome]) -> String {
    let mut table = Table::new(&[
        "program",
        "way",
        "starts: NXDOMAIN",
        "starts: SERVFAIL",
        "starts: no records",
        "runs: NXDOMAIN",
        "runs: SERVFAIL",
        "runs: no records",
    ]);
    for (outcome, view) in views(outcomes) {
        let mut cells = vec![name(outcome), view.view.clone()];
        cells.push(table.start(outcome.without_clusters.as_ref()));
        for fault in [Fault::Servfail, Fault::Empty] {
            cells.push(table.start(view.starts.get(&fault)));
        }
        for fault in [Fault::Nxdomain, Fault::Servfail, Fault::Empty] {
            cells.push(table.keeping(view, fault));
        }
        table.push(&cells);
    }
    table.finish()
}

// === impl Table ===

impl Table {
    pub fn new(head: &[&str]) -> Self {
        let text = format!("| {} |\n|{}\n", head.join(" | "), "---|".repeat(head.len()));
        Self {
            text,
            notes: Vec::new(),
        }
    }

    pub fn push(&mut self, cells: &[String]) {
        self.text += &format!("| {} |\n", cells.join(" | "));
    }

    /// Returns the mark of a note. Equal notes have one mark.
    fn note(&mut self, note: &str) -> String {
        let known = self.notes.iter().position(|each| each == note);
        let index = known.unwrap_or_else(|| {
            self.notes.push(note.to_owned());
            self.notes.len() - 1
        });
        format!(" [{}]", index + 1)
    }

    pub fn finish(self) -> String {
        let notes = self.notes.iter().zip(1..);
        let notes = notes.map(|(note, number)| format!("{number}. {note}\n"));
        let notes: String = notes.collect();
        match notes.as_str() {
            "" => self.text,
            notes => format!("{}\n{notes}", self.text),
        }
    }

    /// Returns a time, or `otherwise` and the reason if there is none.
    fn time(&mut self, reaction: Option<&Reaction>, otherwise: &str) -> String {
        match reaction {
            None => String::new(),
            Some(Reaction::Unaffected) => "–".to_owned(),
            Some(Reaction::Seen(seconds)) => format!("{seconds:.1} s"),
            Some(Reaction::Sometimes(reason)) => "not always".to_owned() + &self.note(reason),
            Some(Reaction::Blind(reason)) => otherwise.to_owned() + &self.note(reason),
        }
    }

    /// Returns what a view does with its addresses during a fault.
    fn keeping(&mut self, view: &ViewOutcome, fault: Fault) -> String {
        let mut keeps = |text: &str| {
            let note = view.keeps.as_ref().map(|note| self.note(note));
            text.to_owned() + &note.unwrap_or_default()
        };
        match view.faults.get(&fault) {
            None => String::new(),
            Some(Keeping::Keeps) => keeps("keeps"),
            Some(Keeping::DoesNotAsk) => keeps("keeps, does not ask"),
            Some(Keeping::Drops(seconds)) => format!("none after {seconds:.1} s"),
            Some(Keeping::Ends) => "ends".to_owned(),
        }
    }

    fn start(&mut self, start: Option<&Start>) -> String {
        match start {
            None => String::new(),
            Some(Start::Runs) => "runs".to_owned(),
            Some(Start::Recovers(seconds)) => format!("runs, {seconds:.1} s"),
            Some(Start::Ends(line)) => {
                let words = words(line).replace('|', "\\|");
                "ends".to_owned() + &self.note(&format!("`{}`", words.trim()))
            }
        }
    }
}

// === Cells ===

fn views<'o>(outcomes: &[&'o Outcome]) -> Vec<(&'o Outcome, &'o ViewOutcome)> {
    let views = outcomes.iter().flat_map(|outcome| {
        let views = outcome.views.iter();
        views.map(move |view| (*outcome, view))
    });
    views.collect()
}

fn name(outcome: &Outcome) -> String {
    let Outcome {
        program,
        title,
        version,
        ..
    } = outcome;
    format!("[{title}]({program}/README.md) {}", version.trim())
}

/// Returns whether another view has the same questions, so that both were measured together.
fn shares_questions(outcome: &Outcome, view: &ViewOutcome) -> bool {
    let equal = outcome
        .views
        .iter()
        .filter(|each| each.habits == view.habits);
    equal.count() > 1
}

fn types(view: &ViewOutcome) -> String {
    let Some(habits) = &view.habits else {
        return String::new();
    };
    let types: Vec<&str> = habits.types.iter().map(String::as_str).collect();
    if habits.asks_both_families {
        types.join(" and ") + " together"
    } else {
        types.join(", ")
    }
}

/// Returns what the program does with a truncated answer.
fn truncated(view: &ViewOutcome) -> &'static str {
    let (with_tcp, without) = (view.many, view.many_without_tcp);
    let retries = view
        .habits
        .as_ref()
        .and_then(|habits| habits.retries_over_tcp);
    match retries {
        None if with_tcp > without => "asks over TCP only",
        None => "–",
        // The questions may be those of another view.
        Some(_) if with_tcp == without && with_tcp < Some(usize::from(MANY_PODS)) => "uses a part",
        Some(true) => "repeats over TCP",
        Some(false) => "uses a part",
    }
}

fn period(view: &ViewOutcome) -> String {
    match view.habits.as_ref().and_then(|habits| habits.period) {
        None => "never".to_owned(),
        Some(seconds) if seconds < CACHED => "each use".to_owned(),
        Some(seconds) => format!("{seconds:.0} s"),
    }
}

/// Returns the text of the error in a line of a log.
fn words(line: &str) -> String {
    let parsed: Value = serde_json::from_str(line).unwrap_or_default();
    let error = parsed["error"].as_str().unwrap_or(line);
    error.lines().next().unwrap_or_default().to_owned()
}
