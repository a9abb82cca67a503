//! `crds/*.yaml` are printed from the types. `cargo xtask generate` writes them anew.

use std::path::Path;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use warpforge_operator_api::crds::{crds, to_yaml};

#[test]
fn the_definitions_are_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crds");
    for (name, crd) in crds() {
        let text = to_yaml(&crd).unwrap();
        let path = folder.join(name);
        if std::env::var_os("WARPFORGE_TEST_BLESS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(committed == text, "operator/api/crds/{name} is stale: run `cargo xtask generate`");
    }
}

/// Visits a schema and all below it, with the path to each.
fn walk(path: &str, schema: &JSONSchemaProps, visit: &mut dyn FnMut(&str, &JSONSchemaProps)) {
    visit(path, schema);
    for (name, property) in schema.properties.iter().flatten() {
        walk(&format!("{path}.{name}"), property, visit);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &schema.additional_properties {
        walk(&format!("{path}.*"), values, visit);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
        walk(&format!("{path}[]"), items, visit);
    }
}

fn problems(check: fn(&JSONSchemaProps) -> Option<&'static str>) -> Vec<String> {
    let mut found = Vec::new();
    for (_, crd) in crds() {
        let version = &crd.spec.versions[0];
        let schema = version.schema.as_ref().unwrap().open_api_v3_schema.as_ref().unwrap();
        for (name, part) in schema.properties.iter().flatten() {
            walk(&format!("{}.{name}", crd.spec.names.kind), part, &mut |path, schema| {
                found.extend(check(schema).map(|problem| format!("{path}: {problem}")));
            });
        }
    }
    found
}

#[test]
fn every_list_map_and_string_is_bounded() {
    let unbounded = problems(|schema| match schema.type_.as_deref() {
        Some("string") if schema.enum_.is_some() || schema.format.is_some() => None,
        Some("string") if schema.max_length.is_none() => Some("a string without maxLength"),
        Some("array") if schema.max_items.is_none() => Some("a list without maxItems"),
        Some("object")
            if schema.additional_properties.is_some() && schema.max_properties.is_none() =>
        {
            Some("a map without maxProperties")
        }
        Some("object") if schema.properties.is_none() && schema.additional_properties.is_none() => {
            Some("an object without properties")
        }
        None if schema.x_kubernetes_int_or_string != Some(true) => Some("no type"),
        _ => None,
    });
    assert!(unbounded.is_empty(), "\n{}", unbounded.join("\n"));
}

#[test]
fn every_list_says_how_it_is_merged() {
    let silent = problems(|schema| {
        let list = schema.type_.as_deref() == Some("array");
        (list && schema.x_kubernetes_list_type.is_none()).then_some("no x-kubernetes-list-type")
    });
    assert!(silent.is_empty(), "\n{}", silent.join("\n"));
}

#[test]
fn the_schema_keeps_to_what_the_api_server_knows() {
    let odd = problems(|schema| {
        let format = schema.format.as_deref();
        if schema.nullable.is_some() {
            Some("nullable")
        } else if format.is_some_and(|f| !["int32", "int64", "date-time"].contains(&f)) {
            Some("a format that the API server does not know")
        } else if schema.any_of.is_some() && schema.x_kubernetes_int_or_string.is_none() {
            Some("anyOf")
        } else if schema.one_of.is_some() {
            Some("oneOf")
        } else if schema.ref_path.is_some() {
            Some("$ref")
        } else {
            None
        }
    });
    assert!(odd.is_empty(), "\n{}", odd.join("\n"));
}

#[test]
fn what_a_user_fills_in_is_explained() {
    let silent: Vec<_> =
        problems(|schema| schema.description.is_none().then_some("no description"))
            .into_iter()
            // Values of maps and items of lists are explained where they stand, and the names of
            // variables and references by what they are.
            .filter(|problem| !problem.contains("*:") && !problem.contains("]:"))
            .filter(|problem| !problem.contains(".env[].") && !problem.contains(".resolved."))
            .collect();
    assert!(silent.is_empty(), "\n{}", silent.join("\n"));
}
