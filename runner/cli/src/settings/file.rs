//! `warpforge.toml`: finding it, reading it, and pointing at what is wrong in it.

use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml_edit::{Document, Item, TableLike, Value};

use super::environment::{CONFIG_VARIABLE, Environment};
use super::nearest::nearest;
use super::problem::line_of;
use super::{KEYS, Problem, Problems};

const NAME: &str = "warpforge.toml";

/// A settings file that is valid TOML; its keys and values are not checked yet.
#[derive(Debug)]
pub struct File {
    pub path: PathBuf,
    /// The path as messages show it: relative where the file is here or below.
    pub shown: PathBuf,
    text: String,
    document: Document<String>,
}

/// A known key's value.
pub struct Entry<'f> {
    key: &'static str,
    pub value: &'f Value,
    span: Range<usize>,
    pub line: usize,
}

impl File {
    /// The file named by flag or environment, which must exist; else the nearest one from the
    /// current folder upwards; else the user's own; else none.
    pub fn locate(
        named: Option<&Path>,
        environment: &Environment,
    ) -> Result<Option<Self>, Problems> {
        let here = environment.folder();
        if let Some(path) = named {
            return Self::read_named(&here.join(path), "--config", here).map(Some);
        }
        if let Some(path) = environment.named_file() {
            return Self::read_named(&path, CONFIG_VARIABLE, here).map(Some);
        }
        let upwards = here.ancestors().map(|folder| folder.join(NAME));
        for path in upwards.chain(environment.user_file()) {
            match std::fs::read_to_string(&path) {
                Ok(text) => return Self::parse(path, text, here).map(Some),
                Err(error) if is_absence(&error) => {}
                Err(error) => return Err(Problem::unreadable(&path, "its place", &error).into()),
            }
        }
        Ok(None)
    }

    fn read_named(path: &Path, named_by: &str, here: &Path) -> Result<Self, Problems> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Problem::unreadable(path, named_by, &error))?;
        Self::parse(path.to_owned(), text, here)
    }

    fn parse(path: PathBuf, text: String, here: &Path) -> Result<Self, Problems> {
        let shown = path.strip_prefix(here).unwrap_or(&path).to_owned();
        match Document::parse(text.clone()) {
            Ok(document) => Ok(Self { path, shown, text, document }),
            Err(error) => {
                let span = error.span().unwrap_or(0..0);
                let message = format!("not valid TOML: {}", error.message().replace('\n', ", "));
                Err(Problem::at(shown, &text, span, message).into())
            }
        }
    }

    /// The folder relative paths in the file are read against.
    pub fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    /// The value of a dotted key, if the file has it as a plain value.
    pub fn get(&self, key: &'static str) -> Option<Entry<'_>> {
        let item = key
            .split('.')
            .try_fold(self.document.as_item(), |item, part| item.as_table_like()?.get(part))?;
        let value = item.as_value()?;
        let span = item.span().unwrap_or(0..0);
        Some(Entry { key, value, line: line_of(&self.text, span.start), span })
    }

    /// The problem of a value that is not what its key needs.
    pub fn wrong_value(&self, entry: &Entry<'_>, expected: &str, found: &str) -> Problem {
        let message = format!("`{}`: expected {expected}, found {found}", entry.key);
        if entry.value.as_str().is_some_and(|text| text.contains('@')) {
            // The line may hold a password, so it is named and not shown.
            let place = format!("{}:{}", self.shown.display(), entry.line);
            return Problem::plain(format!("{place}: {message}"));
        }
        self.problem(entry.span.clone(), message)
    }

    /// Every key that is not in the list of settings.
    pub fn unknown_keys(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        self.walk("", self.document.as_table(), &mut problems);
        problems
    }

    fn walk(&self, prefix: &str, table: &dyn TableLike, problems: &mut Vec<Problem>) {
        for (name, item) in table.iter() {
            let path = format!("{prefix}{name}");
            let is_section = sections().any(|section| section == path);
            let is_key = KEYS.iter().any(|key| key.name == path);
            match (is_section, item.as_table_like()) {
                (true, Some(inner)) => self.walk(&format!("{path}."), inner, problems),
                _ if is_key && item.is_value() => {}
                (_, inner) => {
                    let span = key_span(table, name, item);
                    problems.push(if is_section || is_key {
                        self.problem(span, misplaced(&path, is_section))
                    } else {
                        self.problem(span, format!("unknown key `{path}`"))
                            .with_optional_help(suggestion(&path, inner.is_some()))
                    });
                }
            }
        }
    }

    fn problem(&self, span: Range<usize>, message: String) -> Problem {
        Problem::at(self.shown.clone(), &self.text, span, message)
    }
}

fn is_absence(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn key_span(table: &dyn TableLike, name: &str, item: &Item) -> Range<usize> {
    let key = table.get_key_value(name).and_then(|(key, _)| key.span());
    key.or_else(|| item.span()).unwrap_or(0..0)
}

fn misplaced(path: &str, is_section: bool) -> String {
    if is_section {
        let prefix = format!("{path}.");
        let keys: Vec<_> = KEYS.iter().filter_map(|key| key.name.strip_prefix(&prefix)).collect();
        format!("`{path}` is a section and holds {}: write [{path}] above them", keys.join(", "))
    } else {
        format!("`{path}` is a single value, found a section")
    }
}

/// The tables of the file: what stands before the dot in the keys.
fn sections() -> impl Iterator<Item = &'static str> {
    KEYS.iter().filter_map(|key| key.name.split_once('.')).map(|(section, _)| section)
}

fn suggestion(path: &str, is_table: bool) -> Option<String> {
    if is_table {
        return nearest(path, sections()).map(|section| format!("did you mean [{section}]?"));
    }
    let meant = nearest_key(path).map(|key| format!("did you mean `{key}`?"));
    meant.or_else(|| Some(format!("the keys here are {}", siblings(path).join(", "))))
}

/// The keys that could stand where `path` does.
fn siblings(path: &str) -> Vec<&'static str> {
    let section = path.rsplit_once('.').map(|(section, _)| section);
    let parts = KEYS
        .iter()
        .map(|key| key.name.split_once('.').map_or((None, key.name), |(s, k)| (Some(s), k)));
    parts.filter(|(of, _)| *of == section).map(|(_, key)| key).collect()
}

fn nearest_key(path: &str) -> Option<String> {
    let keys = || KEYS.iter().map(|key| key.name);
    let (section, last) = path.rsplit_once('.').unwrap_or(("", path));
    // The right name in the wrong section is a likelier slip than a similar one in the right.
    if let Some(key) = keys().find(|key| key.rsplit('.').next() == Some(last)) {
        return Some(key.to_owned());
    }
    // The section's own name is right and must not count towards the likeness.
    let prefix = format!("{section}.");
    if sections().any(|known| known == section) {
        let inner = nearest(last, keys().filter_map(|key| key.strip_prefix(&prefix)))?;
        return Some(format!("{prefix}{inner}"));
    }
    nearest(path, keys()).map(str::to_owned)
}
