//! Progress, said often enough to be seen and seldom enough to cost nothing.

use std::time::{Duration, Instant};

use warpforge_golden_protocol::{self as protocol, Event};

const INTERVAL: Duration = Duration::from_millis(100);

pub struct Progress<'a> {
    run: u32,
    nodes: usize,
    said: Option<Instant>,
    emit: &'a mut dyn FnMut(Event),
}

impl<'a> Progress<'a> {
    pub fn new(run: u32, nodes: usize, emit: &'a mut dyn FnMut(Event)) -> Self {
        Self { run, nodes, said: None, emit }
    }

    /// A node is about to run.
    pub fn node(&mut self, node: usize, name: &str) {
        if self.said.is_some_and(|said| said.elapsed() < INTERVAL) {
            return;
        }
        self.said = Some(Instant::now());
        let (run, nodes, name) = (self.run, self.nodes, name.to_owned());
        (self.emit)(Event::Progress(protocol::Progress { run, node, nodes, name }));
    }
}
