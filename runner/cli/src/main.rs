//! `warpforge`: the command line. A thin layer of clap over the workspace's crates: arguments
//! are parsed, settings resolved, one command run, and its result turned into an exit code.
//! This is the only place that prints, and `main` the only place that exits.

mod app;
mod args;
mod cluster;
mod commands;
mod doctor;
mod events;
mod exit;
mod failure;
mod interrupt;
mod settings;
mod table;
mod tensors;
mod trace;
mod ui;

/// The reference interpreter allocates and frees large tensors all the time: memory that is kept
/// for the next one saves the kernel from clearing it again.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    exit::guarded(|| app::run(std::env::args_os().collect())).into()
}
