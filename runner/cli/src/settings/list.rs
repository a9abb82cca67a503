//! The list of settings: one row each, and the machinery that turns rows into code.

use std::path::PathBuf;

use serde_json::Value as Json;

use super::environment::Environment;
use super::resolve::{Layers, pick};
use super::value::{Color, Endpoint, PathList, Seconds};
use super::{Key, Problem, Problems, Source, Sourced, Value};

/// Makes the typed [`Settings`], the table [`KEYS`] and everything that walks over both.
macro_rules! settings {
    ($(
        #[doc = $doc:literal]
        $field:ident: $type:ty = $key:literal, $variables:expr, $default:expr;
    )*) => {
        /// Every setting with its value and source.
        #[derive(Clone, Debug)]
        pub struct Settings {
            $(#[doc = $doc] pub $field: Sourced<$type>,)*
        }

        /// Every setting's key, variables and one-line description.
        pub const KEYS: &[Key] = &[
            $(Key { name: $key, variables: &$variables, doc: $doc.trim_ascii() },)*
        ];

        impl Settings {
            /// The highest layer wins; a wrong value is a problem even where it is overridden.
            pub(super) fn resolve(layers: &Layers<'_>) -> Result<Self, Problems> {
                let mut problems = layers.file.map(|file| file.unknown_keys()).unwrap_or_default();
                let mut keys = KEYS.iter();
                $(
                    let default: fn(&Environment) -> $type = $default;
                    let key = keys.next().expect("KEYS has a row for every field");
                    let $field = pick(key, layers, default(layers.environment), &mut problems);
                )*
                // In the order of the file, as a person goes through it.
                problems.sort_by_key(Problem::line);
                if problems.is_empty() { Ok(Self { $($field,)* }) } else { Err(Problems(problems)) }
            }

            /// Each value in its printable form, in the order of [`KEYS`].
            pub fn values(&self) -> Vec<(Json, &Source)> {
                vec![$((self.$field.value.to_json(), &self.$field.source),)*]
            }
        }
    };
}

settings! {
    /// When to colour the output: auto (on a terminal), always or never
    color: Color = "color", ["WARPFORGE_COLOR"], |_| Color::Auto;

    /// Leave out progress and remarks
    quiet: bool = "quiet", ["WARPFORGE_QUIET"], |_| false;

    /// Folder of large things fetched or generated once (libtorch, models)
    cache_dir: PathBuf = "cache.dir", ["WARPFORGE_CACHE_DIR"], Environment::cache_dir;

    /// Folder of datasets that are not in the Hugging Face cache; without it, `data` in cache.dir
    data_dir: Option<PathBuf> = "data.dir", ["WARPFORGE_DATA_DIR"], |_| None;

    /// Folder of COCO, if it is not in data.dir
    data_coco: Option<PathBuf> = "data.coco", ["WARPFORGE_DATA_COCO"], Environment::coco;

    /// Folder of the libtorch to use: the one that holds `lib/libtorch_cpu.so`
    libtorch: Option<PathBuf> = "golden.libtorch",
        ["WARPFORGE_GOLDEN_LIBTORCH", "LIBTORCH"], |_| None;

    /// Kubernetes client configuration, or several separated by colons
    kubeconfig: Option<PathList> = "cluster.kubeconfig",
        ["WARPFORGE_CLUSTER_KUBECONFIG", "KUBECONFIG"], Environment::kubeconfig;

    /// Context of the kubeconfig to use in place of its current one
    context: Option<String> = "cluster.context", ["WARPFORGE_CLUSTER_CONTEXT"], |_| None;

    /// Namespace to use in place of the context's
    namespace: Option<String> = "cluster.namespace", ["WARPFORGE_CLUSTER_NAMESPACE"], |_| None;

    /// Address of the object store; without one, Amazon's own
    endpoint: Option<Endpoint> = "store.endpoint", ["WARPFORGE_STORE_ENDPOINT"], |_| None;

    /// Region of the object store
    region: Option<String> = "store.region", ["WARPFORGE_STORE_REGION", "AWS_REGION"], |_| None;

    /// Bucket for artifacts and datasets
    bucket: Option<String> = "store.bucket", ["WARPFORGE_STORE_BUCKET"], |_| None;

    /// Prefix of every object's key in the bucket
    prefix: Option<String> = "store.prefix", ["WARPFORGE_STORE_PREFIX"], |_| None;

    /// Seconds `warpforge doctor` may take in all
    doctor_timeout: Seconds = "doctor.timeout_seconds",
        ["WARPFORGE_DOCTOR_TIMEOUT_SECONDS"], |_| Seconds::DOCTOR;
}
