//! Making a run in the cluster.

use kube::api::PostParams;
use kube::{Api, ResourceExt as _};
use warpforge_operator_api::{BenchmarkRun, BenchmarkRunSpec};

/// A run that is there.
pub struct Created {
    pub run: BenchmarkRun,
    /// It was there already, and asks for the same.
    pub adopted: bool,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    #[error("the API server refused the run: {0}")]
    Refused(String),
    #[error("there is another run of the name {0}; choose another name, or delete it")]
    Another(String),
    #[error("you may not make it: {0}")]
    Forbidden(String),
    /// What may be over the next moment.
    #[error("the run could not be made: {0}")]
    Unreachable(String),
}

/// Makes the run, or finds the one of that name that asks for the same: an earlier try's.
pub async fn create(
    api: &Api<BenchmarkRun>,
    run: &BenchmarkRun,
    manager: &str,
) -> Result<Created, CreateError> {
    let params = PostParams { field_manager: Some(manager.to_owned()), ..PostParams::default() };
    loop {
        match api.create(&params, run).await {
            Ok(run) => return Ok(Created { run, adopted: false }),
            Err(kube::Error::Api(status)) if status.code == 409 && run.metadata.name.is_some() => {
                let there = api.get_opt(&run.name_any()).await;
                // None if it was deleted just now.
                if let Some(there) = there.map_err(refused)? {
                    if !alike(&there.spec, &run.spec) {
                        return Err(CreateError::Another(run.name_any()));
                    }
                    return Ok(Created { run: there, adopted: true });
                }
            }
            Err(error) => return Err(refused(error)),
        }
    }
}

fn refused(error: kube::Error) -> CreateError {
    match error {
        kube::Error::Api(status) if matches!(status.code, 400 | 404 | 422) => {
            CreateError::Refused(status.message)
        }
        kube::Error::Api(status) if matches!(status.code, 401 | 403) => {
            CreateError::Forbidden(status.message)
        }
        error => CreateError::Unreachable(error.to_string()),
    }
}

/// Whether two runs ask for the same. What may change of a run does not count.
fn alike(one: &BenchmarkRunSpec, other: &BenchmarkRunSpec) -> bool {
    let fixed = |spec: &BenchmarkRunSpec| BenchmarkRunSpec {
        suspend: false,
        ttl_seconds_after_finished: None,
        ..spec.clone()
    };
    fixed(one) == fixed(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_change_of_a_run_does_not_make_it_another() {
        let one = BenchmarkRunSpec::empty();
        let held = BenchmarkRunSpec { suspend: true, ..one.clone() };
        assert!(alike(&one, &held));
        let other = BenchmarkRunSpec { profile: "lab".into(), ..one.clone() };
        assert!(!alike(&one, &other));
    }
}
