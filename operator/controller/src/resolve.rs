//! A request and its profile become one: what the request leaves out is the profile's, and what it
//! asks for beyond that must be within the profile's limits and on its lists.

mod allow;
mod workers;

use std::fmt;

use warpforge_operator_api::data::{Artifacts, Data, Pass, S3};
use warpforge_operator_api::policy::{GoldenPolicy, Thresholds, Tolerance, Tolerances};
use warpforge_operator_api::profile::{BenchmarkProfileSpec, Goldens};
use warpforge_operator_api::resolved::{GoldenPlaces, ProfileRef, Resolved};
use warpforge_operator_api::{BenchmarkRunSpec, Time};

use crate::observed::ProfileSeen;

/// Something that a run asks for and does not get.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {why}")]
pub struct Refusal {
    /// The field, such as `workers[gpu].image`.
    pub at: String,
    pub why: Why,
}

/// Why a run does not get it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    #[error("{value} is not on the profile's list allowed.{list}")]
    NotAllowed { value: String, list: &'static str },
    #[error("{asked} is more than the profile's limit of {limit}")]
    TooMuch { asked: String, limit: String },
    #[error("{0}")]
    Wrong(String),
}

/// Collects what is refused, so that a user learns all of it at once.
#[derive(Default)]
struct Refusals(Vec<Refusal>);

impl Refusals {
    fn not_allowed(&mut self, at: impl fmt::Display, value: &str, list: &'static str) {
        self.0.push(Refusal {
            at: at.to_string(),
            why: Why::NotAllowed { value: value.to_owned(), list },
        });
    }

    fn wrong(&mut self, at: impl fmt::Display, why: impl Into<String>) {
        self.0.push(Refusal { at: at.to_string(), why: Why::Wrong(why.into()) });
    }

    fn at_most(&mut self, at: impl fmt::Display, asked: i64, limit: i64) {
        if asked > limit {
            let (asked, limit) = (asked.to_string(), limit.to_string());
            self.0.push(Refusal { at: at.to_string(), why: Why::TooMuch { asked, limit } });
        }
    }

    /// Refuses a value that is neither the profile's default nor on its list.
    fn listed(
        &mut self,
        at: impl fmt::Display,
        value: Option<&str>,
        default: Option<&str>,
        list: (&'static str, &[String]),
    ) {
        let Some(value) = value.filter(|value| Some(*value) != default) else { return };
        if !allow::listed(list.1, value) {
            self.not_allowed(at, value, list.0);
        }
    }
}

/// Merges a request of a namespace with its profile, or says all that is refused.
pub fn resolve(
    namespace: &str,
    spec: &BenchmarkRunSpec,
    profile: &ProfileSeen,
) -> Result<Resolved, Vec<Refusal>> {
    let mut refusals = Refusals::default();
    let BenchmarkProfileSpec { defaults, limits, allowed, concurrency, goldens, network } =
        &profile.spec;

    let given = [spec.workload.is_some(), spec.model.is_some(), spec.suite.is_some()];
    if given.iter().filter(|given| **given).count() != 1 {
        refusals.wrong("spec", "exactly one of workload, model and suite");
    }
    let data = spec.data.clone().unwrap_or_default();
    check_data(&data, profile, &mut refusals);
    check_uris(spec, &data, profile, &mut refusals);
    let artifacts = spec.artifacts.clone().or_else(|| defaults.artifacts.clone());
    if let Some(artifacts) = &spec.artifacts {
        check_store(&artifacts.s3, defaults.artifacts.as_ref(), profile, &mut refusals);
    }
    let workers = workers::resolve(spec, profile, &mut refusals);

    let pending = spec.pending_deadline_seconds.unwrap_or(defaults.pending_deadline_seconds);
    let longest = limits.pending_deadline_seconds.max(defaults.pending_deadline_seconds);
    refusals.at_most("pendingDeadlineSeconds", pending, longest);
    let deadline = spec.run_deadline_seconds.unwrap_or(defaults.run_deadline_seconds);
    let longest = limits.run_deadline_seconds.max(defaults.run_deadline_seconds);
    refusals.at_most("runDeadlineSeconds", deadline, longest);
    let failure_policy = spec.failure_policy.clone().or_else(|| defaults.failure_policy.clone());
    let failure_policy = failure_policy.unwrap_or_default();
    let restarts = defaults.failure_policy.as_ref().map_or(0, |policy| policy.max_restarts);
    refusals.at_most(
        "failurePolicy.maxRestarts",
        i64::from(failure_policy.max_restarts),
        i64::from(limits.restarts.max(restarts)),
    );
    refusals.listed(
        "queueName",
        spec.queue_name.as_deref(),
        defaults.queue_name.as_deref(),
        ("queues", &allowed.queues),
    );
    refusals.listed(
        "priorityClassName",
        spec.priority_class_name.as_deref(),
        defaults.priority_class_name.as_deref(),
        ("priorityClasses", &allowed.priority_classes),
    );

    // A profile's defaults for passes are nothing to a suite, which has none.
    let compares = spec.suite.is_none();
    let policy = if compares { defaults.golden_policy } else { GoldenPolicy::default() };
    let policy = spec.golden_policy.unwrap_or(policy);
    let passes = if compares { passes(&spec.passes, policy, &mut refusals) } else { Vec::new() };
    let usual_tolerances = defaults.tolerances.as_ref().filter(|_| compares);
    let usual_thresholds = defaults.thresholds.as_ref().filter(|_| compares);
    if spec.program_uri.is_some() && !passes.contains(&Pass::Warpforge) {
        let why = "it runs in the pass Warpforge, which passes or goldenPolicy leave out";
        refusals.wrong("programUri", why);
    }
    let thresholds = thresholds(spec.thresholds.as_ref(), usual_thresholds);
    if compares {
        check_judging(policy, &thresholds, &mut refusals);
    }
    let resolved = Resolved {
        profile: ProfileRef {
            name: profile.name.clone(),
            uid: profile.uid.clone(),
            generation: profile.generation,
        },
        workload: spec.workload.clone(),
        model: spec.model.clone(),
        suite: spec.suite.clone(),
        program_uri: spec.program_uri.clone(),
        passes,
        golden_policy: policy,
        goldens: golden_places(namespace, goldens),
        workers,
        data,
        artifacts,
        tolerances: tolerances(spec.tolerances.as_ref(), usual_tolerances),
        thresholds,
        failure_policy,
        pending_deadline_seconds: pending,
        run_deadline_seconds: deadline,
        queue_name: spec.queue_name.clone().or_else(|| defaults.queue_name.clone()),
        priority_class_name: spec
            .priority_class_name
            .clone()
            .or_else(|| defaults.priority_class_name.clone()),
        ttl_seconds_after_finished: defaults.ttl_seconds_after_finished.clone().unwrap_or_default(),
        concurrency: concurrency.clone(),
        image_pull_secrets: defaults.image_pull_secrets.clone(),
        service_account_name: defaults.service_account_name.clone(),
        egress_cidrs: network.egress_cidrs.clone(),
        shared_memory: defaults.shared_memory.clone(),
    };
    if refusals.0.is_empty() { Ok(resolved) } else { Err(refusals.0) }
}

/// Until when a run waits for a profile that does not exist: no profile says otherwise.
pub fn profile_deadline(spec: &BenchmarkRunSpec, created: Time) -> Time {
    created.plus(spec.pending_deadline_seconds.unwrap_or(1800))
}

fn passes(asked: &[Pass], policy: GoldenPolicy, refusals: &mut Refusals) -> Vec<Pass> {
    let runs = |pass| match (policy, pass) {
        (GoldenPolicy::Only, Pass::Warpforge) | (GoldenPolicy::Skip, Pass::Golden) => false,
        _ => asked.contains(&pass),
    };
    let passes: Vec<_> =
        [Pass::Golden, Pass::Warpforge].into_iter().filter(|pass| runs(*pass)).collect();
    if passes.is_empty() {
        refusals.wrong("passes", format!("goldenPolicy {policy:?} leaves no pass to compute"));
    }
    passes
}

/// What no worker can do yet. Workers refuse it with the same words; here no pod starts for it.
fn check_judging(policy: GoldenPolicy, thresholds: &Thresholds, refusals: &mut Refusals) {
    if policy == GoldenPolicy::Skip {
        let why = "Skip: Pass 2 starts from golden's state, and cannot do without yet";
        refusals.wrong("goldenPolicy", why);
    }
    if thresholds.maximum_regression.is_some() {
        let why = "workers have no baselines that a run could be held against";
        refusals.wrong("thresholds.maximumRegression", why);
    }
}

fn golden_places(namespace: &str, goldens: &Goldens) -> GoldenPlaces {
    let place = |namespace: &str| format!("goldens/{namespace}");
    let own = place(namespace);
    let shared = goldens.trusted_writer.as_deref().map(place).filter(|shared| *shared != own);
    GoldenPlaces { write: own.clone(), read: [own].into_iter().chain(shared).collect() }
}

fn check_data(data: &Data, profile: &ProfileSeen, refusals: &mut Refusals) {
    let allowed = &profile.spec.allowed;
    for volume in &data.volume_claims {
        if !allow::listed(&allowed.volume_claims, &volume.claim_name) {
            let at = format!("data.volumeClaims[{}].claimName", volume.name);
            refusals.not_allowed(at, &volume.claim_name, "volumeClaims");
        }
    }
    if let Some(secret) = &data.hugging_face_token_secret
        && !allow::listed(&allowed.secrets, &secret.name)
    {
        refusals.not_allowed("data.huggingFaceTokenSecret.name", &secret.name, "secrets");
    }
    for licence in &data.accept_licenses {
        if !allow::listed(&allowed.licenses, licence) {
            refusals.not_allowed("data.acceptLicenses", licence, "licenses");
        }
    }
}

fn check_uris(
    spec: &BenchmarkRunSpec,
    data: &Data,
    profile: &ProfileSeen,
    refusals: &mut Refusals,
) {
    let model = spec.model.iter();
    let inputs = model.clone().flat_map(|model| model.inputs.iter().flat_map(|all| &all.uris));
    let program = spec.program_uri.iter().map(|uri| ("programUri", uri));
    let all = model.map(|model| ("model.uri", &model.uri));
    let all = all.chain(inputs.map(|uri| ("model.inputs.uris", uri))).chain(program);
    for (at, uri) in all {
        if allow::climbs(uri) {
            refusals.wrong(at, format!("{uri} has a part `.` or `..`, or hides one"));
        } else if let Some(file) = uri.strip_prefix("data://") {
            let claim = file.split('/').next().unwrap_or_default();
            if !data.volume_claims.iter().any(|volume| volume.name == claim) {
                refusals.wrong(at, format!("{uri} names no volume of data.volumeClaims"));
            }
        } else if !allow::uri(&profile.spec.allowed.uri_prefixes, uri) {
            refusals.not_allowed(at, uri, "uriPrefixes");
        }
    }
}

/// A store of a run's own choice. Its bundle may lie in the profile's own place or below it.
fn check_store(
    store: &S3,
    default: Option<&Artifacts>,
    profile: &ProfileSeen,
    refusals: &mut Refusals,
) {
    let allowed = &profile.spec.allowed;
    let default = default.map(|artifacts| &artifacts.s3);
    let endpoint = store.endpoint.as_deref().unwrap_or("aws");
    let usual = default.map(|s3| s3.endpoint.as_deref().unwrap_or("aws"));
    let exact = allowed.endpoints.iter().any(|entry| entry == endpoint);
    if usual != Some(endpoint) && !exact {
        refusals.not_allowed("artifacts.s3.endpoint", endpoint, "endpoints");
    }
    let place = |s3: &S3| format!("s3://{}/{}", s3.bucket, s3.prefix.trim_matches('/'));
    let uri = place(store);
    let below = default.is_some_and(|s3| {
        usual == Some(endpoint) && allow::uri(&[place(s3).trim_end_matches('/').to_owned()], &uri)
    });
    if allow::climbs(&uri) {
        refusals.wrong("artifacts.s3.prefix", "it has a part `.` or `..`, or hides one");
    } else if !below && !allow::uri(&allowed.uri_prefixes, &uri) {
        refusals.not_allowed("artifacts.s3.bucket", &uri, "uriPrefixes");
    }
    // The profile's secret is for the profile's store: elsewhere it would be given away.
    let usual = default.filter(|_| usual == Some(endpoint));
    refusals.listed(
        "artifacts.s3.credentialsSecret",
        store.credentials_secret.as_deref(),
        usual.and_then(|s3| s3.credentials_secret.as_deref()),
        ("secrets", &allowed.secrets),
    );
}

fn tolerances(own: Option<&Tolerances>, default: Option<&Tolerances>) -> Tolerances {
    let both = |part: fn(&Tolerances) -> &Option<Tolerance>| -> Option<Tolerance> {
        let (own, default) = (own.and_then(|t| part(t).clone()), default.map(part));
        let Some(default) = default.cloned().flatten() else { return own };
        let own = own.unwrap_or_default();
        Some(Tolerance {
            relative: own.relative.or(default.relative),
            absolute: own.absolute.or(default.absolute),
        })
    };
    Tolerances {
        weights: both(|t| &t.weights),
        activations: both(|t| &t.activations),
        gradients: both(|t| &t.gradients),
        loss: both(|t| &t.loss),
        metrics: both(|t| &t.metrics),
    }
}

fn thresholds(own: Option<&Thresholds>, default: Option<&Thresholds>) -> Thresholds {
    let (own, default) = (own.cloned().unwrap_or_default(), default.cloned().unwrap_or_default());
    Thresholds {
        minimum_ratio: own.minimum_ratio.or(default.minimum_ratio),
        maximum_regression: own.maximum_regression.or(default.maximum_regression),
        fail_on_performance: own.fail_on_performance.or(default.fail_on_performance),
    }
}
