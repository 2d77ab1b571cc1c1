//! Java: a connection for each request, with the default cache of the JVM, and without one.

use anyhow::Result;
use support::commands::tool;

use super::bed::{Bed, Order};
use super::worker::Worker;
use super::{Expected, Program, Running, Way};
use crate::clients::scenario::client::Client as _;

pub(super) struct Java;

const DEFAULT: Way = Way {
    name: "`new Socket`, defaults",
    setting: "`networkaddress.cache.ttl`: 30 s",
    rtype: "A",
    askers: 1,
    order: Order::USUAL,
    result: Expected::One,
};

const WITHOUT_CACHE: Way = Way {
    name: "`new Socket`",
    setting: "`networkaddress.cache.ttl=0`",
    rtype: "A",
    askers: 1,
    order: Order::USUAL,
    result: Expected::Drawn,
};

impl Program for Java {
    fn name(&self) -> &'static str {
        "java"
    }

    fn title(&self) -> &'static str {
        "Java"
    }

    fn version(&self) -> Result<String> {
        crate::clients::java::Java.version()
    }

    fn ways(&self) -> Vec<Way> {
        vec![WITHOUT_CACHE, DEFAULT]
    }

    fn start(&self, bed: &Bed, way: &Way) -> Result<Box<dyn Running>> {
        let program = bed.configuration("java/Connect.java", &[])?;
        let mut command = bed.command(&tool("java")?)?;
        if way.result == Expected::Drawn {
            let ttl = "networkaddress.cache.ttl=";
            let shortest = [(&*format!("{ttl}1"), &*format!("{ttl}0"))];
            let file = bed.configuration("java/java.security", &shortest)?;
            command.arg(format!("-Djava.security.properties={}", file.display()));
        }
        command.arg(program);
        Ok(Box::new(Worker::start("java", command)?))
    }
}
