//! The custom resource definitions, as they are installed.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt as _;

use crate::{BenchmarkProfile, BenchmarkRun};

/// Both definitions, by the names of the files that hold them.
pub fn crds() -> [(&'static str, CustomResourceDefinition); 2] {
    [
        ("benchmarkruns.yaml", tidied(BenchmarkRun::crd())),
        ("benchmarkprofiles.yaml", tidied(BenchmarkProfile::crd())),
    ]
}

/// A definition as YAML.
pub fn to_yaml(crd: &CustomResourceDefinition) -> Result<String, serde_saphyr::ser::Error> {
    serde_saphyr::to_string(crd)
}

fn tidied(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        let schema = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut());
        if let Some(schema) = schema {
            tidy(schema);
        }
    }
    crd
}

/// What the derive writes and the API does not want: `null` beside leaving out, which rules would
/// have to tell apart; titles, which repeat names; and the source's own line breaks.
fn tidy(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    schema.title = None;
    schema.description = schema.description.take().map(|text| reflowed(&text));
    schema.properties.iter_mut().flat_map(|all| all.values_mut()).for_each(tidy);
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        tidy(values);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        tidy(items);
    }
}

/// Paragraphs without line breaks: `kubectl explain` wraps them itself.
fn reflowed(text: &str) -> String {
    let paragraphs = text.split("\n\n").map(|paragraph| paragraph.replace('\n', " "));
    paragraphs.collect::<Vec<_>>().join("\n\n")
}
