//! The kinds of services, and the choice of the kind that answers `S.N.Z` (rule K1).

use std::collections::BTreeSet;
use std::fmt;

use super::merge::Draft;
use super::parts::Parts;
use super::rules::Rules;
use super::{Conflict, ConflictKind};
use crate::mirror::{ClusterName, ImportForm, ServiceKey};

/// The way in which a service of the clusters reaches this cluster. The documentation of [`table`](super) describes
/// each kind. Kinds that are united have the first of their kinds in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ServiceKind {
    /// Headless mirrors, with one endpoint for each remote pod.
    Headless,
    /// A federated service, with one address for all its clusters.
    Federated,
    /// Mirrors with a cluster IP. Connections pass through the gateway of the other cluster.
    Gateway,
    /// Mirrors with a cluster IP in a flat network. Connections go directly to the pods.
    Flat,
    /// Services of this cluster.
    Local,
    /// Services of the Multi-Cluster Services API.
    Import,
}

/// The profile of a zone: its grammar, and the kind that comes first (rules K1, K9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// The names of this server, such as `S.N.Z`.
    Global,
    /// The names of the Multi-Cluster Services API (KEP-1645), such as `S.N.svc.Z`.
    ClusterSet,
}

/// The drafts of one service, by kind. All are [selected](super::Endpoint::is_selected).
pub(super) struct Candidates {
    /// Endpoints of headless mirrors.
    pub(super) headless: Vec<Draft>,
    /// A headless mirror exists, with or without endpoints.
    pub(super) has_headless_mirror: bool,
    /// Federated services.
    pub(super) federated: Vec<Draft>,
    /// Mirrors with a cluster IP.
    pub(super) mirrors: Vec<Draft>,
    /// The Service of this cluster with a cluster IP.
    pub(super) local_service: Option<Draft>,
    /// Pods of the headless Service of this cluster.
    pub(super) local_pods: Vec<Draft>,
    /// The headless Service of this cluster is exported.
    pub(super) is_local_exported: bool,
    /// Endpoints of the ServiceImport.
    pub(super) imports: Vec<Draft>,
    /// A ServiceImport exists, with or without endpoints.
    pub(super) has_import: bool,
}

/// The chosen kind, with the drafts of all endpoints that have a name.
pub(super) struct Chosen {
    /// The kind of the service.
    pub(super) kind: ServiceKind,
    /// The endpoints of `S.N.Z` are [selected](super::Endpoint::is_selected). The others have names of their cluster only.
    pub(super) drafts: Vec<Draft>,
}

// === impl ServiceKind ===

impl ServiceKind {
    /// All kinds, for metrics that include zeros.
    pub const ALL: [Self; 6] = [
        Self::Headless,
        Self::Federated,
        Self::Gateway,
        Self::Flat,
        Self::Local,
        Self::Import,
    ];

    /// Returns whether Linkerd mirrors the objects of the kind from other clusters. Only meshed clients can use their
    /// addresses.
    pub fn is_mirrored(self) -> bool {
        match self {
            Self::Headless | Self::Federated | Self::Gateway | Self::Flat => true,
            Self::Local | Self::Import => false,
        }
    }

    /// Returns the name of the kind in reports and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Headless => "headless",
            Self::Federated => "federated",
            Self::Gateway => "gateway",
            Self::Flat => "flat",
            Self::Local => "local",
            Self::Import => "import",
        }
    }
}

impl fmt::Display for ServiceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

// === impl Candidates ===

impl Candidates {
    /// Returns whether no object has an endpoint. Pods of this cluster belong to a Service that counts by itself.
    pub(super) fn is_empty(&self) -> bool {
        let services = [
            &self.headless,
            &self.federated,
            &self.mirrors,
            &self.imports,
        ];
        services.iter().all(|drafts| drafts.is_empty()) && self.local_service.is_none()
    }

    /// Chooses the kind that answers the name of the service. A kind without endpoints is not considered (rule K1).
    pub(super) fn choose(mut self, profile: Profile) -> Chosen {
        let imports = std::mem::take(&mut self.imports);
        let has_endpoint = |drafts: &[Draft]| drafts.iter().any(|draft| draft.ready);
        match profile {
            Profile::Global => {
                let others = self.choose_linked();
                match has_endpoint(&others.drafts) || imports.is_empty() {
                    true => others.with_other_clusters(imports),
                    false => Chosen::import(imports).with_other_clusters(others.drafts),
                }
            }
            // Other kinds than the chosen one have no names there (rule K9).
            Profile::ClusterSet if has_endpoint(&imports) => Chosen::import(imports),
            Profile::ClusterSet => {
                if !self.is_local_exported {
                    self.local_pods.clear();
                }
                let mut chosen = self.choose_linked();
                chosen.drafts.retain(|draft| draft.endpoint.is_selected);
                chosen
            }
        }
    }

    /// Chooses among the kinds of Linkerd and of this cluster.
    fn choose_linked(self) -> Chosen {
        let Self {
            headless,
            has_headless_mirror,
            federated,
            mut mirrors,
            local_service,
            local_pods,
            is_local_exported,
            imports: _, // see `choose`
            has_import,
        } = self;
        mirrors.extend(local_service);
        let (kind, mut selected, others) = if !headless.is_empty() {
            (ServiceKind::Headless, join(headless, local_pods), mirrors)
        } else if !federated.is_empty() {
            let others = join(mirrors, local_pods);
            (ServiceKind::Federated, federated, others)
        } else if let Some(kind) = mirrors.iter().map(|draft| draft.endpoint.kind).min() {
            // Headless mirroring is off by default. All other clusters then have mirrors with a cluster IP.
            match is_local_exported {
                true => (kind, join(mirrors, local_pods), Vec::new()),
                false => (kind, mirrors, local_pods),
            }
        } else if has_headless_mirror {
            (ServiceKind::Headless, local_pods, Vec::new())
        } else if local_pods.is_empty() && has_import {
            (ServiceKind::Import, local_pods, Vec::new())
        } else {
            (ServiceKind::Local, local_pods, Vec::new())
        };
        selected.extend(others.into_iter().map(|mut draft| {
            draft.endpoint.is_selected = false;
            draft
        }));
        let drafts = selected;
        Chosen { kind, drafts }
    }
}

// === impl Chosen ===

impl Chosen {
    fn import(drafts: Vec<Draft>) -> Self {
        let kind = ServiceKind::Import;
        Self { kind, drafts }
    }

    /// Adds endpoints of other kinds in clusters that have none yet. A ServiceImport and mirrors may list the same pods.
    /// They have names of their cluster only.
    fn with_other_clusters(mut self, others: Vec<Draft>) -> Self {
        let own = self.drafts.iter().map(|draft| &draft.endpoint.cluster);
        let own: BTreeSet<Option<ClusterName>> = own.cloned().chain([None]).collect();
        let others = others.into_iter();
        let others = others.filter(|draft| !own.contains(&draft.endpoint.cluster));
        self.drafts.extend(others.map(|mut draft| {
            draft.endpoint.is_selected = false;
            draft
        }));
        self
    }

    /// Reports the clusters that `S.N.Z` omits because another kind answers it.
    pub(super) fn kind_conflict(
        &self,
        key: &ServiceKey,
        parts: &Parts<'_>,
        rules: &Rules,
    ) -> Option<Conflict> {
        let mut included = self.clusters(true);
        let mut omitted = self.clusters(false);
        // Their addresses belong to no single cluster.
        let shared = [
            (ServiceKind::Federated, federated_clusters(parts, rules)),
            (ServiceKind::Import, cluster_set(parts, rules)),
        ];
        for (kind, clusters) in shared {
            match kind == self.kind {
                true => included.extend(clusters),
                false => omitted.extend(clusters),
            }
        }
        omitted.retain(|cluster| {
            !included.contains(cluster) && !rules.excluded_clusters.contains(cluster)
        });
        let chosen = match included.is_empty() {
            true => self.kind.to_string(),
            false => format!("{} in {}", self.kind, list_clusters(included.iter())),
        };
        (!omitted.is_empty()).then(|| Conflict {
            kind: ConflictKind::Kind,
            name: key.to_string().into(),
            detail: format!(
                "{chosen}, but of another kind in {}: omitted from the name of the service",
                list_clusters(omitted.iter()),
            )
            .into(),
        })
    }

    /// Returns the clusters of the endpoints that are in the name of the service, or of those that are not. An endpoint
    /// that is not ready is in no name.
    fn clusters(&self, is_selected: bool) -> BTreeSet<ClusterName> {
        let drafts = self.drafts.iter();
        let drafts = drafts.filter(|d| d.ready && d.endpoint.is_selected == is_selected);
        drafts
            .filter_map(|draft| draft.endpoint.cluster.clone())
            .collect()
    }
}

fn join(mut one: Vec<Draft>, mut other: Vec<Draft>) -> Vec<Draft> {
    one.append(&mut other);
    one
}

/// Returns the clusters that export the service of a ServiceImport with one address for all of them.
pub(super) fn cluster_set(parts: &Parts<'_>, rules: &Rules) -> BTreeSet<ClusterName> {
    let import = parts.import.iter().map(|(_, import)| import);
    let shared = import.filter(|import| match &import.form {
        ImportForm::ClusterSetIp(addresses) => !addresses.is_empty(),
        ImportForm::Headless => false,
    });
    let clusters = shared.flat_map(|import| &import.clusters);
    clusters.map(|cluster| rules.name_of(cluster)).collect()
}

/// Returns the clusters of the members of federated services.
pub(super) fn federated_clusters(parts: &Parts<'_>, rules: &Rules) -> BTreeSet<ClusterName> {
    let mut clusters = BTreeSet::new();
    for (_, federated) in &parts.federated {
        let members = federated.members.iter();
        clusters.extend(members.map(|member| rules.name_of(&member.cluster)));
        clusters.extend(
            federated
                .has_local_member
                .then(|| rules.cluster_name.clone()),
        );
    }
    clusters
}

/// Maximum number of clusters in one sentence. An annotation of 200 KB may name thousands.
const MAX_LISTED: usize = 30;

/// Lists names of clusters in a sentence.
pub fn list_clusters<'c>(clusters: impl Iterator<Item = &'c ClusterName>) -> String {
    let names: Vec<&str> = clusters.map(ClusterName::as_str).collect();
    match names.get(MAX_LISTED..) {
        None | Some([]) => names.join(", "),
        Some(more) => format!("{} and {} more", names[..MAX_LISTED].join(", "), more.len()),
    }
}
