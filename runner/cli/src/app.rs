//! One invocation from arguments to exit code.

use std::ffi::OsString;

use crate::args::{self, Cli};
use crate::commands::{self, Context};
use crate::events::Events;
use crate::exit::Exit;
use crate::settings::{Color, Environment};
use crate::ui::Ui;
use crate::{failure, settings, ui};

/// Parse, resolve settings, run, and say how it ended.
pub fn run(args: Vec<OsString>) -> Exit {
    match args::parse(args) {
        Ok(cli) => {
            let color = cli.global.color.unwrap_or(Color::Auto);
            let report = |error: &anyhow::Error| failure::report(error, &mut ui::stderr(color));
            let events = match Events::open(cli.global.events.as_deref()) {
                Ok(events) => events,
                Err(error) => return report(&error.into()),
            };
            execute(&cli, &events).unwrap_or_else(|error| {
                let exit = report(&error);
                events.failed(&error, exit);
                exit
            })
        }
        Err(answer) => show(&answer),
    }
}

fn execute(cli: &Cli, events: &Events) -> anyhow::Result<Exit> {
    let environment = Environment::of_process();
    let flags = cli.global.flags();
    let configuration = if commands::needs_configuration(&cli.command) {
        settings::load(cli.global.config.as_deref(), &flags, &environment)?
    } else {
        settings::from_flags(&flags)?
    };
    let mut ui = Ui::new(configuration.settings.color.value, configuration.settings.quiet.value);
    let context = Context { configuration, environment, events, global: &cli.global };
    let exit = commands::run(&cli.command, &context, &mut ui)?;
    ui.finish()?;
    Ok(exit)
}

/// Help, version, or clap's account of what was mistyped.
fn show(answer: &clap::Error) -> Exit {
    // Only a reader that went away can make this fail.
    let _ = answer.print();
    if answer.use_stderr() { Exit::Usage } else { Exit::Pass }
}
