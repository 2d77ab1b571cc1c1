//! Go: a connection for each request, by the name or by its SRV records, and connections that are kept.

use std::process::Command;

use anyhow::Result;
use support::commands::tool;
use support::process::run_checked;
use support::repository::repository;

use super::bed::{Bed, Order};
use super::worker::Worker;
use super::{Expected, Program, Running, Way};
use crate::clients::scenario::client::Client as _;

pub(super) struct Go;

/// The ways with the arguments of the program.
const WAYS: [(&str, Way); 3] = [
    (
        "dial",
        Way {
            name: "`net.Dial`",
            setting: "a new connection for each request",
            rtype: "A",
            askers: 1,
            order: Order::USUAL,
            result: Expected::Drawn,
        },
    ),
    (
        "srv",
        Way {
            name: "`net.LookupSRV`, first target",
            setting: "a new connection for each request",
            rtype: "SRV",
            askers: 1,
            order: Order::USUAL,
            result: Expected::Drawn,
        },
    ),
    (
        "keep",
        Way {
            name: "`http.Client`",
            setting: "the default: connections are kept",
            rtype: "A",
            askers: 1,
            order: Order::USUAL,
            result: Expected::One,
        },
    ),
];

impl Program for Go {
    fn name(&self) -> &'static str {
        "go"
    }

    fn title(&self) -> &'static str {
        "Go"
    }

    fn version(&self) -> Result<String> {
        crate::clients::go::Go.version()
    }

    fn ways(&self) -> Vec<Way> {
        WAYS.map(|(_, way)| way).to_vec()
    }

    fn start(&self, bed: &Bed, way: &Way) -> Result<Box<dyn Running>> {
        let program = bed.folder().join("connect");
        if !program.exists() {
            let mut build = Command::new(tool("go")?);
            build.args(["build", "-trimpath", "-o"]).arg(&program);
            build.arg(repository("tests/system/clients/go/connect.go"));
            run_checked(build.env("GOWORK", "off").env("CGO_ENABLED", "0"))?;
        }
        let mut command = bed.command(&program)?;
        let argument = WAYS.iter().find(|(_, each)| each.name == way.name);
        command.args(argument.map(|(argument, _)| argument));
        Ok(Box::new(Worker::start("connect", command)?))
    }
}
