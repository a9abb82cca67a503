//! The examination behind `warpforge doctor`: the list of capabilities, and how each is probed
//! in a process of its own so that nothing a driver does can hang or crash the whole.

mod cluster;
mod cpu;
mod golden;
mod store;
mod supervisor;

use std::process::Command;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::Serialize;
use warpforge_bench::capability::{self, Finding, Status};

use crate::commands::Context;
use crate::settings::Settings;

/// One thing a machine may be able to do.
pub struct Capability {
    pub name: &'static str,
    purpose: &'static str,
    /// The CPU path needs it.
    essential: bool,
    /// Compiled, but nobody has run it on the hardware it is for.
    never_run_on_its_hardware: bool,
    /// What to do when the probe does not come back.
    cure_of_silence: &'static str,
    probe: fn(&Context<'_>, Limits) -> Finding,
}

/// Every capability, in the order in which they are shown.
pub const CAPABILITIES: &[Capability] = &[
    Capability {
        name: "cpu",
        purpose: "run compiled models on the processor",
        essential: true,
        never_run_on_its_hardware: false,
        cure_of_silence: "the machine is overloaded: try again, or raise doctor.timeout_seconds",
        probe: |_, _| cpu::probe(),
    },
    Capability {
        name: "golden",
        purpose: "run the reference pass with libtorch",
        essential: true,
        never_run_on_its_hardware: false,
        cure_of_silence: "loading libtorch hangs or the disk is slow: raise \
                          doctor.timeout_seconds, or fetch it anew with: cargo xtask setup golden",
        probe: golden::probe,
    },
    Capability {
        name: "nvidia",
        purpose: "run compiled models on NVIDIA GPUs",
        essential: false,
        never_run_on_its_hardware: false,
        cure_of_silence: "the driver hangs: look for Xid errors with dmesg, or restart the machine",
        probe: |_, _| capability::nvidia(),
    },
    Capability {
        name: "amd",
        purpose: "run compiled models on AMD GPUs",
        essential: false,
        never_run_on_its_hardware: true,
        cure_of_silence: "the driver hangs: look for amdgpu errors with dmesg, or restart the \
                          machine",
        probe: |_, _| capability::amd(),
    },
    Capability {
        name: "rdma",
        purpose: "exchange data between workers over RDMA (UCX)",
        essential: false,
        never_run_on_its_hardware: true,
        cure_of_silence: "a device or its driver hangs: look at ibv_devinfo and dmesg",
        probe: |_, _| capability::rdma(),
    },
    Capability {
        name: "cluster",
        purpose: "reach a Kubernetes cluster",
        essential: false,
        never_run_on_its_hardware: false,
        cure_of_silence: "check the server's address in the kubeconfig and the way to it, or \
                          raise doctor.timeout_seconds",
        probe: cluster::probe,
    },
    Capability {
        name: "store",
        purpose: "keep artifacts in an object store",
        essential: false,
        never_run_on_its_hardware: false,
        cure_of_silence: "check store.endpoint and the way to it, or raise doctor.timeout_seconds",
        probe: store::probe,
    },
];

/// What works on this machine.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Doctor")]
pub struct Report {
    /// Whether everything the CPU path needs (cpu and golden) works.
    pub cpu_path_whole: bool,
    /// How long the examination took.
    pub seconds: f64,
    pub capabilities: Vec<Entry>,
}

/// One capability's finding.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Entry {
    pub name: &'static str,
    /// What the capability is for.
    purpose: &'static str,
    /// Whether the CPU path needs it.
    essential: bool,
    #[serde(flatten)]
    pub finding: Finding,
    /// The code for it is compiled, but was never run on the hardware it is for.
    pub never_run_on_its_hardware: bool,
    /// How long the probe took.
    pub seconds: f64,
}

impl Entry {
    /// Needed and not working.
    pub fn is_lacking(&self) -> bool {
        self.essential && self.finding.status != Status::Works
    }
}

/// How long things may take, as shares of `doctor.timeout_seconds`.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// One probe, after which its process is killed; the rest is for starting and reporting.
    pub probe: Duration,
    /// One answer over the network inside a probe: shorter, so that the probe can still say who
    /// was silent before it is killed.
    pub answer: Duration,
}

impl Limits {
    pub fn of(settings: &Settings) -> Self {
        let total = settings.doctor_timeout.value.duration();
        Self { probe: total.mul_f64(5.0 / 6.0), answer: total.mul_f64(0.75) }
    }
}

/// Runs one probe in this process, which exists for nothing else.
pub fn probe_here(name: &str, context: &Context<'_>) -> Finding {
    supervisor::end_with_parent();
    let capability = CAPABILITIES.iter().find(|row| row.name == name);
    let capability = capability.expect("the argument parser admits only names of the list");
    (capability.probe)(context, Limits::of(context.settings()))
}

/// Runs all probes side by side, each through the process that `spawn` describes. `progress` is
/// called again and again with the names of those still awaited.
pub fn examine(
    spawn: &dyn Fn(&str) -> Command,
    limits: Limits,
    progress: &mut dyn FnMut(&[&str]),
) -> Report {
    let start = Instant::now();
    let outcomes = supervisor::run(CAPABILITIES, spawn, limits, progress);
    let capabilities: Vec<_> =
        CAPABILITIES.iter().zip(outcomes).map(|(row, outcome)| entry(row, outcome)).collect();
    Report {
        cpu_path_whole: !capabilities.iter().any(Entry::is_lacking),
        seconds: rounded(start.elapsed()),
        capabilities,
    }
}

fn entry(row: &Capability, outcome: supervisor::Outcome) -> Entry {
    Entry {
        name: row.name,
        purpose: row.purpose,
        essential: row.essential,
        finding: outcome.finding,
        never_run_on_its_hardware: row.never_run_on_its_hardware,
        seconds: rounded(outcome.elapsed),
    }
}

/// Seconds to the millisecond; more digits would only be noise.
fn rounded(time: Duration) -> f64 {
    time.as_millis() as f64 / 1000.0
}

/// Drives the future of a probe that talks over the network. Made here and not at start-up: the
/// other commands need no runtime.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("the operating system grants a probe its event queue").block_on(future)
}
