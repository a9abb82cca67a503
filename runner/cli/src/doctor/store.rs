//! The object store: whether the configured bucket answers.

use warpforge_bench::capability::Finding;
use warpforge_store::{Credentials, Error, ObjectStore, Settings};

use super::Limits;
use crate::commands::Context;

pub fn probe(context: &Context<'_>, limits: Limits) -> Finding {
    let settings = context.settings();
    let Some(bucket) = settings.bucket.value.clone() else {
        let cure = "set store.bucket (and store.endpoint, unless the store is Amazon's) in \
                    warpforge.toml";
        return Finding::missing("no bucket is configured", cure);
    };
    let place = Settings {
        endpoint: settings.endpoint.value.clone().map(|endpoint| endpoint.0),
        region: settings.region.value.clone(),
        bucket,
    };
    match check(&place, context, limits) {
        Ok(()) => Finding::works(format!("bucket \"{}\" at {}", place.bucket, place.server())),
        Err(error) => Finding::broken(error.to_string(), error.cure()),
    }
}

fn check(place: &Settings, context: &Context<'_>, limits: Limits) -> Result<(), Error> {
    let credentials = Credentials::from_lookup(|name| context.environment.get(name))?;
    let store = ObjectStore::connect(place.clone(), credentials, limits.answer);
    super::block_on(store.check())
}
