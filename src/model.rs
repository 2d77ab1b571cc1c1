//! The domain types: the parts of Kubernetes and Linkerd objects that this server uses.
//!
//! The sources and [`build`](crate::table::build()) use these types. [`parse`] selects the type for a Kubernetes object.
//! Each type has a file that parses it and checks it once: a [`ServiceName`] is a DNS label, and an address is one that
//! clients may use. This module depends neither on a Kubernetes client nor on a DNS library.

mod api_host;
mod failover_order;
mod few;
mod interned;
mod item;
pub mod key;
mod keys;
mod kube_object;
pub mod label;
mod lease;
mod line;
mod linkerd;
pub mod parse;
mod ports;
pub mod problem;
mod service_settings;
mod similar;
mod slice;
mod timestamp;

pub use api_host::ApiHost;
pub use failover_order::{ClusterTerm, ExpectedClusters, FailoverOrder};
pub use few::Few;
pub use interned::{Text, intern};
pub use item::{Export, Item, ItemKind, Link, MirroredHost, Object, OwnForm, OwnService};
pub use keys::{Kind, LINK_VERSIONS, ObjectKey, ObjectName, ObjectRef, ServiceKey};
pub use kube_object::KubeObject;
pub use label::{ClusterName, Hostname, Namespace, PortName, ServiceName};
pub use lease::Lease;
pub use line::{Line, MAX_LISTED, is_deceptive, join_texts, list_some, sentence_of, shorten};
pub use ports::{Port, Ports, Protocol};
pub use problem::{Family, Level, Problem, ProblemKind};
pub use service_settings::{GatewayDown, ServiceSettings, TTL_RANGE};
pub use similar::{most_similar, typing_errors};
pub use slice::{Listed, ListedHost, Slice, SliceEndpoint};
pub use timestamp::Timestamp;
