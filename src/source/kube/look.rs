//! What `check` asks of an API server once: its version, what the caller may do, and objects that nothing else reads.
//!
//! Errors are sentences, because all that becomes of them is a line of a report.

use std::time::Duration;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::{Namespace as KubeNamespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIGroup;
use kube::api::{ListParams, PostParams};
use kube::core::Request;
use kube::{Api, Resource};
use tokio::time::timeout;

use super::Cluster;
use super::list::ListReader;
use crate::check::objects::LINKS_GROUP;
use crate::check::permissions::Right;
use crate::log::sentence;
use crate::mirror::{Kind, Namespace, ServiceKey};

/// How long one answer may take.
const PATIENCE: Duration = Duration::from_secs(15);

// === impl Cluster ===

impl Cluster {
    /// Asks for the API server's version: `v1.33.4`.
    ///
    /// # Errors
    ///
    /// If there is no answer.
    pub async fn version(&self) -> Result<String, String> {
        let info = answer(self.client.apiserver_version()).await?;
        Ok(info.git_version)
    }

    /// Asks whether the caller has a right.
    ///
    /// # Errors
    ///
    /// If there is no answer.
    pub async fn may(&self, right: &Right) -> Result<bool, String> {
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(attributes(right)),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let reviews: Api<SelfSubjectAccessReview> = Api::all(self.client.clone());
        let params = PostParams::default();
        let reviewed = answer(reviews.create(&params, &review)).await?;
        Ok(reviewed.status.is_some_and(|status| status.allowed))
    }

    /// Lists Links, each as its JSON; `None` if the API server knows no such kind.
    ///
    /// # Errors
    ///
    /// If they may not be read, or there is no answer.
    pub async fn links(&self) -> Result<Option<Vec<String>>, String> {
        let group = http::Request::get(format!("/apis/{LINKS_GROUP}"));
        let group = group.body(Vec::new()).map_err(|error| sentence(&error))?;
        let group = match timeout(PATIENCE, self.client.request::<APIGroup>(group)).await {
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => return Ok(None),
            Ok(group) => group.map_err(|error| words(&error))?,
            Err(_) => return Err(silent()),
        };
        let preferred = group.preferred_version.map(|version| version.group_version);
        let version = preferred.or_else(|| Some(group.versions.first()?.group_version.clone()));
        match version {
            Some(version) => {
                let path = format!("/apis/{version}/links");
                self.list(&path, ListParams::default()).await.map(Some)
            }
            None => Ok(None),
        }
    }

    /// Lists objects of a kind that a label selector selects, of each of `namespaces` or of all, each as its JSON.
    ///
    /// # Errors
    ///
    /// If they may not be read, or there is no answer.
    pub async fn select(
        &self,
        kind: Kind,
        selector: &str,
        namespaces: &[Namespace],
    ) -> Result<Vec<String>, String> {
        let path = |namespace: Option<&str>| match kind {
            Kind::Service => Service::url_path(&(), namespace),
            Kind::EndpointSlice => EndpointSlice::url_path(&(), namespace),
        };
        let paths = match namespaces {
            [] => vec![path(None)],
            some => some.iter().map(|one| path(Some(one.as_str()))).collect(),
        };
        let mut objects = Vec::new();
        for path in paths {
            let params = ListParams::default().labels(selector);
            objects.extend(self.list(&path, params).await?);
        }
        Ok(objects)
    }

    /// Lists one Service, as its JSON; `None` if there is none. To list is all that `serve` may.
    ///
    /// # Errors
    ///
    /// If it may not be read, or there is no answer.
    pub async fn service(&self, name: &ServiceKey) -> Result<Option<String>, String> {
        let path = Service::url_path(&(), Some(name.namespace.as_str()));
        let params = ListParams::default().fields(&format!("metadata.name={}", name.service));
        Ok(self.list(&path, params).await?.pop())
    }

    /// Tells whether a namespace exists.
    ///
    /// # Errors
    ///
    /// If namespaces may not be listed, or there is no answer.
    pub async fn has_namespace(&self, namespace: &Namespace) -> Result<bool, String> {
        let path = KubeNamespace::url_path(&(), None);
        let params = ListParams::default().fields(&format!("metadata.name={namespace}"));
        Ok(!self.list(&path, params).await?.is_empty())
    }

    /// Lists what is at a path. It comes whole, or not at all.
    async fn list(&self, path: &str, params: ListParams) -> Result<Vec<String>, String> {
        let request = Request::new(path).list(&params);
        let request = request.map_err(|error| sentence(&error))?;
        let text = answer(self.client.request_text(request)).await?;
        let mut reader = ListReader::default();
        let mut objects = Vec::new();
        let read = reader.read(text.as_bytes(), |json| objects.push(json.to_owned()));
        let whole = read.and_then(|()| reader.finish());
        whole.map_err(|error| sentence(&error))?;
        Ok(objects)
    }
}

/// Writes a right as the API server reads it. A subresource goes apart: `pods/exec`.
fn attributes(right: &Right) -> ResourceAttributes {
    let (resource, subresource) = match right.resource.split_once('/') {
        Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
        None => (right.resource, None),
    };
    ResourceAttributes {
        verb: Some(right.verb.to_owned()),
        group: Some(right.group.to_owned()),
        resource: Some(resource.to_owned()),
        subresource,
        namespace: right.namespace.as_ref().map(ToString::to_string),
        ..ResourceAttributes::default()
    }
}

async fn answer<T>(asking: impl Future<Output = kube::Result<T>>) -> Result<T, String> {
    match timeout(PATIENCE, asking).await {
        Ok(answered) => answered.map_err(|error| words(&error)),
        Err(_) => Err(silent()),
    }
}

fn silent() -> String {
    format!("the API server said nothing for {} s", PATIENCE.as_secs())
}

fn words(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return format!("the API server says {}: {}", status.code, status.message);
    }
    sentence(error)
}
