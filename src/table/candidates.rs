//! What the items of a service offer: the first step of a build.

use super::candidate::Candidate;
use super::context::BuildContext;
use super::{cluster_ip, headless, local};
use crate::model::{ItemKind, MAX_LISTED, ObjectRef, Problem, ProblemKind, ServiceKey, list_some};

/// Collects what the items of a service offer. Items of excluded clusters offer nothing. A service is known if there is a
/// candidate, also one without endpoints.
pub(super) fn candidates<'s>(
    context: BuildContext<'s>,
    problems: &mut Vec<Problem>,
) -> Vec<Candidate<'s>> {
    let BuildContext { key, rules, .. } = context;
    let mut of_hosts = headless::endpoint_mirrors(context);
    let mut candidates: Vec<Candidate<'_>> = Vec::new();
    for (object, item) in context.items {
        if let Some(link) = item.link().filter(|link| rules.excludes(link)) {
            let cluster = rules.name_of(link);
            let detail = format!("cluster '{cluster}' is excluded by the setting excludeClusters");
            let problem = Problem::new(ProblemKind::LeftOut, detail).of_cluster(&cluster);
            problems.push(problem.of_object(ObjectRef::service(object)));
            continue;
        }
        candidates.extend(match item.kind {
            ItemKind::EndpointMirror => None,
            ItemKind::HeadlessMirror => {
                headless::candidate(object, item, &mut of_hosts, context, problems)
            }
            ItemKind::GatewayMirror | ItemKind::FlatMirror | ItemKind::Federated => {
                cluster_ip::candidate(object, item, context)
            }
            ItemKind::Own(own) => local::candidate(object, item, own, context, problems),
        });
    }
    headless::report_orphans(of_hosts, rules, problems);
    let is_known = |source: &ServiceKey| candidates.iter().any(|one| one.item.service == *source);
    let sources = rules.aliases.sources_of(key).iter();
    let unknown = list_some(sources.filter(|source| !is_known(source)), MAX_LISTED);
    if !unknown.is_empty() {
        problems.push(Problem::new(ProblemKind::UnknownAlias, unknown));
    }
    // Of endpoints with one name, that of a mirror comes first.
    candidates.sort_by_key(|candidate| candidate.item.own().is_some());
    for candidate in &mut candidates {
        candidate.omit_long_names(key, rules.longest_zone, problems);
    }
    candidates
}
