//! Worker groups, with nothing left open.

use std::collections::{BTreeMap, BTreeSet};

use warpforge_operator_api::BenchmarkRunSpec;
use warpforge_operator_api::quantity::Quantity;
use warpforge_operator_api::resolved::{Gpus, ResolvedGroup};
use warpforge_operator_api::workers::{Resources, Toleration, Vendor, WorkerGroup};

use super::{Refusal, Refusals, Why, allow};
use crate::observed::ProfileSeen;

/// Resources that every run may ask for, within the limits.
const USUAL: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Variables by which a worker would be led to another place than its spec says.
const RESERVED: [&str; 5] = ["WARPFORGE_", "AWS_", "HF_", "KUBERNETES_", "LD_"];

pub(super) fn resolve(
    spec: &BenchmarkRunSpec,
    profile: &ProfileSeen,
    refusals: &mut Refusals,
) -> Vec<ResolvedGroup> {
    let total: i64 = spec.workers.iter().map(|group| i64::from(group.replicas)).sum();
    refusals.at_most("workers", total, i64::from(profile.spec.limits.workers));
    if total < 1 || spec.workers.iter().any(|group| group.replicas < 1) {
        refusals.wrong("workers", "every group needs at least one worker");
    }
    let names: BTreeSet<_> = spec.workers.iter().map(|group| &group.name).collect();
    if names.len() != spec.workers.len() {
        refusals.wrong("workers", "two groups have the same name");
    }
    let groups = spec.workers.iter();
    groups.map(|group| Checks { group, profile, refusals: &mut *refusals }.resolve()).collect()
}

/// A group on its way through the checks.
struct Checks<'a> {
    group: &'a WorkerGroup,
    profile: &'a ProfileSeen,
    refusals: &'a mut Refusals,
}

impl Checks<'_> {
    fn at(&self, field: &str) -> String {
        format!("workers[{}].{field}", self.group.name)
    }

    fn resolve(mut self) -> ResolvedGroup {
        ResolvedGroup {
            name: self.group.name.clone(),
            replicas: self.group.replicas,
            vendor: self.group.vendor,
            image: self.image(),
            gpus: self.gpus(),
            rdma: {
                if let Some(rdma) = &self.group.rdma {
                    self.device("rdma.resourceName", &rdma.resource_name, i64::from(rdma.count));
                }
                self.group.rdma.clone()
            },
            node_selector: self.node_selector(),
            tolerations: self.tolerations(),
            resources: self.resources(),
            env: {
                self.check_env();
                self.group.env.clone()
            },
        }
    }

    fn image(&mut self) -> String {
        let images = &self.profile.spec.defaults.images;
        let default = match self.group.vendor {
            Vendor::Cpu => images.cpu.as_deref(),
            Vendor::Nvidia => images.nvidia.as_deref(),
            Vendor::Amd => images.amd.as_deref(),
        };
        match (self.group.image.as_deref(), default) {
            (None, Some(default)) => default.to_owned(),
            (None, None) => {
                let vendor = self.group.vendor;
                let why = format!("neither the run nor its profile names an image for {vendor:?}");
                self.refusals.wrong(self.at("image"), why);
                String::new()
            }
            (Some(image), default) => {
                let listed = allow::image(&self.profile.spec.allowed.images, image);
                if default != Some(image) && !listed {
                    self.refusals.not_allowed(self.at("image"), image, "images");
                }
                image.to_owned()
            }
        }
    }

    fn gpus(&mut self) -> Option<Gpus> {
        let usual = self.group.vendor.resource();
        let count = self.group.gpus_per_worker.unwrap_or(i32::from(usual.is_some()));
        let limit = i64::from(self.profile.spec.limits.gpus_per_worker);
        self.refusals.at_most(self.at("gpusPerWorker"), i64::from(count), limit);
        let named = self.group.gpu_resource_name.as_deref();
        let (Some(resource_name), 1..) = (named.or(usual), count) else {
            return None;
        };
        if usual.is_none() {
            self.refusals.wrong(self.at("gpusPerWorker"), "a Cpu worker has no GPUs");
        }
        let field = if named.is_some() { "gpuResourceName" } else { "gpusPerWorker" };
        // A vendor's own resource comes with the vendor, unless the profile lists resources.
        if Some(resource_name) == usual && self.profile.spec.allowed.resources.is_empty() {
            self.device_within_limit(field, resource_name, i64::from(count));
        } else {
            self.device(field, resource_name, i64::from(count));
        }
        Some(Gpus { resource_name: resource_name.to_owned(), count })
    }

    /// A device plugin's resource that the profile must list.
    fn device(&mut self, field: &str, name: &str, count: i64) {
        if !allow::listed(&self.profile.spec.allowed.resources, name) {
            self.refusals.not_allowed(self.at(field), name, "resources");
        }
        self.device_within_limit(field, name, count);
    }

    fn device_within_limit(&mut self, field: &str, name: &str, count: i64) {
        self.within_limit(field, name, &Quantity::whole(count.unsigned_abs()));
    }

    fn within_limit(&mut self, field: &str, name: &str, asked: &Quantity) {
        let Some(limit) = self.profile.spec.limits.resources.get(name) else { return };
        if asked.nanos() > limit.nanos() {
            let why = Why::TooMuch { asked: asked.to_string(), limit: limit.to_string() };
            self.refusals.0.push(Refusal { at: self.at(field), why });
        }
    }

    fn resources(&mut self) -> Resources {
        let defaults = &self.profile.spec.defaults.resources;
        let own = &self.group.resources;
        for (field, part) in
            [("resources.requests", &own.requests), ("resources.limits", &own.limits)]
        {
            self.check_amounts(field, part);
        }
        let mut limits = merged(&defaults.limits, &own.limits);
        // Where the profile has a limit, no worker is without one.
        for (name, most) in &self.profile.spec.limits.resources {
            if USUAL.contains(&name.as_str()) {
                limits.entry(name.clone()).or_insert_with(|| most.clone());
            }
        }
        let mut requests = merged(&defaults.requests, &own.requests);
        for (name, request) in &mut requests {
            let Some(limit) = limits.get(name).filter(|limit| request.nanos() > limit.nanos())
            else {
                continue;
            };
            if own.requests.contains_key(name) {
                let why = format!("{request} of {name} is more than its limit of {limit}");
                let at = format!("workers[{}].resources.requests", self.group.name);
                self.refusals.wrong(at, why);
            }
            // A run that lowers its limit below the profile's default request means both.
            *request = limit.clone();
        }
        Resources { requests, limits }
    }

    fn check_amounts(&mut self, field: &str, amounts: &BTreeMap<String, Quantity>) {
        let group = self.group;
        let device = |name: &str| {
            let rdma = group.rdma.as_ref().is_some_and(|rdma| rdma.resource_name == name);
            let gpu = group.gpu_resource_name.as_deref() == Some(name);
            rdma || gpu || group.vendor.resource() == Some(name)
        };
        for (name, amount) in amounts {
            if amount.nanos().is_none() {
                self.refusals.wrong(self.at(field), format!("{amount} of {name} is no amount"));
            } else if device(name) {
                let why = format!("{name} is asked for by gpusPerWorker and rdma");
                self.refusals.wrong(self.at(field), why);
            } else if !USUAL.contains(&name.as_str())
                && !allow::listed(&self.profile.spec.allowed.resources, name)
            {
                self.refusals.not_allowed(self.at(field), name, "resources");
            } else {
                self.within_limit(field, name, amount);
            }
        }
    }

    fn node_selector(&mut self) -> BTreeMap<String, String> {
        let mut selector = self.profile.spec.defaults.node_selector.clone();
        for (key, value) in &self.group.node_selector {
            match selector.get(key) {
                Some(fixed) if fixed == value => continue,
                Some(fixed) => {
                    let why = format!("the profile asks for nodes with {key}={fixed}");
                    self.refusals.wrong(self.at("nodeSelector"), why);
                }
                None if !self.may_select(key, value) => {
                    let label = format!("{key}={value}");
                    self.refusals.not_allowed(self.at("nodeSelector"), &label, "nodeSelectors");
                }
                None => {}
            }
            selector.insert(key.clone(), value.clone());
        }
        selector
    }

    fn may_select(&self, key: &str, value: &str) -> bool {
        let labels = &self.profile.spec.allowed.node_selectors;
        labels.iter().any(|label| label.key == key && allow::listed(&label.values, value))
    }

    fn tolerations(&mut self) -> Vec<Toleration> {
        let defaults = &self.profile.spec.defaults.tolerations;
        for toleration in &self.group.tolerations {
            let key = toleration.key.as_deref().unwrap_or("*");
            let listed = toleration.key.is_some()
                && allow::listed(&self.profile.spec.allowed.tolerations, key);
            if !listed && !defaults.contains(toleration) {
                self.refusals.not_allowed(self.at("tolerations"), key, "tolerations");
            }
        }
        let own = self.group.tolerations.iter().filter(|own| !defaults.contains(own));
        defaults.iter().chain(own).cloned().collect()
    }

    fn check_env(&mut self) {
        for variable in &self.group.env {
            if RESERVED.iter().any(|prefix| variable.name.starts_with(prefix)) {
                let why = format!("{} is the operator's to set", variable.name);
                self.refusals.wrong(self.at("env"), why);
            }
        }
    }
}

fn merged(
    defaults: &BTreeMap<String, Quantity>,
    own: &BTreeMap<String, Quantity>,
) -> BTreeMap<String, Quantity> {
    let mut merged = defaults.clone();
    merged.extend(own.iter().map(|(name, amount)| (name.clone(), amount.clone())));
    merged
}
