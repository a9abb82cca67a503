//! What a licence allows, who has to be named, and the refusal of what forbids commercial use.

use serde::{Deserialize, Serialize};

/// A licence as far as a run has to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Licence {
    /// The SPDX identifier, or the name it goes by where SPDX has none.
    pub name: &'static str,
    pub url: &'static str,
    pub commercial: Commercial,
}

/// Whether one may make money with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commercial {
    Allowed,
    /// Allowed to most; the condition is said.
    Conditional(&'static str),
    Forbidden,
}

impl Licence {
    pub const APACHE_2: Self = Self {
        name: "Apache-2.0",
        url: "https://www.apache.org/licenses/LICENSE-2.0",
        commercial: Commercial::Allowed,
    };
    pub const CC_BY_4: Self = Self {
        name: "CC-BY-4.0",
        url: "https://creativecommons.org/licenses/by/4.0/",
        commercial: Commercial::Allowed,
    };
    pub const CC_BY_SA_3: Self = Self {
        name: "CC-BY-SA-3.0",
        url: "https://creativecommons.org/licenses/by-sa/3.0/",
        commercial: Commercial::Allowed,
    };
    pub const CC_BY_SA_4: Self = Self {
        name: "CC-BY-SA-4.0",
        url: "https://creativecommons.org/licenses/by-sa/4.0/",
        commercial: Commercial::Allowed,
    };
    pub const CC_BY_NC_4: Self = Self {
        name: "CC-BY-NC-4.0",
        url: "https://creativecommons.org/licenses/by-nc/4.0/",
        commercial: Commercial::Forbidden,
    };
    pub const LLAMA_3_1: Self = Self {
        name: "Llama 3.1 Community License",
        url: "https://www.llama.com/llama3_1/license/",
        commercial: Commercial::Conditional(
            "not for products with more than 700 million monthly users, and only within Meta's \
             acceptable use policy",
        ),
    };

    pub fn forbids_commercial_use(&self) -> bool {
        self.commercial == Commercial::Forbidden
    }
}

/// What a report says of a dataset or of weights that a run used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LicenceUse {
    /// The id in the table.
    pub id: String,
    pub title: String,
    pub licence: String,
    pub url: String,
    /// Whether the licence lets the result be used commercially; the condition, if any.
    pub commercial: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// Whether a licence that forbids commercial use was accepted with `--accept-license`.
    pub accepted: bool,
    /// The line that names the authors.
    pub attribution: String,
}

/// The datasets whose licence was accepted, by id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accepted(pub Vec<String>);

impl Accepted {
    pub fn has(&self, id: &str) -> bool {
        self.0.iter().any(|accepted| accepted == id)
    }
}
