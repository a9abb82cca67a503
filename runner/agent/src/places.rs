//! Where things are in the object store, by name.
//!
//! A run's bundle is `NAMESPACE/NAME/UID/attempt-N` below the artifacts' prefix, as the API says; a
//! golden is its key below the place that the operator names.

use warpforge_operator_api::contract::RunnerSpec;
use warpforge_operator_api::data::S3;

/// The bundle of one attempt.
pub fn bundle(spec: &RunnerSpec) -> String {
    let run = &spec.run;
    format!("{}/{}/{}/attempt-{}", run.namespace, run.name, run.uid, spec.attempt)
}

/// A golden in one of its places.
pub fn golden(place: &str, key: &str) -> String {
    format!("{}/{key}", place.trim_matches('/'))
}

/// What a name is called inside its bucket.
pub fn key(s3: &S3, name: &str) -> String {
    match s3.prefix.trim_matches('/') {
        "" => name.to_owned(),
        prefix => format!("{prefix}/{name}"),
    }
}

/// The address of a bundle's file.
pub fn file(s3: &S3, bundle: &str, file: &str) -> String {
    format!("s3://{}/{}/{file}", s3.bucket, key(s3, bundle))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_no_empty_part() {
        let mut s3 = S3 {
            endpoint: None,
            region: "us-east-1".into(),
            bucket: "b".into(),
            prefix: "/team-a/nightly/".into(),
            credentials_secret: None,
        };
        assert_eq!(
            file(&s3, "ns/run/uid/attempt-1", "report.json"),
            "s3://b/team-a/nightly/ns/run/uid/attempt-1/report.json"
        );
        s3.prefix.clear();
        assert_eq!(file(&s3, "x", "report.json"), "s3://b/x/report.json");
        assert_eq!(golden("goldens/ns", "00"), "goldens/ns/00");
    }
}
