//! Events, sent one after the other beside the work: they tell of what is stored already, and nothing
//! waits for them.

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder};
use kube::{Client, Resource as _};
use tokio::sync::mpsc;
use warpforge_operator_api::BenchmarkRun;
use warpforge_operator_api::status::cut;

use crate::act::MANAGER;
use crate::events::Note;

/// How many may wait to be sent. Beyond that they are dropped: a status says the same.
const MOST_WAITING: usize = 4096;
/// How many the recorder remembers, each as a whole object, to count repetitions of.
const MOST_REMEMBERED: u32 = 256;
/// How long the API server may take for one.
const LIMIT: Duration = Duration::from_secs(5);

/// Where Events are handed in.
pub struct Teller {
    notes: mpsc::Sender<(ObjectReference, Note)>,
}

impl Teller {
    /// What it returns beside sends what is handed in, until the teller is dropped.
    pub fn new(client: Client) -> (Self, impl Future<Output = ()>) {
        let (notes, waiting) = mpsc::channel(MOST_WAITING);
        (Self { notes }, send(client, waiting))
    }

    pub fn tell(&self, run: &BenchmarkRun, note: Note) {
        if self.notes.try_send((run.object_ref(&()), note)).is_err() {
            tracing::warn!(name = run.metadata.name, "an Event was dropped: too many wait");
        }
    }
}

async fn send(client: Client, mut waiting: mpsc::Receiver<(ObjectReference, Note)>) {
    let fresh = || Recorder::new(client.clone(), MANAGER.to_owned().into());
    let mut recorder = fresh();
    let mut sent = 0;
    while let Some((run, note)) = waiting.recv().await {
        sent += 1;
        if sent % MOST_REMEMBERED == 0 {
            recorder = fresh();
        }
        let event = Event {
            type_: if note.warning { EventType::Warning } else { EventType::Normal },
            // At most 1 kB, and a character may have up to four bytes.
            note: Some(bytes(&note.text, 1000)),
            action: cut(&note.reason, 128),
            reason: cut(&note.reason, 128),
            secondary: None,
        };
        match tokio::time::timeout(LIMIT, recorder.publish(&event, &run)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "an Event could not be sent"),
            Err(_) => tracing::warn!("an Event could not be sent in time"),
        }
    }
}

/// At most so many bytes, ending with a whole character.
fn bytes(text: &str, most: usize) -> String {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(bytes("abc", 2), "ab");
        assert_eq!(bytes("a\u{e9}b", 2), "a");
        assert_eq!(bytes("a\u{e9}b", 3), "a\u{e9}");
        assert_eq!(bytes("a", 9), "a");
    }
}
