//! gRPC C core, by its Python package: `dns:///` with round robin.

use anyhow::Result;
use support::commands::command;
use support::multicluster::plan::{EAST, Service};
use support::process::{Process, run_checked};
use support::repository::repository;

use crate::clients::grpc;
use crate::clients::scenario::client::{Client, Profile, Running};
use crate::clients::scenario::pod::{Pod, python};

pub struct GrpcPython;

// === impl GrpcPython ===

impl Client for GrpcPython {
    fn profile(&self) -> Profile {
        let settings = [
            "none; a lost gateway: `grpc.keepalive_timeout_ms`",
            "`MaxConnectionAge`, at least `grpc.dns_min_time_between_resolutions_ms`",
        ];
        grpc::profile("grpc_python", "gRPC C core", settings)
    }

    fn version(&self) -> Result<String> {
        let mut command = command(python()?);
        let output = run_checked(command.args(["-c", "import grpc; print(grpc.__version__)"]))?;
        Ok(output.trim().to_owned())
    }

    fn start_server(&self, pod: &Pod<'_>, cluster: usize) -> Result<Option<Process>> {
        grpc::start_server(pod, cluster).map(Some)
    }

    fn start(&self, pod: &Pod<'_>, service: &'static Service) -> Result<Box<dyn Running>> {
        let mut command = pod.clusters.pod_command(EAST, &python()?)?;
        command.arg(repository("tests/system/clients/grpc_python/client.py"));
        command.args(grpc::targets(service));
        let process = Process::start("grpc_python", command)?;
        Ok(Box::new(grpc::Client { process }))
    }
}
