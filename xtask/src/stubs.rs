//! Makes libraries that can be loaded in the place of real ones that nobody calls.
//!
//! The loader binds every symbol of a Python extension at once, so each stub has
//! all that is wanted of it, in the version it is wanted in; all of them lead to
//! one instruction that ends the process.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::artifact::{Stub, Stubs};
use crate::group;

/// A symbol that a library wants from another.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Symbol {
    name: String,
    version: Option<String>,
}

/// Writes the stubs below `root`, and names them.
pub fn write(stubs: &Stubs, root: &Path) -> Result<Vec<String>> {
    let mut wanted = BTreeSet::new();
    for user in &stubs.users {
        let listed = run(Command::new("nm").args(["-D", "--undefined-only"]).arg(root.join(user)))?;
        wanted.extend(listed.lines().filter_map(symbol));
    }
    let folder = root.join(&stubs.folder);
    fs::create_dir_all(&folder)?;
    let scratch = tempfile::tempdir()?;
    let mut made = Vec::new();
    for stub in &stubs.libraries {
        link(stub, &wanted, scratch.path(), &folder)
            .with_context(|| format!("could not make a stub of {}", stub.file))?;
        made.push(format!("{}/{}", stubs.folder, stub.file));
    }
    Ok(made)
}

/// The symbol of a line like `                 U cublasCreate_v2@libcublas.so.13`.
fn symbol(line: &str) -> Option<Symbol> {
    let name = line.split_whitespace().last()?;
    let (name, version) = match name.split_once('@') {
        Some((name, version)) => (name, Some(version.trim_start_matches('@').to_owned())),
        None => (name, None),
    };
    Some(Symbol { name: name.to_owned(), version })
}

fn belongs(symbol: &Symbol, stub: &Stub) -> bool {
    match &symbol.version {
        Some(version) => stub.version.as_ref() == Some(version),
        None => stub.prefix.as_ref().is_some_and(|prefix| symbol.name.starts_with(prefix)),
    }
}

fn link(stub: &Stub, wanted: &BTreeSet<Symbol>, scratch: &Path, folder: &Path) -> Result<()> {
    let (source, versions) = (scratch.join("stub.s"), scratch.join("stub.map"));
    fs::write(&source, assembly(wanted.iter().filter(|symbol| belongs(symbol, stub))))?;
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-nostdlib", "-o"]).arg(folder.join(&stub.file)).arg(&source);
    cc.arg(format!("-Wl,-soname,{}", stub.file));
    if let Some(version) = &stub.version {
        fs::write(&versions, format!("{version} {{ global: *; }};\n"))?;
        cc.arg(format!("-Wl,--version-script={}", versions.display()));
    }
    run(&mut cc).map(|_| ())
}

fn assembly<'a>(symbols: impl Iterator<Item = &'a Symbol>) -> String {
    let mut text = String::from(".text\n");
    for Symbol { name, .. } in symbols {
        let _ = writeln!(text, ".globl {name}\n.type {name}, @function\n{name}:");
    }
    text + "ud2\n.section .note.GNU-stack, \"\", @progbits\n"
}

fn run(command: &mut Command) -> Result<String> {
    let program = command.get_program().display().to_string();
    let output = group::output(command).with_context(|| {
        format!("could not start {program}; install a C compiler, which cargo needs as well")
    })?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} failed: {}", said.trim());
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stub(version: Option<&str>, prefix: Option<&str>) -> Stub {
        Stub {
            file: "libx.so.1".into(),
            version: version.map(str::to_owned),
            prefix: prefix.map(str::to_owned),
        }
    }

    #[test]
    fn a_symbol_goes_by_its_version_and_else_by_its_name() {
        let versioned = symbol("                 U cublasCreate_v2@libcublas.so.13").unwrap();
        assert_eq!(versioned.name, "cublasCreate_v2");
        assert!(belongs(&versioned, &stub(Some("libcublas.so.13"), None)));
        assert!(!belongs(&versioned, &stub(Some("libcublasLt.so.13"), Some("cublas"))));
        let plain = symbol("                 U ncclSend").unwrap();
        assert!(belongs(&plain, &stub(None, Some("nccl"))));
        assert!(belongs(&plain, &stub(Some("x"), Some("nccl"))));
        assert!(!belongs(&plain, &stub(Some("x"), None)));
    }

    /// A stub is loaded by a program that wants a symbol of it in its version.
    #[test]
    fn a_stub_satisfies_the_loader() {
        let folder = tempfile::tempdir().unwrap();
        let wanted =
            BTreeSet::from([Symbol { name: "far_away".into(), version: Some("X1".into()) }]);
        let scratch = tempfile::tempdir().unwrap();
        link(&stub(Some("X1"), None), &wanted, scratch.path(), folder.path()).unwrap();
        let main = folder.path().join("main.c");
        fs::write(
            &main,
            "int far_away(void); int main(int n, char **v) { return n > 9 && far_away(); }",
        )
        .unwrap();
        let program = folder.path().join("main");
        let mut cc = Command::new("cc");
        cc.arg("-o").arg(&program).arg(&main).arg(folder.path().join("libx.so.1"));
        cc.arg("-Wl,-z,now").arg(format!("-Wl,-rpath,{}", folder.path().display()));
        run(&mut cc).unwrap();
        let listed =
            run(Command::new("nm").args(["-D", "--undefined-only"]).arg(&program)).unwrap();
        assert!(
            listed.lines().filter_map(symbol).any(|symbol| wanted.contains(&symbol)),
            "{listed}"
        );
        run(&mut Command::new(&program)).unwrap();
    }
}
