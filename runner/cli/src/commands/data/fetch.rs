//! `warpforge data fetch`.

use indicatif::{ProgressBar, ProgressStyle};
use warpforge_store::table::Dataset;
use warpforge_store::{Event, Library, Standing};

use super::explain;
use crate::exit::Exit;
use crate::ui::Ui;

pub fn run(datasets: &[&Dataset], library: &Library, ui: &mut Ui) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for dataset in datasets {
        let mut display = Display::new(dataset.id, ui.shows_progress());
        let fetched = runtime.block_on(library.fetch(dataset, &mut |file, event| {
            display.show(file, event);
        }));
        display.end();
        let files = fetched.map_err(|error| explain(&error))?;
        for remark in &display.remarks {
            ui.note(remark)?;
        }
        for file in files.iter().filter(|file| file.standing == Standing::Recorded) {
            let digest = file.sha256.as_deref().unwrap_or_default();
            let name = file.file;
            ui.note(&format!("{name}: the publisher's digest is unknown; recorded {digest}"))?;
        }
        let folder = library.folder(dataset);
        writeln!(ui.out(), "{} is in {}", dataset.id, folder.display())?;
        let used = library.attribution(dataset);
        ui.note(&format!("  {}; licence {} ({})", used.attribution, used.licence, used.url))?;
    }
    Ok(Exit::Pass)
}

/// A bar for the file that is coming, and what is said when it is gone.
struct Display {
    dataset: &'static str,
    bar: Option<ProgressBar>,
    file: String,
    remarks: Vec<String>,
}

impl Display {
    fn new(dataset: &'static str, shown: bool) -> Self {
        let bar = shown.then(|| {
            let style = ProgressStyle::with_template(
                "{msg} [{bar:30}] {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec}",
            );
            let bar = ProgressBar::new(0);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        Self { dataset, bar, file: String::new(), remarks: Vec::new() }
    }

    fn show(&mut self, file: &str, event: Event) {
        if self.file != file {
            file.clone_into(&mut self.file);
            if let Some(bar) = &self.bar {
                bar.reset();
                bar.set_message(format!("{} {file}", self.dataset));
            }
        }
        match event {
            Event::Bytes { at, total } => {
                if let Some(bar) = &self.bar {
                    bar.set_length(total.unwrap_or(at));
                    bar.set_position(at);
                }
            }
            Event::Again { why, wait } => {
                let seconds = wait.as_secs_f64();
                self.remark(format!("{file}: {why}; trying again in {seconds:.1} s"));
            }
            Event::Next { why } => self.remark(format!("{file}: {why}")),
        }
    }

    /// Shown at once where there is a bar, else with the result.
    fn remark(&mut self, text: String) {
        match &self.bar {
            Some(bar) => bar.println(text),
            None => self.remarks.push(text),
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
