//! Methods that write and read objects of the source cluster.

use anyhow::{Context, Result, anyhow, ensure};
use http::Request;
use kube::Error;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use super::Cluster;
use crate::objects::namespace;
use crate::recordings::{Action, Event};
use crate::wait::eventually;

// === impl Cluster ===

impl Cluster {
    /// Writes one event of a recording. Returns when the API server has acknowledged it. Does not delete Endpoints, but
    /// waits: Kubernetes deletes them with their Service.
    pub fn write(&self, event: &Event) -> Result<()> {
        match (event.action, event.kind()) {
            (Action::Added, _) => self.put(&event.object),
            (Action::Modified, _) => self.replace(&event.object),
            (Action::Deleted, "Endpoints") => eventually(&event.title(), || {
                ensure!(
                    self.get(&event.object)?.is_none(),
                    "the object still exists"
                );
                Ok(())
            }),
            (Action::Deleted, _) => self.delete(&event.object),
        }
    }

    /// Changes the mirrors of the recorded namespaces to exactly this state.
    pub fn apply_state(&self, state: &[Event]) -> Result<()> {
        let mut namespaces: Vec<&str> = state.iter().map(Event::namespace).collect();
        namespaces.sort_unstable();
        namespaces.dedup();
        for namespace in namespaces {
            self.put(&self::namespace(namespace))?;
            for service in self.mirror_services(namespace)? {
                let expected = state.iter().find(|event| {
                    event.kind() == "Service"
                        && event.namespace() == namespace
                        && Some(event.name()) == service.metadata.name.as_deref()
                });
                if expected.is_none_or(|expected| {
                    expected.object["spec"]["clusterIP"] != service.data["spec"]["clusterIP"]
                }) {
                    self.delete_with_its_endpoints(namespace, &service)?;
                }
            }
        }
        for event in state {
            self.write(event)?;
        }
        Ok(())
    }

    /// Creates or replaces an object.
    pub fn put(&self, object: &Value) -> Result<()> {
        let (api, object) = self.api_of(object)?;
        let name = name_of(&object);
        let written = self.runtime.block_on(async {
            match api.create(&PostParams::default(), &object).await {
                // 422: the cluster IP is already allocated, possibly to the Service itself.
                Err(Error::Api(status)) if matches!(status.code, 409 | 422) => {
                    match api.get_opt(&name).await? {
                        Some(_) => api
                            .replace(&name, &PostParams::default(), &object)
                            .await
                            .map(drop),
                        None => Err(Error::Api(status)),
                    }
                }
                other => other.map(drop),
            }
        });
        written.with_context(|| format!("writing {name}"))
    }

    /// Reads a path of the API server.
    pub fn read(&self, path: &str) -> Result<Value> {
        let request = Request::get(path).body(Vec::new())?;
        Ok(self.runtime.block_on(self.client.request(request))?)
    }

    /// Patches an existing object.
    pub fn patch(&self, object: &Value, patch: &Value) -> Result<()> {
        let (api, object) = self.api_of(object)?;
        let name = name_of(&object);
        let patch = Patch::Merge(patch);
        let written = self.runtime.block_on(async {
            api.patch(&name, &PatchParams::default(), &patch)
                .await
                .map(drop)
        });
        written.with_context(|| format!("patching {name}"))
    }

    /// Patches the status of an object, like a kubelet.
    pub fn put_status(&self, object: &Value, status: &Value) -> Result<()> {
        let (api, object) = self.api_of(object)?;
        let name = name_of(&object);
        let patch = Patch::Merge(json!({ "status": status }));
        let written = self.runtime.block_on(async {
            api.patch_status(&name, &PatchParams::default(), &patch)
                .await
                .map(drop)
        });
        written.with_context(|| format!("patching the status of {name}"))
    }

    /// Deletes an object without a grace period. Succeeds if it does not exist.
    pub fn delete(&self, object: &Value) -> Result<()> {
        let (api, object) = self.api_of(object)?;
        let name = name_of(&object);
        let written = self.runtime.block_on(async {
            match api
                .delete(&name, &DeleteParams::default().grace_period(0))
                .await
            {
                Err(Error::Api(status)) if status.code == 404 => Ok(()),
                other => other.map(drop),
            }
        });
        written.with_context(|| format!("deleting {name}"))
    }

    /// Deletes the Services, Pods and slices of a namespace without a grace period. Returns when none is left.
    pub fn empty(&self, namespace: &str) -> Result<()> {
        for (version, kind) in [
            ("v1", "Service"),
            ("v1", "Pod"),
            ("discovery.k8s.io/v1", "EndpointSlice"),
        ] {
            let api: Api<DynamicObject> =
                Api::namespaced_with(self.client.clone(), namespace, &resource(version, kind));
            eventually("deletion of the objects", || {
                self.runtime.block_on(api.delete_collection(
                    &DeleteParams::default().grace_period(0),
                    &ListParams::default(),
                ))?;
                let left = self.list(version, kind, Some(namespace), "")?.len();
                ensure!(left == 0, "{left} objects of kind {kind} are left");
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Returns the current object, if it exists.
    pub fn get(&self, object: &Value) -> Result<Option<DynamicObject>> {
        let (api, object) = self.api_of(object)?;
        Ok(self.runtime.block_on(api.get_opt(&name_of(&object)))?)
    }

    /// Returns the slices of a Service.
    pub fn slices(&self, namespace: &str, service: &str) -> Result<Vec<DynamicObject>> {
        let selector = format!("kubernetes.io/service-name={service}");
        self.list(
            "discovery.k8s.io/v1",
            "EndpointSlice",
            Some(namespace),
            &selector,
        )
    }

    /// Returns the objects of a kind in all namespaces that have these labels.
    pub fn objects(&self, version: &str, kind: &str, selector: &str) -> Result<Vec<Value>> {
        let objects = self.list(version, kind, None, selector)?;
        let object = |object| {
            let mut object = serde_json::to_value(object)?;
            // Items of a list have no types.
            object["apiVersion"] = json!(version);
            object["kind"] = json!(kind);
            Ok(object)
        };
        objects.into_iter().map(object).collect()
    }

    /// Returns the number of objects of a kind in all namespaces.
    pub fn count(&self, api_version: &str, kind: &str) -> Result<usize> {
        Ok(self.list(api_version, kind, None, "")?.len())
    }

    fn replace(&self, object: &Value) -> Result<()> {
        let (api, object) = self.api_of(object)?;
        let name = name_of(&object);
        let written = self.runtime.block_on(async {
            api.replace(&name, &PostParams::default(), &object)
                .await
                .map(drop)
        });
        written.with_context(|| format!("replacing {name}"))
    }

    fn mirror_services(&self, namespace: &str) -> Result<Vec<DynamicObject>> {
        self.list(
            "v1",
            "Service",
            Some(namespace),
            "mirror.linkerd.io/mirrored-service=true",
        )
    }

    fn list(
        &self,
        version: &str,
        kind: &str,
        namespace: Option<&str>,
        selector: &str,
    ) -> Result<Vec<DynamicObject>> {
        let resource = resource(version, kind);
        let api: Api<DynamicObject> = match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        };
        Ok(self
            .runtime
            .block_on(api.list(&ListParams::default().labels(selector)))?
            .items)
    }

    fn delete_with_its_endpoints(&self, namespace: &str, service: &DynamicObject) -> Result<()> {
        let name = service.metadata.name.as_deref().unwrap_or_default();
        let object = |kind: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"namespace": namespace, "name": name}});
        self.delete(&object("Service"))?;
        self.write(&Event {
            time: 0,
            action: Action::Deleted,
            object: object("Endpoints"),
        })?;
        Ok(())
    }

    fn api_of(&self, object: &Value) -> Result<(Api<DynamicObject>, DynamicObject)> {
        let object: DynamicObject = serde_json::from_value(object.clone())?;
        let types = object
            .types
            .as_ref()
            .ok_or_else(|| anyhow!("object without a kind"))?;
        let resource = resource(&types.api_version, &types.kind);
        let client = self.client.clone();
        let api = match &object.metadata.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &resource),
            None => Api::all_with(client, &resource),
        };
        Ok((api, object))
    }

    /// Creates an object as a dry run, including admission. Unknown fields are errors, not warnings.
    pub fn dry_run(&self, object: &Value) -> Result<()> {
        let (api, named) = self.api_of(object)?;
        let url = format!("{}?dryRun=All&fieldValidation=Strict", api.resource_url());
        self.post(&url, object)
            .with_context(|| format!("creating {}", name_of(&named)))?;
        Ok(())
    }

    /// Requests a token for a service account, like a kubelet for a pod.
    pub fn token(&self, namespace: &str, account: &str) -> Result<String> {
        let url = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600}});
        let answer = self.post(&url, &request)?;
        let token = answer["status"]["token"].as_str();
        Ok(token.context("response without a token")?.to_owned())
    }

    /// Posts a body that is not a stored object, such as a review.
    pub fn post(&self, url: &str, body: &Value) -> Result<Value> {
        let request = Request::post(url).header("Content-Type", "application/json");
        let request = request.body(body.to_string().into_bytes())?;
        let answer = self.runtime.block_on(self.client.request_text(request))?;
        Ok(serde_json::from_str(&answer)?)
    }
}

fn name_of(object: &DynamicObject) -> String {
    object.metadata.name.clone().unwrap_or_default()
}

fn resource(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind_in_lower_case = kind.to_lowercase();
    let plural = match kind_in_lower_case.strip_suffix('y') {
        _ if kind == "Endpoints" => kind_in_lower_case,
        Some(stem) => format!("{stem}ies"),
        None => format!("{kind_in_lower_case}s"),
    };
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), &plural)
}
