//! The requests of commands to an API server: lists of objects, and what only `check` asks.

use std::time::Duration;

use futures::future::try_join_all;
use hyper::Request as HttpRequest;
use kube::Resource;
use kube::api::ListParams;
use kube::core::Request;
use serde_json::{Value, json};

use super::Cluster;
use crate::check::finding::Fact;
use crate::check::permissions::Permission;
use crate::model::{LINK_VERSIONS, Namespace};
use crate::source::kube::{Failure, within};

/// Maximum time for a request.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

// === impl Cluster ===

impl Cluster {
    /// Returns the version of the API server, for example `v1.33.4`.
    ///
    /// # Errors
    ///
    /// If the request fails.
    pub async fn version(&self) -> Fact<String> {
        let info = within(REQUEST_TIMEOUT, self.client.apiserver_version()).await;
        let info = info.map_err(|failure| failure.to_string())?;
        Ok(info.git_version)
    }

    /// Returns whether a ServiceAccount (namespace and name), or the caller, has a permission.
    ///
    /// # Errors
    ///
    /// If the caller may not review it, or the request fails.
    pub async fn is_allowed(
        &self,
        account: Option<&(String, String)>,
        permission: &Permission,
    ) -> Fact<bool> {
        let mut spec = json!({"resourceAttributes": permission});
        let kind = match account {
            None => "SelfSubjectAccessReview",
            Some((namespace, name)) => {
                let accounts = "system:serviceaccounts";
                spec["user"] = json!(format!("system:serviceaccount:{namespace}:{name}"));
                let of_namespace = format!("{accounts}:{namespace}");
                spec["groups"] = json!([accounts, of_namespace, "system:authenticated"]);
                "SubjectAccessReview"
            }
        };
        let version = "authorization.k8s.io/v1";
        let path = format!("/apis/{version}/{}s", kind.to_lowercase());
        let review = json!({"apiVersion": version, "kind": kind, "spec": spec});
        let request = HttpRequest::post(path).body(review.to_string().into_bytes());
        let request = request.map_err(|error| error.to_string())?;
        let reviewed = within(REQUEST_TIMEOUT, self.client.request::<Value>(request)).await;
        let reviewed = reviewed.map_err(|failure| failure.to_string())?;
        Ok(reviewed["status"]["allowed"] == true)
    }

    /// Lists Links. There are none if the API server does not define that kind.
    ///
    /// # Errors
    ///
    /// If the caller may not list them, or the request fails.
    pub async fn links(&self) -> Fact<Vec<Value>> {
        for version in LINK_VERSIONS {
            match self.list(format!("/apis/{version}/links"), "").await {
                Err(Failure::Refused { code: 404, .. }) => {}
                listed => return listed.map_err(|failure| failure.to_string()),
            }
        }
        Ok(Vec::new())
    }

    /// Lists the objects of a kind that one of the label selectors selects, in each of `namespaces` or in all. Returns them, or why
    /// they cannot be listed, with the name of the kind.
    pub async fn select<K: Resource<DynamicType = ()>>(
        &self,
        selectors: &[&str],
        namespaces: &[Namespace],
    ) -> (String, Fact<Vec<Value>>) {
        let some = namespaces.iter().map(|one| Some(one.as_str()));
        let places = some.chain(namespaces.is_empty().then_some(None));
        let lists = places.flat_map(|namespace| {
            let path = K::url_path(&(), namespace);
            selectors
                .iter()
                .map(move |selector| self.list(path.clone(), selector))
        });
        let listed = try_join_all(lists).await.map(|lists| lists.concat());
        (
            K::kind(&()).into_owned(),
            listed.map_err(|failure| failure.to_string()),
        )
    }

    /// Lists the objects at a path that a label selector selects.
    pub(super) async fn list(&self, path: String, selector: &str) -> Result<Vec<Value>, Failure> {
        let params = ListParams::default().labels(selector);
        let request = Request::new(&*path).list(&params)?;
        let list = within(REQUEST_TIMEOUT, self.client.request::<Value>(request)).await;
        match list?["items"].take() {
            Value::Array(items) => Ok(items),
            _ => Err(Failure::Unreadable(format!("{path} is no list"))),
        }
    }
}
