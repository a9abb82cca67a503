//! One long step, shown as a bar on a terminal and as two plain lines elsewhere.

use std::time::Instant;

use indicatif::{DecimalBytes, ProgressBar, ProgressStyle};

pub struct Step {
    bar: ProgressBar,
    what: String,
    started: Instant,
}

impl Step {
    pub fn start(what: String, bytes: u64) -> Self {
        let style =
            "{msg} [{bar:30}] {decimal_bytes}/{decimal_total_bytes}, {decimal_bytes_per_sec}";
        let style = ProgressStyle::with_template(style).expect("a fixed template");
        // Draws to standard error, and only if that is a terminal.
        let bar = ProgressBar::new(bytes).with_style(style.progress_chars("=> "));
        if bar.is_hidden() {
            eprintln!("{what} ({}) ...", DecimalBytes(bytes));
        }
        bar.set_message(what.clone());
        Self { bar, what, started: Instant::now() }
    }

    /// How far the step is. It never goes back, though files that are moved away do.
    pub fn at(&self, bytes: u64) {
        self.bar.set_position(bytes.max(self.bar.position()));
    }

    pub fn advance(&self, bytes: u64) {
        self.bar.inc(bytes);
    }

    /// Ends the step well. A step dropped without this leaves no bar behind.
    pub fn done(self) {
        self.bar.finish_and_clear();
        eprintln!("{}: done in {:.1} s", self.what, self.started.elapsed().as_secs_f64());
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
