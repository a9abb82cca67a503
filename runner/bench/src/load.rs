//! The benchmarks' kernels as a load: `warpforge stress` drives them for as long as it is told to,
//! and holds every round's results against what they have to be.

use crate::gpu;
use crate::model::Component;
use crate::suite::{Context, Unable};
use crate::suites::micro::{cpu_flops, disk_io, mem_bandwidth};

/// What one round did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Round {
    /// How much, in the load's unit.
    pub amount: f64,
    /// How many results were held against what they have to be.
    pub checks: u64,
}

/// A component under load.
pub trait Load: Send {
    /// What [`Round::amount`] counts, such as `FLOP` or `B`.
    fn unit(&self) -> &'static str;

    fn prepare(&mut self, cx: &Context<'_>) -> Result<(), Unable>;

    /// Keeps all of the component busy for about half a second and checks what came of it;
    /// [`Unable::Wrong`] says where a result is wrong, what it is and what it has to be.
    fn round(&mut self, cx: &Context<'_>) -> Result<Round, Unable>;
}

type Make = fn() -> Box<dyn Load>;

/// What can be put under load, and the parameters of the component's benchmark that matter to it.
pub const LOADS: &[(Component, Make, &[&str])] = &[
    (Component::Cpu, cpu_flops::load, &[]),
    (Component::Gpu, gpu::load::make, &[gpu::DEVICES]),
    (Component::Ram, mem_bandwidth::load, &[]),
    (Component::Storage, disk_io::load, &["folder", "size_mib"]),
];
