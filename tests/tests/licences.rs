//! Every dependency has a licence that `deny.toml` allows, and comes from where it
//! allows. Offline, so that it runs with the tests everywhere; `cargo deny` reads
//! the same file and adds the advisories.

use cargo_metadata::{Metadata, MetadataCommand, Package};
use spdx::{Expression, Licensee, ParseMode};
use toml_edit::{DocumentMut, Item, Value};
use warpforge_tests::root;

/// The part of `deny.toml` that is about licences.
struct Policy {
    allow: Vec<Licensee>,
    exceptions: Vec<(String, Vec<Licensee>)>,
}

impl Policy {
    fn read(deny: &DocumentMut) -> Self {
        let licenses = &deny["licenses"];
        let exceptions = licenses["exceptions"].as_array().expect("licenses.exceptions is a list");
        let exception = |entry: &Value| {
            let entry = entry.as_inline_table().expect("an exception is a table");
            let name = entry["crate"].as_str().expect("an exception names its crate");
            (name.to_owned(), licensees(entry["allow"].as_array()))
        };
        Self {
            allow: licensees(licenses["allow"].as_array()),
            exceptions: exceptions.iter().map(exception).collect(),
        }
    }

    /// Nothing if the package may be used, otherwise why not.
    fn refusal(&self, name: &str, licence: Option<&str>) -> Option<String> {
        let Some(licence) = licence else {
            return Some(format!("{name} states no licence"));
        };
        // Many crates still write the old `MIT/Apache-2.0`.
        let Ok(expression) = Expression::parse_mode(licence, ParseMode::LAX) else {
            return Some(format!("{name} has a licence that is no SPDX expression: {licence}"));
        };
        let own = self.exceptions.iter().filter(|(crate_name, _)| crate_name == name);
        let allowed: Vec<_> = self.allow.iter().chain(own.flat_map(|(_, allow)| allow)).collect();
        let fits = expression.evaluate(|needed| allowed.iter().any(|have| have.satisfies(needed)));
        (!fits).then(|| format!("{name} is licensed {licence}, which deny.toml does not allow"))
    }
}

fn licensees(list: Option<&toml_edit::Array>) -> Vec<Licensee> {
    let names = list.expect("`allow` is a list").iter();
    names.map(|name| Licensee::parse(name.as_str().expect("a name")).expect("a licence")).collect()
}

fn deny_toml() -> DocumentMut {
    std::fs::read_to_string(root().join("deny.toml")).unwrap().parse().unwrap()
}

/// What is built for one target, as the lock file has it.
///
/// Asking for every target would need crates that are never built here, which
/// cargo then has not fetched.
fn metadata(target: &str) -> Metadata {
    let options = ["--offline", "--locked", "--filter-platform", target].map(String::from);
    MetadataCommand::new().current_dir(root()).other_options(options).exec().unwrap()
}

fn third_party() -> Vec<Package> {
    let deny = deny_toml();
    let targets = deny["graph"]["targets"].as_array().expect("graph.targets is a list");
    let packages = targets.iter().flat_map(|target| metadata(target.as_str().unwrap()).packages);
    packages.filter(|package| package.source.is_some()).collect()
}

#[track_caller]
fn assert_none(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

#[test]
fn every_dependency_has_an_allowed_licence() {
    let policy = Policy::read(&deny_toml());
    let packages = third_party();
    assert!(packages.len() > 50, "only {} dependencies were seen", packages.len());
    let refusals = packages.iter().filter_map(|p| policy.refusal(&p.name, p.license.as_deref()));
    assert_none(&refusals.collect::<Vec<_>>());
}

#[test]
fn every_exception_is_still_needed() {
    let policy = Policy::read(&deny_toml());
    let packages = third_party();
    let plain = Policy { allow: policy.allow, exceptions: Vec::new() };
    let needed = |name: &str| {
        let mut named = packages.iter().filter(|package| package.name == name);
        named.any(|package| plain.refusal(name, package.license.as_deref()).is_some())
    };
    let idle = policy.exceptions.iter().filter(|(name, _)| !needed(name));
    assert_none(&idle.map(|(name, _)| format!("{name} needs no exception")).collect::<Vec<_>>());
}

#[test]
fn every_dependency_comes_from_the_public_registry() {
    let deny = deny_toml();
    assert_eq!(deny["sources"]["unknown-registry"].as_str(), Some("deny"));
    assert_eq!(deny["sources"]["unknown-git"].as_str(), Some("deny"));
    let foreign = third_party().into_iter().filter(|package| {
        !package.source.as_ref().is_some_and(cargo_metadata::Source::is_crates_io)
    });
    assert_none(&foreign.map(|package| package.id.to_string()).collect::<Vec<_>>());
}

#[test]
fn a_licence_outside_the_list_is_refused() {
    let policy = Policy::read(&deny_toml());
    let refused = |licence| policy.refusal("some-crate", Some(licence)).is_some();
    assert!(refused("GPL-3.0-only"));
    assert!(refused("MIT AND GPL-3.0-only"));
    assert!(refused("Apache-2.0 WITH Classpath-exception-2.0"));
    assert!(refused("whatever you like"));
    assert!(!refused("MIT OR GPL-3.0-only"));
    assert!(!refused("MIT/Apache-2.0"));
}

#[test]
fn a_package_without_a_licence_is_refused() {
    let refusal = Policy::read(&deny_toml()).refusal("some-crate", None);
    assert_eq!(refusal.as_deref(), Some("some-crate states no licence"));
}

#[test]
fn an_exception_holds_for_its_crate_alone() {
    let mut deny = deny_toml();
    let exceptions = "[{ allow = ['MPL-2.0'], crate = 'one' }]".parse::<Value>().unwrap();
    deny["licenses"]["exceptions"] = Item::Value(exceptions);
    let policy = Policy::read(&deny);
    assert_eq!(policy.refusal("one", Some("MPL-2.0")), None);
    assert!(policy.refusal("two", Some("MPL-2.0")).is_some());
}
