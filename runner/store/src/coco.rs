//! The licences of COCO's images: the annotations name one for each, and some forbid commercial
//! use.

use std::collections::BTreeMap;
use std::io::Read;

use serde::{Deserialize, Serialize};

/// What the published annotations say of licences. The rest of the file is passed over.
#[derive(Clone, Debug, Deserialize)]
pub struct Annotations {
    pub licenses: Vec<ImageLicence>,
    pub images: Vec<Image>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct ImageLicence {
    pub id: u64,
    pub name: String,
    pub url: String,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Image {
    pub id: u64,
    pub license: u64,
}

/// Images that may be used, and those that may not, with the reason by licence.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Split {
    pub allowed: Vec<u64>,
    pub refused: Vec<u64>,
    /// How many images have which licence, of those allowed and of those refused.
    pub by_licence: BTreeMap<String, (usize, usize)>,
}

impl Annotations {
    pub fn read(from: impl Read) -> Result<Self, serde_json::Error> {
        serde_json::from_reader(std::io::BufReader::new(from))
    }

    /// Tells the images that may be used from those that may not. A licence that forbids
    /// commercial use is refused unless `accepted`; one that is not known is always refused.
    pub fn split(&self, accepted: bool) -> Split {
        let licences: BTreeMap<u64, &ImageLicence> =
            self.licenses.iter().map(|licence| (licence.id, licence)).collect();
        let mut split = Split::default();
        for image in &self.images {
            let licence = licences.get(&image.license);
            let allowed = match licence.map(|licence| licence.allows()) {
                Some(Allows::Commercial) => true,
                Some(Allows::NonCommercial) => accepted,
                Some(Allows::Unknown) | None => false,
            };
            let name = licence.map_or_else(
                || format!("licence {}, which the annotations do not list", image.license),
                |licence| licence.name.clone(),
            );
            let counts = split.by_licence.entry(name).or_default();
            if allowed {
                split.allowed.push(image.id);
                counts.0 += 1;
            } else {
                split.refused.push(image.id);
                counts.1 += 1;
            }
        }
        split
    }
}

enum Allows {
    Commercial,
    NonCommercial,
    Unknown,
}

impl ImageLicence {
    /// By the address of the licence, which is the same in every edition of the annotations.
    fn allows(&self) -> Allows {
        let url = self.url.trim_end_matches('/').to_ascii_lowercase();
        let rest = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
        let rest = rest.strip_prefix("www.").unwrap_or(rest);
        if let Some(kind) = rest.strip_prefix("creativecommons.org/licenses/") {
            let kind = kind.split('/').next().unwrap_or_default();
            return match kind {
                "by" | "by-sa" | "by-nd" => Allows::Commercial,
                "by-nc" | "by-nc-sa" | "by-nc-nd" => Allows::NonCommercial,
                _ => Allows::Unknown,
            };
        }
        match rest {
            "flickr.com/commons/usage" | "usa.gov/copyright.shtml" => Allows::Commercial,
            _ => Allows::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table as COCO publishes it, and an image for every row and for one that is not there.
    const TEXT: &str = r#"{
        "info": {"year": 2017},
        "licenses": [
            {"url": "http://creativecommons.org/licenses/by-nc-sa/2.0/", "id": 1, "name": "Attribution-NonCommercial-ShareAlike License"},
            {"url": "http://creativecommons.org/licenses/by-nc/2.0/", "id": 2, "name": "Attribution-NonCommercial License"},
            {"url": "http://creativecommons.org/licenses/by-nc-nd/2.0/", "id": 3, "name": "Attribution-NonCommercial-NoDerivs License"},
            {"url": "http://creativecommons.org/licenses/by/2.0/", "id": 4, "name": "Attribution License"},
            {"url": "http://creativecommons.org/licenses/by-sa/2.0/", "id": 5, "name": "Attribution-ShareAlike License"},
            {"url": "http://creativecommons.org/licenses/by-nd/2.0/", "id": 6, "name": "Attribution-NoDerivs License"},
            {"url": "http://flickr.com/commons/usage/", "id": 7, "name": "No known copyright restrictions"},
            {"url": "http://www.usa.gov/copyright.shtml", "id": 8, "name": "United States Government Work"},
            {"url": "http://example.com/mine", "id": 9, "name": "Attribution, honestly"}
        ],
        "images": [
            {"license": 1, "id": 10, "file_name": "a.jpg"}, {"license": 2, "id": 20},
            {"license": 3, "id": 30}, {"license": 4, "id": 40}, {"license": 5, "id": 50},
            {"license": 6, "id": 60}, {"license": 7, "id": 70}, {"license": 8, "id": 80},
            {"license": 9, "id": 90}, {"license": 99, "id": 100}
        ],
        "annotations": [{"id": 1}]
    }"#;

    #[test]
    fn non_commercial_images_are_refused_and_unknown_licences_too() {
        let annotations = Annotations::read(TEXT.as_bytes()).unwrap();
        let split = annotations.split(false);
        assert_eq!(split.allowed, [40, 50, 60, 70, 80]);
        assert_eq!(split.refused, [10, 20, 30, 90, 100]);
        assert_eq!(split.by_licence["Attribution License"], (1, 0));
        assert_eq!(split.by_licence["licence 99, which the annotations do not list"], (0, 1));
    }

    #[test]
    fn acceptance_lets_in_what_is_known() {
        let annotations = Annotations::read(TEXT.as_bytes()).unwrap();
        assert_eq!(annotations.split(true).refused, [90, 100]);
    }
}
