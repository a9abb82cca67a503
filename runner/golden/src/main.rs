//! `warpforge-golden`: Pass 1, the golden pass. It runs an exported graph op by op through
//! libtorch's dispatcher, as PyTorch itself would, and writes what it computed to files.
//! The only program that links libtorch, and so a process of its own: `warpforge` starts it
//! and speaks the protocol of `warpforge-golden-protocol` with it over its standard streams.
//! Given a file with a request as its only argument, it answers that one and ends.

mod control;
mod failure;
mod files;
mod interp;
mod load;
mod progress;
mod random;
mod ranks;
mod run;
mod scalar;
mod torch;
mod train;
mod watch;
mod writes;

use std::fs::File;
use std::io::{BufRead as _, Write as _};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use anyhow::Context as _;
use rustix::stdio;
use serde::Deserialize;
use warpforge_golden_protocol::{Event, Failure, FailureKind, Hello, Request, Task, VERSION};

use crate::ranks::{Next, Ranks};
use crate::train::Training;

/// What requests leave behind for those after them.
#[derive(Default)]
struct State {
    training: Option<Training>,
    ranks: Option<Rc<Ranks>>,
}

fn main() -> anyhow::Result<ExitCode> {
    let mut output = private_output().context("standard output")?;
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let libtorch = torch::Context::version();
    match &arguments[..] {
        [] => {
            say(&mut output, &Event::Hello(Hello { version: VERSION, libtorch }))?;
            serve(&mut output)?;
            Ok(ExitCode::SUCCESS)
        }
        [flag] if flag == "--version" => {
            let own = env!("CARGO_PKG_VERSION");
            writeln!(output, "warpforge-golden {own} (libtorch {libtorch}, protocol {VERSION})")?;
            Ok(ExitCode::SUCCESS)
        }
        [file] => {
            let text = std::fs::read_to_string(file);
            let text = text.with_context(|| format!("cannot read {}", file.display()))?;
            let good = answer(&text, &mut State::default(), &mut output)?;
            Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        _ => anyhow::bail!("usage: warpforge-golden [REQUEST.json | --version]"),
    }
}

/// Standard output for messages alone: what libraries print goes to standard error.
fn private_output() -> std::io::Result<File> {
    let output = rustix::io::fcntl_dupfd_cloexec(stdio::stdout(), 3)?;
    stdio::dup2_stdout(stdio::stderr())?;
    Ok(output.into())
}

fn say(output: &mut File, event: &Event) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(event)?;
    line.push(b'\n');
    output.write_all(&line).context("the client does not listen")
}

fn serve(output: &mut File) -> anyhow::Result<()> {
    let busy = Arc::new(AtomicBool::new(false));
    let mut state = State::default();
    for line in requests(Arc::clone(&busy)) {
        busy.store(true, Ordering::SeqCst);
        answer(&line, &mut state, output)?;
        busy.store(false, Ordering::SeqCst);
    }
    Ok(())
}

/// Requests as they come. They are read on a thread, so that a client that is gone is noticed
/// while an operator runs: nobody waits for the result then.
fn requests(busy: Arc<AtomicBool>) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            if sender.send(line).is_err() {
                return;
            }
        }
        if busy.load(Ordering::SeqCst) {
            #[expect(
                clippy::exit,
                reason = "the thread that computes cannot be stopped otherwise"
            )]
            std::process::exit(3);
        }
    });
    receiver
}

/// Answers one request; whether it had a result.
fn answer(line: &str, state: &mut State, output: &mut File) -> anyhow::Result<bool> {
    let mut broken = None;
    let mut emit = |event: Event| {
        if let Err(error) = say(output, &event) {
            broken.get_or_insert(error);
        }
    };
    let result = parse(line).and_then(|request| perform(&request.task, state, &mut emit));
    if let Some(error) = broken {
        return Err(error);
    }
    let good = result.is_ok();
    say(output, &result.unwrap_or_else(Event::Error))?;
    Ok(good)
}

fn perform(task: &Task, state: &mut State, emit: &mut dyn FnMut(Event)) -> Result<Event, Failure> {
    let message = "no model is open for training";
    let closed = || failure::failure(FailureKind::Protocol, message);
    match task {
        Task::Run(run) => return run::run(run, emit).map(Event::Result),
        Task::Open(open) => {
            // The one before frees its memory first.
            state.training = None;
            let training = Training::open(open, state.ranks.clone())?;
            return Ok(Event::Opened(state.training.insert(training).opened()));
        }
        Task::Close => {
            state.training = None;
            return Ok(Event::Done);
        }
        Task::Join(_) | Task::Follow | Task::Leave => return together(task, state),
        _ => {}
    }
    let training = state.training.as_mut().ok_or_else(closed)?;
    match task {
        Task::Step(step) => training.step(step, emit).map(Event::Stepped),
        Task::Evaluate(evaluate) => training.evaluate(evaluate, emit).map(Event::Evaluated),
        Task::Save { path } => training.save(path).map(|()| Event::Done),
        Task::Restore { path } => training.restore(path).map(|()| Event::Done),
        _ => Err(failure::internal("answered above")),
    }
}

/// What concerns other ranks.
fn together(task: &Task, state: &mut State) -> Result<Event, Failure> {
    if let Task::Join(join) = task {
        state.ranks = None;
        state.ranks = Some(Rc::new(Ranks::join(join)?));
        return Ok(Event::Done);
    }
    let alone = || failure::failure(FailureKind::Protocol, "there are no other ranks");
    let ranks = state.ranks.clone().ok_or_else(alone)?;
    if *task == Task::Follow {
        return train::follow(&ranks, state.training.as_mut()).map(Event::Ordered);
    }
    if ranks.leads() {
        ranks.lead(Next::End)?;
        ranks.part()?;
    }
    state.training = None;
    state.ranks = None;
    Ok(Event::Done)
}

fn parse(line: &str) -> Result<Request, Failure> {
    #[derive(Deserialize)]
    struct Versioned {
        version: u32,
    }
    let bad = |message: String| failure::failure(FailureKind::Protocol, message);
    let Versioned { version } =
        serde_json::from_str(line).map_err(|error| bad(format!("no request: {error}")))?;
    if version != VERSION {
        return Err(bad(format!(
            "the request has version {version} of the protocol, and this program speaks version \
             {VERSION}: install both from the same build"
        )));
    }
    serde_json::from_str(line).map_err(|error| bad(format!("no request: {error}")))
}
