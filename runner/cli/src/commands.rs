//! The verbs: one file each, holding its arguments, its help and what it does.

pub mod agent;
pub mod baseline;
pub mod benchmark;
pub mod bundle;
pub mod compile;
pub mod completions;
pub mod config;
pub mod conformance;
pub mod data;
pub mod doctor;
pub mod get;
pub mod hlo;
pub mod logs;
pub mod man;
pub mod model;
pub mod monitor;
pub mod netserver;
pub mod report;
pub mod run;
pub mod schema;
pub mod stress;
pub mod submit;
pub mod system;
pub mod training;
pub mod validate;
pub mod watch;
pub mod workload;

use crate::args::{Command, Global};
use crate::events::Events;
use crate::exit::Exit;
use crate::settings::{Configuration, Environment, Settings};
use crate::ui::Ui;

/// What a command may need to know about how it was called.
pub struct Context<'a> {
    pub configuration: Configuration,
    pub environment: Environment,
    pub events: &'a Events,
    pub global: &'a Global,
}

impl Context<'_> {
    pub fn settings(&self) -> &Settings {
        &self.configuration.settings
    }
}

/// Commands that only describe the program work whatever state the configuration is in: a shell
/// that loads completions at its start must not fail over a typing error in some folder's file.
pub fn needs_configuration(command: &Command) -> bool {
    match command {
        Command::Doctor(_)
        | Command::System(_)
        | Command::Model(_)
        | Command::Run(_)
        | Command::Golden(_)
        | Command::Execute(_)
        | Command::Compile(_)
        | Command::Hlo(_)
        | Command::Data(_)
        | Command::Conformance(_)
        | Command::Validate(_)
        | Command::Baseline(_)
        | Command::Benchmark(_)
        | Command::Stress(_)
        | Command::Bundle(_)
        | Command::Netserver(_)
        | Command::Submit(_)
        | Command::Get(_)
        | Command::Logs(_)
        | Command::Watch(_)
        | Command::Report(_)
        | Command::Config(_) => true,
        // A worker has no file of settings, and whatever it finds must end in a message.
        Command::Agent(_) | Command::Completions(_) | Command::Man(_) | Command::Schema(_) => false,
    }
}

pub fn run(command: &Command, context: &Context<'_>, ui: &mut Ui) -> anyhow::Result<Exit> {
    match command {
        Command::Doctor(args) => doctor::run(args, context, ui),
        Command::System(args) => system::run(args, ui),
        Command::Config(args) => config::run(args, context, ui),
        Command::Run(args) => run::run(args, context, ui),
        Command::Golden(args) => workload::golden(args, context, ui),
        Command::Execute(args) => workload::execute(args, context, ui),
        Command::Model(args) => model::run(args, ui),
        Command::Compile(args) => compile::run(args, ui),
        Command::Hlo(args) => hlo::run(args, ui),
        Command::Data(args) => data::run(args, context, ui),
        Command::Conformance(args) => conformance::run(args, ui),
        Command::Validate(args) => validate::run(args, ui),
        Command::Baseline(args) => baseline::run(args, ui),
        Command::Benchmark(args) => benchmark::run(args, context, ui),
        Command::Stress(args) => stress::run(args, ui),
        Command::Netserver(args) => netserver::run(args, ui),
        Command::Bundle(args) => bundle::run(args, context, ui),
        Command::Submit(args) => submit::run(args, context, ui),
        Command::Get(args) => get::run(args, context, ui),
        Command::Logs(args) => logs::run(args, context, ui),
        Command::Watch(args) => watch::run(args, context, ui),
        Command::Report(args) => report::run(args, context, ui),
        Command::Agent(args) => agent::run(args, context, ui),
        Command::Completions(args) => completions::run(args, ui),
        Command::Man(args) => man::run(args, ui),
        Command::Schema(args) => schema::run(args, ui),
    }
}

/// Runs what waits for a network.
fn block_on<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future)
}
