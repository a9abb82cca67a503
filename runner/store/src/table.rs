//! The datasets and weights that can be fetched: one row each. A size or a digest stands here
//! only where it is known for certain; the others are recorded at the first fetch.

use crate::licence::{Commercial, Licence, LicenceUse};

/// One dataset, or the weights of one model with what belongs to them.
#[derive(Clone, Copy, Debug)]
pub struct Dataset {
    pub id: &'static str,
    pub title: &'static str,
    pub kind: Kind,
    pub licence: Licence,
    /// The line that names the authors wherever the data is used.
    pub attribution: &'static str,
    pub access: Access,
    pub home: Home,
    pub files: &'static [File],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Data,
    Weights,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Weights => "weights",
        }
    }
}

/// Who may fetch it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Anyone,
    /// Its owner grants access to an account, which a token stands for.
    Granted {
        by: &'static str,
        at: &'static str,
    },
}

/// Where it comes from and where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// A repository of the Hugging Face hub, in the layout of its cache.
    Hub {
        kind: Repository,
        /// `organisation/name`.
        name: &'static str,
        /// The name the repository had before; caches may still have it.
        formerly: Option<&'static str>,
        /// A commit, or `main` where none is pinned.
        revision: &'static str,
    },
    /// A folder of this name below the data folder.
    Folder(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repository {
    Models,
    Datasets,
}

/// One file.
#[derive(Clone, Copy, Debug)]
pub struct File {
    /// Its path in the repository or folder.
    pub path: &'static str,
    pub size: Option<u64>,
    pub sha256: Option<&'static str>,
    /// Where it can be fetched, the best first; empty in a repository of the hub, which knows.
    pub urls: &'static [&'static str],
}

impl File {
    const fn of(path: &'static str) -> Self {
        Self { path, size: None, sha256: None, urls: &[] }
    }

    const fn sized(self, size: u64) -> Self {
        Self { size: Some(size), ..self }
    }

    const fn digest(self, sha256: &'static str) -> Self {
        Self { sha256: Some(sha256), ..self }
    }

    const fn at(self, urls: &'static [&'static str]) -> Self {
        Self { urls, ..self }
    }
}

impl Dataset {
    pub fn file(&self, path: &str) -> Option<&'static File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The size of all files; nothing if one of them is not known.
    pub fn size(&self) -> Option<u64> {
        self.files.iter().map(|file| file.size).sum()
    }

    /// What a report carries when this was used.
    pub fn attribution(&self, accepted: bool) -> LicenceUse {
        let condition = match self.licence.commercial {
            Commercial::Conditional(condition) => Some(condition.to_owned()),
            Commercial::Allowed | Commercial::Forbidden => None,
        };
        LicenceUse {
            id: self.id.to_owned(),
            title: self.title.to_owned(),
            licence: self.licence.name.to_owned(),
            url: self.licence.url.to_owned(),
            commercial: !self.licence.forbids_commercial_use(),
            condition,
            accepted: accepted && self.licence.forbids_commercial_use(),
            attribution: self.attribution.to_owned(),
        }
    }
}

/// The row with this id.
pub fn find(id: &str) -> Option<&'static Dataset> {
    DATASETS.iter().find(|dataset| dataset.id == id)
}

const BERT_ATTRIBUTION: &str = "BERT by Devlin, Chang, Lee and Toutanova (Google, 2018)";

/// Everything there is, by id.
pub const DATASETS: &[Dataset] = &[
    Dataset {
        id: "alpaca",
        title: "Stanford Alpaca, 52,002 instructions",
        kind: Kind::Data,
        licence: Licence::CC_BY_NC_4,
        attribution: "Stanford Alpaca by Taori, Gulrajani, Zhang, Dubois, Li, Guestrin, Liang and \
                      Hashimoto (2023)",
        access: Access::Anyone,
        home: Home::Folder("alpaca"),
        files: &[File::of("alpaca_data.json")
            .digest("2eddafc6b977608d778aaab8dfc7e50e547b3af9826dfb9e909d9fc362e4a419")
            .at(&["https://raw.githubusercontent.com/tatsu-lab/stanford_alpaca/761dc5bfbdeeffa89b8bff5d038781a4055f796a/alpaca_data.json"])],
    },
    Dataset {
        id: "bert-base-uncased",
        title: "BERT base, uncased, pretrained",
        kind: Kind::Weights,
        licence: Licence::APACHE_2,
        attribution: BERT_ATTRIBUTION,
        access: Access::Anyone,
        home: Home::Hub {
            kind: Repository::Models,
            name: "google-bert/bert-base-uncased",
            formerly: Some("bert-base-uncased"),
            revision: "86b5e0934494bd15c9632b12f734a8a67f723594",
        },
        files: &[
            File::of("config.json")
                .sized(570)
                .digest("7160e1553ad2ca51d8c1cb066be533db31826e12d173824c1bb0cb1a4f187d20"),
            File::of("vocab.txt")
                .sized(231_508)
                .digest("07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"),
            File::of("tokenizer_config.json"),
            File::of("tokenizer.json"),
            File::of("model.safetensors")
                .sized(440_449_768)
                .digest("68d45e234eb4a928074dfd868cead0219ab85354cc53d20e772753c6bb9169d3"),
        ],
    },
    Dataset {
        id: "bert-large-uncased",
        title: "BERT large, uncased, pretrained",
        kind: Kind::Weights,
        licence: Licence::APACHE_2,
        attribution: BERT_ATTRIBUTION,
        access: Access::Anyone,
        home: Home::Hub {
            kind: Repository::Models,
            name: "google-bert/bert-large-uncased",
            formerly: Some("bert-large-uncased"),
            revision: "6da4b6a26a1877e173fca3225479512db81a5e5b",
        },
        files: &[
            File::of("config.json"),
            File::of("vocab.txt"),
            File::of("tokenizer_config.json"),
            File::of("tokenizer.json"),
            File::of("model.safetensors"),
        ],
    },
    Dataset {
        id: "coco-2017",
        title: "COCO 2017, images and annotations for training and validation",
        kind: Kind::Data,
        // Of the annotations; every image has a licence of its own (`coco`).
        licence: Licence::CC_BY_4,
        attribution: "Microsoft COCO by Lin, Maire, Belongie, Hays, Perona, Ramanan, Dollár and \
                      Zitnick (2014); images by their authors on Flickr, under their own licences",
        access: Access::Anyone,
        home: Home::Folder("coco"),
        files: &[
            File::of("annotations_trainval2017.zip")
                .sized(252_907_541)
                .digest("113a836d90195ee1f884e704da6304dfaaecff1f023f49b6ca93c4aaae470268")
                .at(&[
                    "https://s3.amazonaws.com/images.cocodataset.org/annotations/annotations_trainval2017.zip",
                    "http://images.cocodataset.org/annotations/annotations_trainval2017.zip",
                ]),
            File::of("val2017.zip")
                .sized(815_585_330)
                .digest("4f7e2ccb2866ec5041993c9cf2a952bbed69647b115d0f74da7ce8f4bef82f05")
                .at(&[
                    "https://s3.amazonaws.com/images.cocodataset.org/zips/val2017.zip",
                    "http://images.cocodataset.org/zips/val2017.zip",
                ]),
            File::of("train2017.zip")
                .sized(19_336_861_798)
                .digest("69a8bb58ea5f8f99d24875f21416de2e9ded3178e903f1f7603e283b9e06d929")
                .at(&[
                    "https://s3.amazonaws.com/images.cocodataset.org/zips/train2017.zip",
                    "http://images.cocodataset.org/zips/train2017.zip",
                ]),
        ],
    },
    Dataset {
        id: "dolly-15k",
        title: "Databricks Dolly, 15,011 instructions",
        kind: Kind::Data,
        licence: Licence::CC_BY_SA_3,
        attribution: "databricks-dolly-15k by Databricks, Inc. (2023), with passages of Wikipedia",
        access: Access::Anyone,
        home: Home::Hub {
            kind: Repository::Datasets,
            name: "databricks/databricks-dolly-15k",
            formerly: None,
            revision: "bdd27f4d94b9c1f951818a7da7fd7aeea5dbff1a",
        },
        files: &[File::of("databricks-dolly-15k.jsonl")
            .sized(13_085_339)
            .digest("2df9083338b4abd6bceb5635764dab5d833b393b55759dffb0959b6fcbf794ec")],
    },
    Dataset {
        id: "llama-3.1-8b",
        title: "Llama 3.1, 8 billion parameters, pretrained",
        kind: Kind::Weights,
        licence: Licence::LLAMA_3_1,
        attribution: "Llama 3.1 is licensed under the Llama 3.1 Community License, Copyright © \
                      Meta Platforms, Inc. All Rights Reserved. Built with Llama",
        access: Access::Granted {
            by: "Meta",
            at: "https://huggingface.co/meta-llama/Llama-3.1-8B",
        },
        home: Home::Hub {
            kind: Repository::Models,
            name: "meta-llama/Llama-3.1-8B",
            formerly: Some("meta-llama/Meta-Llama-3.1-8B"),
            revision: "main",
        },
        files: &[
            File::of("config.json"),
            File::of("generation_config.json"),
            File::of("special_tokens_map.json"),
            File::of("tokenizer_config.json"),
            File::of("tokenizer.json"),
            File::of("model.safetensors.index.json"),
            File::of("model-00001-of-00004.safetensors"),
            File::of("model-00002-of-00004.safetensors"),
            File::of("model-00003-of-00004.safetensors"),
            File::of("model-00004-of-00004.safetensors"),
        ],
    },
    Dataset {
        id: "squad-v1.1",
        title: "SQuAD 1.1, questions about passages of Wikipedia",
        kind: Kind::Data,
        licence: Licence::CC_BY_SA_4,
        attribution: "SQuAD by Rajpurkar, Zhang, Lopyrev and Liang (Stanford, 2016), with passages \
                      of Wikipedia",
        access: Access::Anyone,
        home: Home::Folder("squad-v1.1"),
        files: &[
            File::of("train-v1.1.json")
                .sized(30_288_272)
                .digest("3527663986b8295af4f7fcdff1ba1ff3f72d07d61a20f487cb238a6ef92fd955")
                .at(&[
                    "https://rajpurkar.github.io/SQuAD-explorer/dataset/train-v1.1.json",
                    "https://raw.githubusercontent.com/rajpurkar/SQuAD-explorer/master/dataset/train-v1.1.json",
                ]),
            File::of("dev-v1.1.json")
                .sized(4_854_279)
                .digest("95aa6a52d5d6a735563366753ca50492a658031da74f301ac5238b03966972c9")
                .at(&[
                    "https://rajpurkar.github.io/SQuAD-explorer/dataset/dev-v1.1.json",
                    "https://raw.githubusercontent.com/rajpurkar/SQuAD-explorer/master/dataset/dev-v1.1.json",
                ]),
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_order_and_whole() {
        assert!(DATASETS.is_sorted_by(|a, b| a.id < b.id));
        for dataset in DATASETS {
            assert!(!dataset.files.is_empty() && !dataset.attribution.is_empty(), "{}", dataset.id);
            for file in dataset.files {
                let on_hub = matches!(dataset.home, Home::Hub { .. });
                assert_eq!(on_hub, file.urls.is_empty(), "{} {}", dataset.id, file.path);
                let hex =
                    |text: &str| text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
                assert!(file.sha256.is_none_or(hex), "{} {}", dataset.id, file.path);
                assert!(file.urls.iter().all(|url| url.ends_with(file.path)), "{}", file.path);
            }
        }
    }

    #[test]
    fn a_report_says_whose_it_is_and_what_was_accepted() {
        let alpaca = find("alpaca").unwrap().attribution(true);
        assert!(!alpaca.commercial && alpaca.accepted && alpaca.attribution.contains("Alpaca"));
        let squad = find("squad-v1.1").unwrap().attribution(true);
        assert!(squad.commercial && !squad.accepted);
        assert!(find("llama-3.1-8b").unwrap().attribution(false).condition.is_some());
    }

    #[test]
    fn a_size_is_known_only_if_all_are() {
        assert_eq!(find("squad-v1.1").unwrap().size(), Some(35_142_551));
        assert_eq!(find("alpaca").unwrap().size(), None);
    }
}
