//! One setting through all its layers.

use super::environment::Environment;
use super::file::File;
use super::{Flag, Key, Problem, Source, Sourced, Value};

/// Everything a setting may come from.
pub struct Layers<'a> {
    pub flags: &'a [Flag],
    pub environment: &'a Environment,
    pub file: Option<&'a File>,
}

/// Reads `key` from every layer and keeps the highest; each layer's error is kept.
pub fn pick<T: Value>(
    key: &Key,
    layers: &Layers<'_>,
    default: T,
    problems: &mut Vec<Problem>,
) -> Sourced<T> {
    let rising = [from_file(key, layers), from_environment(key, layers), from_flag(key, layers)];
    let mut chosen = Sourced { value: default, source: Source::Default };
    for layer in rising.into_iter().flatten() {
        match layer {
            Ok(sourced) => chosen = sourced,
            Err(problem) => problems.push(problem),
        }
    }
    chosen
}

type Layer<T> = Option<Result<Sourced<T>, Problem>>;

fn from_file<T: Value>(key: &Key, layers: &Layers<'_>) -> Layer<T> {
    let file = layers.file?;
    let entry = file.get(key.name)?;
    let read = T::from_toml(entry.value, file.folder());
    Some(match read {
        Ok(value) => {
            let source = Source::File { path: file.shown.clone(), line: entry.line };
            Ok(Sourced { value, source })
        }
        Err(found) => Err(file.wrong_value(&entry, T::EXPECTED, &found)),
    })
}

fn from_environment<T: Value>(key: &Key, layers: &Layers<'_>) -> Layer<T> {
    let (variable, text) = key
        .variables
        .iter()
        .find_map(|name| layers.environment.get(name).map(|text| (*name, text)))?;
    let source = Source::Environment { variable: variable.to_owned() };
    let subject = format!("environment variable {variable}");
    Some(from_text(&text, &subject, source, layers))
}

fn from_flag<T: Value>(key: &Key, layers: &Layers<'_>) -> Layer<T> {
    let flag = layers.flags.iter().find(|flag| flag.key == key.name)?;
    let source = Source::Flag { flag: flag.name.to_owned() };
    Some(from_text(&flag.text, &format!("option {}", flag.name), source, layers))
}

fn from_text<T: Value>(
    text: &str,
    subject: &str,
    source: Source,
    layers: &Layers<'_>,
) -> Result<Sourced<T>, Problem> {
    T::from_text(text, layers.environment.folder()).map(|value| Sourced { value, source }).map_err(
        |found| {
            let expected = T::EXPECTED;
            Problem::plain(format!("{subject}: expected {expected}, found {found}"))
        },
    )
}
