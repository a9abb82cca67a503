//! Archives that are damaged, hostile or of another version: each has its own clear error, and
//! none is read as if it were whole.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use rawzip::{CompressionMethod, ZipArchive, ZipArchiveWriter};
use tempfile::TempDir;
use warpforge_pt2::{Model, Options, Recipe, WeightSource};
use warpforge_tests::{campaign, installed};

type Member = (String, Vec<u8>);

fn members(path: &Path) -> Vec<Member> {
    let bytes = std::fs::read(path).unwrap();
    let zip = ZipArchive::from_slice(&bytes[..]).unwrap();
    let mut members = Vec::new();
    for header in zip.entries() {
        let header = header.unwrap();
        let name = std::str::from_utf8(header.file_path().as_ref()).unwrap().to_owned();
        members.push((name, zip.get_entry(header.wayfinder()).unwrap().data().to_vec()));
    }
    members
}

fn zip(members: &[Member]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut archive = ZipArchiveWriter::new(&mut out);
    for (name, bytes) in members {
        let file = archive.new_file(name).compression_method(CompressionMethod::STORE);
        let (mut entry, config) = file.start().unwrap();
        let mut writer = config.wrap(&mut entry);
        writer.write_all(bytes).unwrap();
        let (_, descriptor) = writer.finish().unwrap();
        entry.finish(descriptor).unwrap();
    }
    archive.finish().unwrap();
    out
}

struct Broken(TempDir);

impl Broken {
    /// The message for the committed model after a change to its members.
    fn message(&self, change: impl FnOnce(&mut Vec<Member>)) -> String {
        let mut all = members(&installed::committed_fixture("tied").model);
        change(&mut all);
        self.of_bytes(&zip(&all))
    }

    fn of_bytes(&self, bytes: &[u8]) -> String {
        let path = self.0.path().join("model.pt2");
        std::fs::write(&path, bytes).unwrap();
        let read = Model::load(&path, &Options::default()).and_then(|model| {
            model.weights.names().try_for_each(|name| model.weights.get(name).map(drop))
        });
        let message = read.expect_err("it should have been refused").to_string();
        message.replace(&self.0.path().display().to_string(), "[DIR]")
    }
}

fn replace(members: &mut [Member], ending: &str, from: &str, to: &str) {
    let found = members.iter_mut().find(|(name, _)| name.ends_with(ending));
    let (name, bytes) = found.unwrap_or_else(|| panic!("there is no {ending}"));
    let text = String::from_utf8(bytes.clone()).unwrap();
    assert!(text.contains(from), "{name} has no {from}");
    *bytes = text.replacen(from, to, 1).into_bytes();
}

const CONFIG: &str = "weights_config.json";
const GRAPH: &str = "models/model.json";

#[test]
fn each_damage_has_its_own_message() {
    let broken = Broken(TempDir::new().unwrap());
    let whole = std::fs::read(installed::committed_fixture("tied").model).unwrap();
    let without =
        |text: &'static str| broken.message(|all| all.retain(|(name, _)| !name.contains(text)));
    let with =
        |ending: &str, from: &str, to: &str| broken.message(|all| replace(all, ending, from, to));
    let short = broken.message(|all| {
        let weight = all.iter_mut().find(|(name, _)| name.ends_with("weight_0"));
        weight.unwrap().1.pop();
    });
    // The writer would tidy such a name up, so it is put in afterwards, in both places.
    let mut all = members(&installed::committed_fixture("tied").model);
    all.push(("tied/__/__/escape".into(), b"x".to_vec()));
    let mut bytes = zip(&all);
    let (from, to) = (b"tied/__/__/escape", b"tied/../../escape");
    let places = (0..bytes.len() - from.len()).filter(|at| bytes[*at..].starts_with(from));
    for at in places.collect::<Vec<_>>() {
        bytes[at..at + to.len()].copy_from_slice(to);
    }
    let outside = broken.of_bytes(&bytes);
    let cases = [
        ("an empty file", broken.of_bytes(b"")),
        ("no zip", broken.of_bytes(b"hello")),
        ("cut off", broken.of_bytes(&whole[..whole.len() / 2])),
        ("no graph", without("/models/")),
        ("no list of weights", without(CONFIG)),
        ("a missing weight", without("/weight_0")),
        ("a short weight", short),
        ("a newer schema", with(GRAPH, "\"major\": 8", "\"major\": 9")),
        ("a pickled weight", with(CONFIG, "\"use_pickle\": false", "\"use_pickle\": true")),
        ("a weight outside", with(CONFIG, "\"weight_0\"", "\"../../etc/passwd\"")),
        ("a member outside", outside),
        ("an unknown element type", with(CONFIG, "\"dtype\": 7", "\"dtype\": 99")),
        ("other sizes than the graph's", with(CONFIG, "\"as_int\": ", "\"as_int\": 1")),
        ("a graph that is no JSON", with(GRAPH, "{", "[")),
    ];
    let mut shown = String::new();
    for (what, message) in cases {
        writeln!(shown, "{what}:\n    {message}").unwrap();
    }
    insta::assert_snapshot!(shown);
}

/// Any changed byte and any cut is survived: an error or a model, never a panic.
#[test]
fn no_damage_panics() {
    let whole = std::fs::read(installed::committed_fixture("in_place").model).unwrap();
    let folder = TempDir::new().unwrap();
    let path: PathBuf = folder.path().join("model.pt2");
    let mut numbers = campaign::numbers("pt2 damage");
    for _ in 0..campaign::rounds(400, 20_000) {
        let mut bytes = whole.clone();
        let at = numbers.below(bytes.len() as u64) as usize;
        if numbers.below(8) == 0 {
            bytes.truncate(at);
        } else {
            bytes[at] = numbers.below(256) as u8;
        }
        std::fs::write(&path, &bytes).unwrap();
        if let Ok(model) = Model::load(&path, &Options::default()) {
            for name in model.weights.names() {
                let _ = model.weights.get(name).map(|tensor| tensor.elements().len());
            }
        }
    }
}

#[test]
fn open_sizes_are_asked_for_and_taken_by_symbol_place_or_any_name() {
    let fixture = installed::committed_fixture("dynamic");
    let error = Model::load(&fixture.model, &Options::default()).unwrap_err().to_string();
    assert!(error.contains("--dim"), "{error}");
    let open = Model::open(&fixture.model).unwrap();
    let specs = |text: &dyn Fn(&warpforge_pt2::Symbol) -> String| {
        let dims = open.symbols.iter().map(|symbol| text(symbol).parse().unwrap()).collect();
        Model::load(&fixture.model, &Options { dims, ..Options::default() })
    };
    let size = |symbol: &warpforge_pt2::Symbol| symbol.example.unwrap();
    specs(&|symbol| format!("{}={}", symbol.name, size(symbol))).unwrap();
    specs(&|symbol| {
        let (input, axis) = &symbol.places[0];
        format!("{input}.{axis}={}", size(symbol))
    })
    .unwrap();
    let any = specs(&|symbol| format!("batch={}", size(symbol)));
    assert_eq!(any.is_ok(), open.symbols.len() == 1);
}

#[test]
fn tied_weights_stay_one_tensor_whatever_they_come_from() {
    let fixture = installed::committed_fixture("tied_split");
    let bare = Model::load(&fixture.model, &Options::default()).unwrap();
    let names: Vec<String> = bare.weights.names().map(str::to_owned).collect();
    let missing = names.iter().find_map(|name| bare.weights.get(name).err());
    assert!(missing.unwrap().to_string().contains("saved without it"));
    let file = WeightSource::Safetensors(fixture.weights.clone().unwrap());
    for weights in [file, WeightSource::Recipe(Recipe::standard(3))] {
        let options = Options { weights, ..Options::default() };
        let model = Model::load(&fixture.model, &options).unwrap();
        let mut groups = BTreeMap::<usize, Vec<Vec<u8>>>::new();
        for name in &names {
            let tensor = model.weights.get(name).unwrap();
            let group = model.weights.group(name).unwrap();
            groups.entry(group).or_default().push(tensor.elements().into_owned());
        }
        assert!(groups.values().any(|same| same.len() > 1), "nothing is tied");
        assert!(groups.values().all(|same| same.windows(2).all(|pair| pair[0] == pair[1])));
    }
}
