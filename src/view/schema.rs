//! The JSON schemas of the objects of all views, by view and section. The server serves them beside the views.

use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Value, json};

use super::cluster::ClusterDetail;
use super::endpoint::EndpointReport;
use super::explain::{AnswerReport, RecordReport};
use super::problem::ProblemReport;
use super::status::Status;
use super::table::ServiceRow;
use crate::source::events::Event;

/// Returns the schemas of the objects of all views.
pub fn schemas() -> Value {
    json!({
        "table": schema::<ServiceRow>(),
        "endpoints": schema::<EndpointReport>(),
        "explain": {
            "problems": schema::<ProblemReport>(),
            "service": schema::<ServiceRow>(),
            "answers": schema::<AnswerReport>(),
            "endpoints": schema::<EndpointReport>(),
            "events": schema::<Event>(),
        },
        "problems": {
            "causes": schema::<ProblemReport>(),
            "problems": schema::<ProblemReport>(),
        },
        "events": schema::<Event>(),
        "status": {
            "": schema::<Status>(),
            "clusters": schema::<ClusterDetail>(),
        },
        "zone": schema::<RecordReport>(),
    })
}

fn schema<T: JsonSchema>() -> Value {
    SchemaGenerator::default()
        .into_root_schema_for::<T>()
        .into()
}
