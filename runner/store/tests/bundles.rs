//! Bundles in a folder and in a real S3 server.

mod common;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;

use common::s3::{READER, S3, WRITER, credentials};
use common::{Reply, Server, block_on, content};
use tempfile::TempDir;
use warpforge_store::{ArtifactStore, BundleError, Error, Location, ObjectStore, Settings};

/// More than one part.
const LARGE: usize = 33 << 20;

fn bundle(large: usize) -> TempDir {
    let folder = TempDir::new().unwrap();
    let put = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    };
    put("complete.json", b"{}");
    put("golden/outputs.safetensors", &content(1, 70_000));
    put("golden/empty", b"");
    put("warpforge/checkpoint.safetensors", &content(2, large));
    put("report.html", "<p>ä".as_bytes());
    folder
}

fn put(store: &ArtifactStore, name: &str, from: &Path) -> Result<(), BundleError> {
    block_on(store.put(name, from, &mut |_| {})).map(drop)
}

fn get(store: &ArtifactStore, name: &str, to: &Path) -> Result<(), BundleError> {
    block_on(store.get(name, to, &mut |_| {})).map(drop)
}

fn assert_same(a: &Path, b: &Path) {
    for name in ["complete.json", "golden/outputs.safetensors", "golden/empty", "report.html"] {
        assert_eq!(fs::read(a.join(name)).unwrap(), fs::read(b.join(name)).unwrap(), "{name}");
    }
    let large = "warpforge/checkpoint.safetensors";
    assert!(fs::read(a.join(large)).unwrap() == fs::read(b.join(large)).unwrap(), "{large}");
}

/// One server for all tests of this file; it ends with the process, as tests are not told when
/// the last of them is over.
fn s3() -> &'static S3 {
    static S3: LazyLock<S3> = LazyLock::new(|| {
        let s3 = S3::start();
        s3.make_bucket("nightly").unwrap();
        s3
    });
    &S3
}

/// What both kinds of place have to do.
fn keeps_its_promises(store: &ArtifactStore) {
    let from = bundle(LARGE);
    assert_eq!(block_on(store.list()).unwrap(), Vec::<String>::new());
    assert!(matches!(get(store, "runs/a", Path::new("x")), Err(BundleError::Absent { .. })));

    let mut seen = 0;
    let stored = block_on(store.put("runs/a", from.path(), &mut |progress| {
        seen = seen.max(progress.at);
    }));
    assert_eq!(stored.unwrap().files.len(), 5);
    assert_eq!(seen, LARGE as u64);
    assert_eq!(block_on(store.list()).unwrap(), ["runs/a"]);
    block_on(store.verify("runs/a", &mut |_| {})).unwrap();

    let to = TempDir::new().unwrap();
    let place = to.path().join("a");
    get(store, "runs/a", &place).unwrap();
    assert_same(from.path(), &place);
    assert!(matches!(get(store, "runs/a", &place), Err(BundleError::InTheWay(_))));

    // Once more is no harm; another one of the same name is.
    put(store, "runs/a", from.path()).unwrap();
    let from = bundle(1_000);
    assert!(matches!(put(store, "runs/a", from.path()), Err(BundleError::Exists { .. })));
    put(store, "runs/b", from.path()).unwrap();
    assert_eq!(block_on(store.list()).unwrap(), ["runs/a", "runs/b"]);

    fs::write(from.path().join("golden/incomplete"), "").unwrap();
    assert!(matches!(put(store, "runs/c", from.path()), Err(BundleError::Incomplete(_))));
    assert!(matches!(put(store, "../c", from.path()), Err(BundleError::Name { .. })));
}

#[test]
fn a_folder_keeps_its_promises() {
    let folder = TempDir::new().unwrap();
    let store = ArtifactStore::open(Location::Folder(folder.path().join("artifacts")));
    keeps_its_promises(&store);
    // Damage is found, and what was cut off is no bundle.
    let place = folder.path().join("artifacts/runs");
    fs::write(place.join("a/golden/empty"), "x").unwrap();
    let damaged = block_on(store.verify("runs/a", &mut |_| {}));
    assert!(matches!(damaged, Err(BundleError::Wrong { .. })), "{damaged:?}");
    fs::remove_file(place.join("b/bundle.json")).unwrap();
    assert_eq!(block_on(store.list()).unwrap(), ["runs/a"]);
}

#[test]
fn a_bucket_keeps_its_promises() {
    let s3 = s3();
    s3.check("nightly", WRITER).unwrap();
    let store = ArtifactStore::open(s3.location("nightly", "team/x", WRITER));
    keeps_its_promises(&store);
    let client = s3.client(WRITER);
    block_on(async {
        let head = client.head_object().bucket("nightly");
        let key = "team/x/runs/a/warpforge/checkpoint.safetensors";
        let head = head.key(key).checksum_mode("ENABLED".into()).send().await.unwrap();
        // In three parts, each with a digest that the server has checked.
        assert!(head.e_tag().unwrap().trim_matches('"').ends_with("-3"), "{head:?}");
        assert!(head.checksum_sha256().is_some_and(|sum| sum.ends_with("-3")), "{head:?}");
        let damage = client.put_object().bucket("nightly").key("team/x/runs/a/golden/empty");
        damage.body(b"x".to_vec().into()).send().await.unwrap();
        let gone = client.delete_object().bucket("nightly").key("team/x/runs/b/report.html");
        gone.send().await.unwrap();
    });
    for name in ["runs/a", "runs/b"] {
        let damaged = block_on(store.verify(name, &mut |_| {}));
        assert!(matches!(damaged, Err(BundleError::Wrong { .. })), "{damaged:?}");
        let to = TempDir::new().unwrap();
        assert!(get(&store, name, &to.path().join("a")).is_err());
        assert!(!to.path().join("a").exists());
    }
}

#[test]
fn refusals_of_a_real_server_are_told_apart() {
    let s3 = s3();
    let from = bundle(1_000);
    let open = |bucket: &str, who| ArtifactStore::open(s3.location(bucket, "", who));
    let error = put(&open("nowhere", WRITER), "a", from.path()).unwrap_err();
    assert!(matches!(error, BundleError::Store(Error::NoSuchBucket { .. })), "{error:?}");
    let error = put(&open("nightly", READER), "a", from.path()).unwrap_err();
    assert!(matches!(error, BundleError::Store(Error::AccessDenied { .. })), "{error:?}");
    let stranger = ("stranger", "hunter2");
    let error = put(&open("nightly", stranger), "a", from.path()).unwrap_err();
    assert!(matches!(error, BundleError::Store(Error::AccessDenied { .. })), "{error:?}");
    let shown = format!("{error:?} {error} {}", error.cure());
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(s3.check("nightly", stranger).is_err());
}

#[test]
fn a_full_store_and_one_that_is_not_there_are_named() {
    let from = bundle(1_000);
    let at = |endpoint: String| {
        let settings =
            Settings { endpoint: Some(endpoint), region: None, bucket: "nightly".to_owned() };
        let prefix = String::new();
        let credentials = credentials(WRITER);
        ArtifactStore::open(Location::Bucket { settings, credentials, prefix })
    };
    let full = Server::start(|seen| {
        // Nothing is there yet, and nothing more goes in.
        let asked = seen.method != "PUT";
        let mut reply = Reply::status(if asked { 404 } else { 507 });
        let code = if asked { "NoSuchKey" } else { "XMinioStorageFull" };
        reply.body = format!("<Error><Code>{code}</Code></Error>").into_bytes();
        reply
    });
    let error = put(&at(full.url("")), "a", from.path()).unwrap_err();
    assert!(matches!(error, BundleError::Store(Error::Full { .. })), "{error:?}");
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = put(&at(format!("http://127.0.0.1:{port}")), "a", from.path()).unwrap_err();
    assert!(matches!(error, BundleError::Store(Error::Refused { .. })), "{error:?}");
}

/// Between us and the real server: lets so many bytes through in all, then cuts every connection.
fn cutting(to: &str, budget: i64) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let to = to.trim_start_matches("http://").to_owned();
    thread::spawn(move || {
        static LEFT: AtomicI64 = AtomicI64::new(0);
        LEFT.store(budget, Ordering::SeqCst);
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = TcpStream::connect(&to) else { continue };
            for (mut from, mut to) in
                [(client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client)]
            {
                thread::spawn(move || {
                    let mut buffer = [0; 8192];
                    while let Ok(read @ 1..) = from.read(&mut buffer) {
                        let cut = LEFT.fetch_sub(read as i64, Ordering::SeqCst) < 0;
                        if cut || to.write_all(&buffer[..read]).is_err() {
                            break;
                        }
                    }
                    let _ = from.shutdown(std::net::Shutdown::Both);
                    let _ = to.shutdown(std::net::Shutdown::Both);
                });
            }
        }
    });
    address
}

#[test]
fn an_upload_that_is_cut_off_leaves_no_bundle_and_can_be_gone_on_with() {
    let s3 = s3();
    let from = bundle(LARGE);
    // Into the middle of the large file.
    let endpoint = cutting(&s3.endpoint, 25 << 20);
    let settings = Settings { endpoint: Some(endpoint), ..s3.settings("nightly") };
    let cut = Location::Bucket { settings, credentials: credentials(WRITER), prefix: "cut".into() };
    let error = put(&ArtifactStore::open(cut), "a", from.path()).unwrap_err();
    assert!(matches!(error, BundleError::Store(_)), "{error:?}");
    let store = ArtifactStore::open(s3.location("nightly", "cut", WRITER));
    assert_eq!(block_on(store.list()).unwrap(), Vec::<String>::new());
    assert!(matches!(block_on(store.manifest("a")), Err(BundleError::Absent { .. })));
    put(&store, "a", from.path()).unwrap();
    block_on(store.verify("a", &mut |_| {})).unwrap();
}

#[test]
fn a_bundle_takes_the_place_of_another_even_where_its_files_lie_about_themselves() {
    let (first, second) = (bundle(10), bundle(20));
    let folder = TempDir::new().unwrap();
    let bucket = ArtifactStore::open(s3().location("nightly", "replaced", WRITER));
    for store in [ArtifactStore::open(Location::Folder(folder.path().join("kept"))), bucket] {
        let replace = |from: &Path| block_on(store.replace("a", from, &mut |_| {})).unwrap();
        let back = TempDir::new().unwrap();
        replace(first.path());
        replace(second.path());
        get(&store, "a", &back.path().join("b")).unwrap();
        assert_same(second.path(), &back.path().join("b"));
    }
    // Of the right size and with the right digest beside it, but not what it says.
    let name = "golden/outputs.safetensors";
    let (bytes, client) = (fs::read(second.path().join(name)).unwrap(), s3().client(WRITER));
    let put = client.put_object().bucket("nightly").key(format!("replaced/a/{name}"));
    let put = put.metadata("sha256", common::sha256(&bytes)).body(vec![0; bytes.len()].into());
    block_on(put.send()).unwrap();
    let store = ArtifactStore::open(s3().location("nightly", "replaced", WRITER));
    assert!(block_on(store.verify("a", &mut |_| {})).is_err());
    block_on(store.replace("a", second.path(), &mut |_| {})).unwrap();
    block_on(store.verify("a", &mut |_| {})).unwrap();
}

#[test]
fn a_download_that_breaks_is_gone_on_with_while_it_is_the_same_object() {
    let bytes = content(4, 300_000);
    let (sent, mut count) = (bytes.clone(), 0);
    let server = Server::start(move |seen| {
        count += 1;
        Reply { cut: (count < 3).then_some(120_000), ..Reply::file(seen, &sent, "a") }
    });
    let endpoint = Some(server.url(""));
    let settings = Settings { endpoint, region: None, bucket: "nightly".to_owned() };
    let store = ObjectStore::patient(settings, credentials(WRITER));
    let folder = TempDir::new().unwrap();
    let to = folder.path().join("whole");
    block_on(store.fetch("x", &to, &mut |_| {})).unwrap();
    assert!(fs::read(to).unwrap() == bytes);
    let seen = server.seen();
    assert_eq!(seen.len(), 3);
    assert!(seen[1].from() < seen[2].from() && seen[1].from() > Some(0), "{seen:?}");
    assert!(seen[1..].iter().all(|seen| seen.header("if-match") == Some("\"a\"")), "{seen:?}");
}

#[test]
fn a_single_object_is_brought_whole_or_not_at_all() {
    let (folder, client) = (TempDir::new().unwrap(), s3().client(WRITER));
    let bytes = content(3, 300_000);
    let key = |name: &str| format!("single/{name}");
    for (name, digest) in
        [("right", Some(common::sha256(&bytes))), ("plain", None), ("wrong", Some("00".to_owned()))]
    {
        let put = client.put_object().bucket("nightly").key(key(name)).body(bytes.clone().into());
        let put = put.set_metadata(digest.map(|digest| [("sha256".to_owned(), digest)].into()));
        block_on(put.send()).unwrap();
    }
    let store = ObjectStore::patient(s3().settings("nightly"), credentials(WRITER));
    let fetch = |name: &str| {
        let to = folder.path().join(name);
        (block_on(store.fetch(&key(name), &to, &mut |_| {})), fs::read(to).ok())
    };
    for name in ["right", "plain"] {
        let (entry, found) = fetch(name);
        assert_eq!((entry.unwrap().sha256, found), (common::sha256(&bytes), Some(bytes.clone())));
    }
    let (error, found) = fetch("wrong");
    assert!(matches!(error, Err(BundleError::Wrong { .. })) && found.is_none(), "{error:?}");
    let (error, found) = fetch("absent");
    let absent = matches!(error, Err(BundleError::Store(Error::NoSuchObject { .. })));
    assert!(absent && found.is_none(), "{error:?}");
    // Whether anything can be written.
    block_on(store.try_write(&key("try"))).unwrap();
    let head = client.head_object().bucket("nightly").key(key("try"));
    assert!(block_on(head.send()).is_err());
    let reader = ObjectStore::patient(s3().settings("nightly"), credentials(READER));
    let refused = block_on(reader.try_write(&key("try")));
    assert!(matches!(refused, Err(Error::AccessDenied { .. })), "{refused:?}");
    s3().keep("nightly", "single/kept");
    block_on(store.try_write(&key("kept/try"))).unwrap();
    let refused = block_on(store.try_replace(&key("kept/try")));
    assert!(matches!(refused, Err(Error::NotDeletable { .. })), "{refused:?}");
    block_on(store.try_replace(&key("try"))).unwrap();
}
