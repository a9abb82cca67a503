//! The function being parsed: its graph, and which names its values have.

use rustc_hash::FxHashMap;

use crate::ir::{Graph, ValueId};

/// A named group of values: the first one and how many there are. None means undefined.
type Group = (ValueId, u32);

const UNDEFINED: Group = (ValueId(0), 0);

/// The shortest text of an operation with a result: `%1=stablehlo.abs%0:tensor<i1>`.
const SHORTEST: usize = 30;

/// Room for a function's arguments and its `return`, which start no line with a value's name.
const SLACK: usize = 8;

#[derive(Default)]
pub(super) struct Scope<'a> {
    pub(super) graph: Graph,
    /// Values named by small numbers, as printers name almost all: a third of a map's memory.
    numbered: Vec<Group>,
    names: FxHashMap<&'a str, Group>,
    /// The names of inner regions in the order of definition, to be forgotten at a region's end.
    inner: Vec<&'a str>,
    depth: u32,
    /// The most numbers to keep in the table: a huge number must not cost memory.
    most: usize,
}

impl<'a> Scope<'a> {
    /// A scope for a function of about this many operations.
    pub(super) fn with_room(operations: usize) -> Self {
        Self {
            graph: Graph::with_room(operations),
            numbered: Vec::with_capacity(operations),
            most: operations + 64,
            ..Self::default()
        }
    }

    /// The finished graph.
    pub(super) fn finish(&mut self) -> Graph {
        // The names go first: shrinking may copy.
        let mut graph = std::mem::take(self).graph;
        graph.shrink_to_fit();
        graph
    }

    /// The number a name is, if it is spelled as a printer would and small enough for the table.
    fn number(&self, name: &str) -> Option<usize> {
        let bytes = name.as_bytes();
        if bytes.len() > 9 || (bytes[0] == b'0' && bytes.len() > 1) {
            return None;
        }
        let digit = |n: usize, b: &u8| b.is_ascii_digit().then(|| n * 10 + usize::from(b - b'0'));
        bytes.iter().try_fold(0, digit).filter(|number| *number < self.most)
    }

    /// Names a group of values; false if the name is taken.
    pub(super) fn define(&mut self, name: &'a str, first: ValueId, count: u32) -> bool {
        let group = (first, count);
        let before = if let Some(number) = self.number(name) {
            if self.numbered.len() <= number {
                self.numbered.resize(number + 1, UNDEFINED);
            }
            std::mem::replace(&mut self.numbered[number], group)
        } else {
            self.names.insert(name, group).unwrap_or(UNDEFINED)
        };
        if self.depth > 0 {
            self.inner.push(name);
        }
        before == UNDEFINED
    }

    pub(super) fn find(&self, name: &str) -> Option<Group> {
        let group = match self.number(name) {
            Some(number) => self.numbered.get(number).copied(),
            None => self.names.get(name).copied(),
        };
        group.filter(|group| *group != UNDEFINED)
    }

    /// Starts an inner region; what this returns ends it.
    pub(super) fn enter(&mut self) -> usize {
        self.depth += 1;
        self.inner.len()
    }

    /// Forgets the names of an inner region.
    pub(super) fn leave(&mut self, start: usize) {
        self.depth -= 1;
        for name in self.inner.split_off(start) {
            match self.number(name) {
                Some(number) => self.numbered[number] = UNDEFINED,
                None => {
                    self.names.remove(name);
                }
            }
        }
    }
}

/// About how many operations a text holds: lines that start with a value's name. Never more than
/// the text has room for, so that what is reserved stays in proportion.
pub(super) fn count_operations(text: &str) -> usize {
    let bytes = text.as_bytes();
    let starts = |line: usize| {
        let mut rest = bytes[line + 1..].iter().skip_while(|b| **b == b' ' || **b == b'\t');
        rest.next() == Some(&b'%')
    };
    let lines = memchr::memchr_iter(b'\n', bytes).filter(|line| starts(*line)).count();
    lines.min(bytes.len() / SHORTEST) + SLACK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inner_names_are_forgotten_and_outer_ones_stay() {
        let mut scope = Scope::with_room(4);
        for name in ["0", "arg0", "007", "99999999", "3"] {
            assert!(scope.define(name, ValueId(7), 1), "{name}");
            assert!(!scope.define(name, ValueId(7), 1), "{name}");
        }
        let start = scope.enter();
        assert!(scope.define("1", ValueId(8), 2) && scope.define("iter", ValueId(9), 1));
        assert_eq!(scope.find("1"), Some((ValueId(8), 2)));
        scope.leave(start);
        assert_eq!((scope.find("1"), scope.find("iter")), (None, None));
        assert_eq!(scope.find("007"), Some((ValueId(7), 1)));
        assert_eq!(scope.find("7"), None);
        assert!(scope.define("1", ValueId(8), 1));
        assert!(scope.numbered.len() < 100);
    }

    #[test]
    fn blank_lines_reserve_nothing() {
        assert_eq!(count_operations(&"\n".repeat(3000)), SLACK);
        assert_eq!(count_operations(&"\n%".repeat(3000)), 6000 / SHORTEST + SLACK);
    }
}
