//! What a child says of itself while it works: one JSON object to a line, in a file that the agent
//! reads (`warpforge --events FILE`).

use serde::{Deserialize, Serialize};
use warpforge_operator_api::data::Stage;

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A pass is at work, on something that is not counted.
    Pass { pass: Stage },
    /// A pass has come so far.
    Step {
        pass: Stage,
        step: u32,
        steps: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        loss: Option<f64>,
    },
    /// The golden that the arguments stand for.
    Key { key: String },
    /// It ends without a verdict.
    Failed { exit: i32, blame: Blame, message: String },
}

/// What made a child fail, as far as it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Blame {
    /// The arguments, or what they name.
    Request,
    /// Data or weights that are not there.
    Data,
    /// The time that was allowed.
    Deadline,
    /// A disk without room.
    Disk,
    /// The golden pass's process was killed.
    GoldenKilled,
    /// Something that is not installed on this machine.
    Machine,
    /// Another worker, which is gone.
    Peer,
    /// A fault of its own.
    Internal,
}

/// Reads the lines that are whole, and says how many bytes they took.
pub fn lines(bytes: &[u8]) -> (Vec<Event>, usize) {
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let whole = bytes[..end].split(|byte| *byte == b'\n');
    // A line that cannot be read is progress that is not shown; results come another way.
    (whole.filter_map(|line| serde_json::from_slice(line).ok()).collect(), end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_lines_are_read() {
        let step = Event::Step { pass: Stage::Golden, step: 3, steps: 9, loss: Some(0.5) };
        let mut text = serde_json::to_string(&step).unwrap() + "\nnoise\n";
        let whole = text.len();
        text += "{\"event\":\"key\"";
        assert_eq!(lines(text.as_bytes()), (vec![step], whole));
        assert_eq!(lines(b"{\"event\""), (vec![], 0));
    }
}
