//! The single requests of `check` and `explain`: the server's version, the caller's permissions, and objects that no
//! watch reads.
//!
//! Errors are sentences, because they only become lines of a report.

use std::time::Duration;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec, SubjectAccessReview,
    SubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIGroup;
use kube::api::{ListParams, PostParams};
use kube::{Api, Resource};

use super::Cluster;
use super::replica::SELECTOR;
use crate::check::objects::LINKS_GROUP;
use crate::check::permissions::Permission;
use crate::log::error_chain;
use crate::model::{Namespace, ServiceKey};
use crate::source::kube::{Failure, list_few, within};

/// Maximum time for one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

// === impl Cluster ===

impl Cluster {
    /// Returns the version of the API server, for example `v1.33.4`.
    ///
    /// # Errors
    ///
    /// If the request fails.
    pub async fn version(&self) -> Result<String, String> {
        let info = with_timeout(self.client.apiserver_version()).await?;
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
    ) -> Result<bool, String> {
        let params = PostParams::default();
        let resource_attributes = Some(attributes(permission));
        let Some((namespace, name)) = account else {
            let review = SelfSubjectAccessReview {
                spec: SelfSubjectAccessReviewSpec {
                    resource_attributes,
                    ..SelfSubjectAccessReviewSpec::default()
                },
                ..SelfSubjectAccessReview::default()
            };
            let reviews: Api<SelfSubjectAccessReview> = Api::all(self.client.clone());
            let reviewed = with_timeout(reviews.create(&params, &review)).await?;
            return Ok(reviewed.status.is_some_and(|status| status.allowed));
        };
        let groups = ["system:serviceaccounts", "system:authenticated"].map(str::to_owned);
        let of_namespace = format!("system:serviceaccounts:{namespace}");
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(format!("system:serviceaccount:{namespace}:{name}")),
                groups: Some([groups.to_vec(), vec![of_namespace]].concat()),
                resource_attributes,
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let reviewed = with_timeout(reviews.create(&params, &review)).await?;
        Ok(reviewed.status.is_some_and(|status| status.allowed))
    }

    /// Lists the pods of the only release, or of the only one in a namespace, ready or not, each as JSON.
    ///
    /// # Errors
    ///
    /// If the release is not found, the caller may not list its pods, or the request fails.
    pub async fn pods(&self, namespace: Option<&Namespace>) -> Result<Vec<String>, String> {
        let (namespace, selector) = match namespace {
            Some(namespace) => (namespace.to_string(), SELECTOR.to_owned()),
            None => self.release().await.map_err(|error| error.to_string())?,
        };
        let params = ListParams::default().labels(&selector);
        self.list(&Pod::url_path(&(), Some(&namespace)), params)
            .await
    }

    /// Lists Links, each as JSON. Returns `None` if the API server does not define that kind.
    ///
    /// # Errors
    ///
    /// If the caller may not list them, or the request fails.
    pub async fn links(&self) -> Result<Option<Vec<String>>, String> {
        let Some(text) = self.object(&format!("/apis/{LINKS_GROUP}")).await? else {
            return Ok(None);
        };
        let group: APIGroup = serde_json::from_str(&text).map_err(|error| error.to_string())?;
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

    /// Lists the objects of a kind that a label selector selects, in each of `namespaces` or in all, each as JSON.
    ///
    /// # Errors
    ///
    /// If the caller may not list them, or the request fails.
    pub async fn select<K: Resource<DynamicType = ()>>(
        &self,
        selector: &str,
        namespaces: &[Namespace],
    ) -> Result<Vec<String>, String> {
        let paths = match namespaces {
            [] => vec![K::url_path(&(), None)],
            some => {
                let path = |one: &Namespace| K::url_path(&(), Some(one.as_str()));
                some.iter().map(path).collect()
            }
        };
        let mut objects = Vec::new();
        for path in paths {
            let params = ListParams::default().labels(selector);
            objects.extend(self.list(&path, params).await?);
        }
        Ok(objects)
    }

    /// Returns one Service as JSON, or `None` if it does not exist. The request is a list, because `serve` may list but
    /// not get.
    ///
    /// # Errors
    ///
    /// If the caller may not list Services, or the request fails.
    pub async fn service(&self, name: &ServiceKey) -> Result<Option<String>, String> {
        let path = Service::url_path(&(), Some(name.namespace.as_str()));
        let params = ListParams::default().fields(&format!("metadata.name={}", name.service));
        Ok(self.list(&path, params).await?.pop())
    }

    /// Returns the object at a path as JSON, or `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// If the caller may not get it, or the request fails.
    async fn object(&self, path: &str) -> Result<Option<String>, String> {
        let request = http::Request::get(path).body(Vec::new());
        let request = request.map_err(|error| error_chain(&error))?;
        match within(REQUEST_TIMEOUT, self.client.request_text(request)).await {
            Ok(text) => Ok(Some(text)),
            Err(Failure::Refused { code: 404, .. }) => Ok(None),
            Err(failure) => Err(failure.to_string()),
        }
    }

    /// Lists the objects at a path. Fails if the list is not complete.
    async fn list(&self, path: &str, params: ListParams) -> Result<Vec<String>, String> {
        let mut objects = Vec::new();
        let take = |json: &str| objects.push(json.to_owned());
        let listed = list_few(&self.client, path, &params, REQUEST_TIMEOUT, take).await;
        listed.map_err(|failure| failure.to_string())?;
        Ok(objects)
    }
}

/// Converts a permission to an access review.
fn attributes(permission: &Permission) -> ResourceAttributes {
    ResourceAttributes {
        verb: Some(permission.verb.to_owned()),
        group: Some(permission.group.to_owned()),
        resource: Some(permission.resource.to_owned()),
        namespace: permission.namespace.as_ref().map(ToString::to_string),
        ..ResourceAttributes::default()
    }
}

async fn with_timeout<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, String> {
    let response = within(REQUEST_TIMEOUT, request).await;
    response.map_err(|failure| failure.to_string())
}
