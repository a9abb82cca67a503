//! The types a setting can have, and how each is read from text and from TOML.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value as Json, json};
use toml_edit::Value as Toml;

/// A type of setting. Errors say what was found in place of [`Value::EXPECTED`].
pub trait Value: Sized {
    /// What is wanted, to follow the word "expected".
    const EXPECTED: &'static str;

    /// From a flag or an environment variable; relative paths are read against `base`.
    fn from_text(text: &str, base: &Path) -> Result<Self, String>;

    /// From the settings file in folder `base`.
    fn from_toml(value: &Toml, base: &Path) -> Result<Self, String>;

    fn to_json(&self) -> Json;
}

/// A TOML value's kind and text for messages.
fn found(value: &Toml) -> String {
    match value {
        Toml::String(text) => format!("{:?}", text.value()),
        Toml::Boolean(flag) => flag.value().to_string(),
        other => {
            let kind = other.type_name();
            let article = if kind.starts_with(['a', 'i']) { "an" } else { "a" };
            format!("{article} {kind}")
        }
    }
}

/// Types whose TOML form is a string read like any other text.
fn from_string<T: Value>(value: &Toml, base: &Path) -> Result<T, String> {
    T::from_text(value.as_str().ok_or_else(|| found(value))?, base)
}

/// When to colour the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Color {
    Auto,
    Always,
    Never,
}

impl Color {
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Always => "always",
            Self::Never => "never",
        }
    }
}

impl Value for Color {
    const EXPECTED: &'static str = "auto, always or never";

    fn from_text(text: &str, _: &Path) -> Result<Self, String> {
        let all = [Self::Auto, Self::Always, Self::Never];
        all.into_iter().find(|color| color.name() == text).ok_or_else(|| format!("{text:?}"))
    }

    fn from_toml(value: &Toml, base: &Path) -> Result<Self, String> {
        from_string(value, base)
    }

    fn to_json(&self) -> Json {
        self.name().into()
    }
}

impl Value for bool {
    const EXPECTED: &'static str = "true or false";

    fn from_text(text: &str, _: &Path) -> Result<Self, String> {
        match text {
            "true" | "1" => Ok(true),
            "false" | "0" => Ok(false),
            _ => Err(format!("{text:?}")),
        }
    }

    fn from_toml(value: &Toml, _: &Path) -> Result<Self, String> {
        value.as_bool().ok_or_else(|| found(value))
    }

    fn to_json(&self) -> Json {
        (*self).into()
    }
}

impl Value for String {
    const EXPECTED: &'static str = "a text that is not empty";

    fn from_text(text: &str, _: &Path) -> Result<Self, String> {
        if text.is_empty() { Err("an empty one".into()) } else { Ok(text.to_owned()) }
    }

    fn from_toml(value: &Toml, base: &Path) -> Result<Self, String> {
        from_string(value, base)
    }

    fn to_json(&self) -> Json {
        self.as_str().into()
    }
}

impl Value for PathBuf {
    const EXPECTED: &'static str = "a path";

    fn from_text(text: &str, base: &Path) -> Result<Self, String> {
        match text {
            "" => Err("an empty text".into()),
            _ if text.starts_with("~/") => {
                Err(format!("{text:?}, and \"~\" is not expanded here: write the whole path"))
            }
            _ => Ok(base.join(text)),
        }
    }

    fn from_toml(value: &Toml, base: &Path) -> Result<Self, String> {
        from_string(value, base)
    }

    fn to_json(&self) -> Json {
        self.display().to_string().into()
    }
}

/// Paths separated as in `PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathList(pub Vec<PathBuf>);

impl Value for PathList {
    const EXPECTED: &'static str = "a path, or several separated by colons";

    fn from_text(text: &str, base: &Path) -> Result<Self, String> {
        let parts = text.split(':').filter(|part| !part.is_empty());
        let paths: Vec<_> =
            parts.map(|part| PathBuf::from_text(part, base)).collect::<Result<_, _>>()?;
        if paths.is_empty() { Err("an empty text".into()) } else { Ok(Self(paths)) }
    }

    fn from_toml(value: &Toml, base: &Path) -> Result<Self, String> {
        from_string(value, base)
    }

    fn to_json(&self) -> Json {
        let paths: Vec<_> = self.0.iter().map(|path| path.display().to_string()).collect();
        paths.join(":").into()
    }
}

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint(pub String);

impl Value for Endpoint {
    const EXPECTED: &'static str = "an address such as https://s3.example.com:9000";

    fn from_text(text: &str, _: &Path) -> Result<Self, String> {
        let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
        let host = rest.unwrap_or_default().split(['/', '?', '#']).next().unwrap_or_default();
        if host.contains('@') {
            // The text is not repeated: it holds what should not be shown.
            return Err("one with credentials in it: give those as AWS_ACCESS_KEY_ID and \
                        AWS_SECRET_ACCESS_KEY in the environment"
                .into());
        }
        if host.is_empty() { Err(format!("{text:?}")) } else { Ok(Self(text.to_owned())) }
    }

    fn from_toml(value: &Toml, base: &Path) -> Result<Self, String> {
        from_string(value, base)
    }

    fn to_json(&self) -> Json {
        self.0.as_str().into()
    }
}

/// A time limit within sensible bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seconds(f64);

impl Seconds {
    pub const DOCTOR: Self = Self(3.0);

    pub fn duration(self) -> Duration {
        Duration::from_secs_f64(self.0)
    }

    fn checked(seconds: f64) -> Result<Self, String> {
        if (0.5..=60.0).contains(&seconds) { Ok(Self(seconds)) } else { Err(seconds.to_string()) }
    }
}

impl Value for Seconds {
    const EXPECTED: &'static str = "a number of seconds from 0.5 to 60";

    fn from_text(text: &str, _: &Path) -> Result<Self, String> {
        Self::checked(text.parse().map_err(|_| format!("{text:?}"))?)
    }

    fn from_toml(value: &Toml, _: &Path) -> Result<Self, String> {
        let whole = value.as_integer().map(|number| number as f64);
        Self::checked(whole.or_else(|| value.as_float()).ok_or_else(|| found(value))?)
    }

    fn to_json(&self) -> Json {
        // A whole number looks like one, as the user wrote it.
        if self.0.fract() == 0.0 { json!(self.0 as u64) } else { json!(self.0) }
    }
}

/// A setting that need not be there; its value, where given, is a `T`.
impl<T: Value> Value for Option<T> {
    const EXPECTED: &'static str = T::EXPECTED;

    fn from_text(text: &str, base: &Path) -> Result<Self, String> {
        T::from_text(text, base).map(Some)
    }

    fn from_toml(value: &Toml, base: &Path) -> Result<Self, String> {
        T::from_toml(value, base).map(Some)
    }

    fn to_json(&self) -> Json {
        self.as_ref().map_or(Json::Null, T::to_json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: Value>(text: &str) -> Result<T, String> {
        T::from_text(text, Path::new("/base"))
    }

    #[test]
    fn relative_paths_belong_to_the_place_that_names_them() {
        assert_eq!(read::<PathBuf>("a/b"), Ok("/base/a/b".into()));
        assert_eq!(read::<PathBuf>("/a"), Ok("/a".into()));
        assert!(read::<PathBuf>("~/a").is_err());
        assert_eq!(read::<PathList>("/a::b"), Ok(PathList(vec!["/a".into(), "/base/b".into()])));
    }

    #[test]
    fn limits_have_bounds() {
        assert_eq!(read::<Seconds>("0.5"), Ok(Seconds(0.5)));
        for wrong in ["0", "-1", "61", "nan", "inf", "soon"] {
            assert!(read::<Seconds>(wrong).is_err(), "{wrong} was accepted");
        }
    }

    #[test]
    fn an_address_carries_no_credentials() {
        assert!(read::<Endpoint>("http://127.0.0.1:9000/").is_ok());
        assert!(read::<Endpoint>("s3.example.com").is_err());
        assert!(read::<Endpoint>("https://").is_err());
        let error = read::<Endpoint>("https://me:hunter2@s3.example.com").unwrap_err();
        assert!(!error.contains("hunter2"));
    }
}
