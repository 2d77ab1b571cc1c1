//! A server whose objects change while the time passes.

use super::*;
use crate::model::{ProblemKind, Timestamp};
use crate::table::links::LinkList;
use crate::table::{Rules, Timers, build};
use crate::testing::store;

/// A server that sees the objects change, and asks for names meanwhile.
pub(super) struct World {
    pub(super) rules: Rules,
    pub(super) objects: Vec<Value>,
    pub(super) table: Table,
    pub(super) timers: Timers,
    /// Whether it reads Links.
    has_links: bool,
}

impl World {
    /// Starts a server with these objects.
    pub(super) fn start(rules: &Rules, objects: Vec<Value>) -> Self {
        let mut world = Self {
            rules: rules.clone(),
            objects,
            table: Table::default(),
            timers: Timers::default(),
            has_links: false,
        };
        world.build(0);
        world
    }

    /// Starts a server that also reads Links.
    pub(super) fn with_links(rules: &Rules, objects: Vec<Value>) -> Self {
        let mut world = Self::start(rules, Vec::new());
        world.has_links = true;
        world.objects = objects;
        world.timers.is_started = false;
        world.build(0);
        world
    }

    /// Starts a second server with the same objects.
    pub(super) fn replica(&self) -> Self {
        Self::start(&self.rules, self.objects.clone())
    }

    pub(super) fn build(&mut self, now: u64) {
        self.timers.now = Timestamp(now);
        self.timers.wall = self.timers.now;
        let store = store(&self.objects);
        if self.has_links {
            let list = LinkList::Listed { is_complete: true };
            let links = &mut self.timers.links;
            links.update(&store, list, &self.rules, self.timers.now);
        }
        let mut services = store.services();
        services.extend(self.table.services().map(|service| service.key.clone()));
        let built = build(&self.table, &store, &services, &self.rules, &self.timers);
        self.timers.apply(built.timers);
        self.timers.is_started = true;
        self.table = built.table;
    }

    /// Lets the time pass, with all delays that end.
    pub(super) fn wait_until(&mut self, now: u64) -> &mut Self {
        while let Some(wake) = self.timers.next_wake().filter(|wake| wake.0 <= now) {
            self.build(wake.0);
        }
        self.build(now);
        self
    }

    /// Changes the objects at a time.
    pub(super) fn change(&mut self, now: u64, change: impl FnOnce(&mut Vec<Value>)) -> &mut Self {
        self.wait_until(now);
        change(&mut self.objects);
        self.build(now);
        self
    }

    pub(super) fn a(&self, name: &str) -> String {
        let name = format!("{name}.global");
        ask(&zones(&["global"]), &self.table, &name, RecordType::A)
    }

    pub(super) fn has_problem(&self, kind: ProblemKind) -> bool {
        self.table.problems().any(|problem| problem.kind == kind)
    }
}
