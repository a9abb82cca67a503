//! `warpforge config show`: every setting, its value, and who set it.

use std::path::PathBuf;

use clap::Subcommand;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value as Json;

use super::Context;
use crate::exit::Exit;
use crate::settings::{KEYS, Source};
use crate::table::{self, Cell};
use crate::ui::{BOLD, DIM, Ui};

const EXAMPLES: &str = "\
Examples:
  What is in force here:
    warpforge config show

  What a pod with this file and this variable would use:
    WARPFORGE_STORE_BUCKET=nightly warpforge --config cluster.toml config show

  One value for a script:
    warpforge config show --json | jq -r '.settings[] | select(.key == \"cache.dir\").value'";

/// Show the settings in force and where each came from
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Print every setting with its value and source
    ///
    /// A setting comes from its default, from warpforge.toml, from the environment or from a
    /// flag; the later one wins. Credentials are never settings: they are taken from
    /// `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN`, never shown.
    #[command(after_help = EXAMPLES)]
    Show {
        /// Print JSON (`warpforge schema config` describes it)
        #[arg(long)]
        json: bool,
    },
}

/// The settings in force.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Configuration")]
pub struct Shown {
    /// The settings file that was read; null if there is none.
    file: Option<PathBuf>,
    settings: Vec<Setting>,
    /// Variables that begin with `WARPFORGE_` and name no setting.
    ignored_variables: Vec<Ignored>,
}

/// One setting.
#[derive(Debug, Serialize, JsonSchema)]
struct Setting {
    /// The dotted key: `store.bucket` is `bucket` under `[store]` in the file.
    key: &'static str,
    /// The value; null if the setting is not set and has no default.
    value: Json,
    source: Source,
    /// Environment variables that set it, the first one set wins.
    variables: &'static [&'static str],
    description: &'static str,
}

/// A variable that had no effect.
#[derive(Debug, Serialize, JsonSchema)]
struct Ignored {
    variable: String,
    /// The variable that may have been meant.
    nearest: Option<&'static str>,
}

pub fn run(args: &Args, context: &Context<'_>, ui: &mut Ui) -> anyhow::Result<Exit> {
    let Verb::Show { json } = args.verb;
    let shown = collect(context);
    if json {
        ui.json(&shown)?;
    } else {
        show(&shown, ui)?;
    }
    Ok(Exit::Pass)
}

fn collect(context: &Context<'_>) -> Shown {
    let values = context.settings().values();
    let settings = KEYS.iter().zip(values).map(|(key, (value, source))| Setting {
        key: key.name,
        value,
        source: source.clone(),
        variables: key.variables,
        description: key.doc,
    });
    let strays = context.environment.strays().into_iter();
    Shown {
        file: context.configuration.file.clone(),
        settings: settings.collect(),
        ignored_variables: strays
            .map(|stray| Ignored { variable: stray.variable, nearest: stray.nearest })
            .collect(),
    }
}

fn show(shown: &Shown, ui: &mut Ui) -> std::io::Result<()> {
    let head = ["KEY", "VALUE", "FROM"].map(|title| Cell::styled(title, BOLD)).to_vec();
    let rows = shown.settings.iter().map(row);
    table::write(ui.out(), 0, &std::iter::once(head).chain(rows).collect::<Vec<_>>())?;
    let file = shown.file.as_ref().map_or_else(
        || "No warpforge.toml was found.".to_owned(),
        |path| format!("Settings file: {}", path.display()),
    );
    ui.note(&format!("\n{file}"))?;
    for ignored in &shown.ignored_variables {
        let hint = ignored.nearest.map(|name| format!("; did you mean {name}?"));
        let hint = hint.unwrap_or_default();
        ui.note(&format!("Ignored: {} names no setting{hint}", ignored.variable))?;
    }
    Ok(())
}

fn row(setting: &Setting) -> Vec<Cell> {
    let value = match &setting.value {
        Json::Null => Cell::styled("(not set)", DIM),
        Json::String(text) => text.as_str().into(),
        other => other.to_string().into(),
    };
    let style = if setting.source == Source::Default { DIM } else { BOLD };
    vec![setting.key.into(), value, Cell::styled(setting.source.to_string(), style)]
}
