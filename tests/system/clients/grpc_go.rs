//! gRPC for Go: `dns:///` with round robin.

use anyhow::Result;
use support::commands::{command, tool};
use support::multicluster::plan::Service;
use support::process::{Process, run_checked};

use crate::clients::grpc::{self, GO_PROGRAM};
use crate::clients::scenario::client::{Client, Profile, Running};
use crate::clients::scenario::pod::Pod;

pub struct GrpcGo;

// === impl GrpcGo ===

impl Client for GrpcGo {
    fn profile(&self) -> Profile {
        let settings = [
            "none; a lost gateway: keepalive `Timeout`",
            "`MaxConnectionAge`, at least 30 s",
        ];
        grpc::profile("grpc_go", "gRPC for Go", settings)
    }

    fn version(&self) -> Result<String> {
        let output = run_checked(command(tool(GO_PROGRAM)?).arg("--version"))?;
        Ok(output.trim().to_owned())
    }

    fn start_server(&self, pod: &Pod<'_>, cluster: usize) -> Result<Option<Process>> {
        grpc::start_server(pod, cluster).map(Some)
    }

    fn start(&self, pod: &Pod<'_>, service: &'static Service) -> Result<Box<dyn Running>> {
        let mut command = pod.command(GO_PROGRAM)?;
        command.arg("call").args(grpc::targets(service));
        let process = Process::start("grpc_go", command)?;
        Ok(Box::new(grpc::Client { process }))
    }
}
