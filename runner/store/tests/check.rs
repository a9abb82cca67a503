//! The check of a bucket against servers on the loopback that answer as object stores do.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use warpforge_store::{Credentials, Error, ObjectStore, Settings};

fn check(endpoint: String, limit: Duration) -> Result<(), Error> {
    let settings =
        Settings { endpoint: Some(endpoint), region: None, bucket: "nightly".to_owned() };
    let credentials = Credentials::from_lookup(|name| Some(format!("value-of-{name}"))).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(ObjectStore::connect(settings, credentials, limit).check())
}

/// Asks a server that gives this answer, and returns what it was asked as well.
fn answered(head: &'static str) -> (Result<(), Error>, Vec<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let reader = BufReader::new(stream.try_clone().unwrap());
        let request: Vec<String> =
            reader.lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
        write!(stream, "HTTP/1.1 {head}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            .unwrap();
        request
    });
    let result = check(endpoint, Duration::from_secs(20));
    (result, server.join().unwrap())
}

#[test]
fn a_bucket_that_is_there_works_and_is_asked_for_by_path() {
    let (result, request) = answered("200 OK");
    result.unwrap();
    assert!(request[0].starts_with("HEAD /nightly"), "{request:?}");
    let signed = request.iter().any(|line| {
        line.to_lowercase().starts_with("authorization: aws4-hmac-sha256")
            && line.contains("value-of-AWS_ACCESS_KEY_ID")
            && line.contains("/us-east-1/s3/")
    });
    assert!(signed, "{request:?}");
}

#[test]
fn answers_are_told_apart() {
    assert!(matches!(answered("403 Forbidden").0, Err(Error::AccessDenied { .. })));
    assert!(matches!(answered("404 Not Found").0, Err(Error::NoSuchBucket { .. })));
    assert!(matches!(
        answered("500 Internal Server Error").0,
        Err(Error::Unexpected { status: 500, .. })
    ));
    let moved = answered("301 Moved Permanently\r\nx-amz-bucket-region: eu-west-1").0.unwrap_err();
    assert_eq!(moved.to_string(), "bucket \"nightly\" is in another region: eu-west-1");
    assert_eq!(moved.cure(), "set store.region to eu-west-1");
}

#[test]
fn a_closed_port_refuses() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = check(format!("http://127.0.0.1:{port}"), Duration::from_secs(20)).unwrap_err();
    assert_eq!(error.to_string(), format!("http://127.0.0.1:{port} refused the connection"));
    assert!(error.cure().contains("store.endpoint"));
}

#[test]
fn silence_ends_at_the_limit() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let error = check(endpoint, Duration::from_millis(200)).unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }), "{error:?}");
}

#[test]
fn a_server_without_tls_is_named_as_such() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("https://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let _ = (&stream).write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let error = check(endpoint, Duration::from_secs(20)).unwrap_err();
    assert!(matches!(error, Error::Tls { .. }), "{error:?}");
}

#[test]
fn a_name_that_does_not_exist_is_named_as_such() {
    // The top-level name is reserved for this: no resolver knows it.
    let error = check("http://store.invalid:9000".to_owned(), Duration::from_secs(20)).unwrap_err();
    assert!(matches!(error, Error::UnknownHost { .. }), "{error:?}");
}
