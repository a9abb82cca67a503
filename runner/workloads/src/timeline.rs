//! What the machine does while a run goes on: recorded from its start, with what ran when, and put
//! into the bundle and the report.

use std::fs;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use warpforge_bench::monitor::{self, GpuUsage, MemoryOf, Monitor, Options, Record, Taken};
use warpforge_parity::bundle::{self, Writer};
use warpforge_parity::performance::Pass;
use warpforge_parity::report::{Report, Series, Span, Timeline, WATTS};

use crate::error::Error;

/// A page shows no more points than this, and more would only make its file long.
const MOST_POINTS: usize = 400;

type OfGpu = fn(&GpuUsage) -> Option<f64>;

/// What is drawn of each GPU.
const OF_A_GPU: [(&str, &str, OfGpu); 2] =
    [("", "%", |gpu| gpu.utilization_percent), (" power", WATTS, |gpu| gpu.power_watts)];

/// A stage of a run as a part of its time: what it is called, and the pass that runs in it.
pub(crate) trait Part {
    fn part(&self) -> (&'static str, Option<Pass>);
}

struct Begun {
    name: &'static str,
    pass: Option<Pass>,
    at: Instant,
}

/// Records, if it is to.
pub(crate) struct Recorder {
    monitor: Option<Monitor>,
    started: Instant,
    parts: Vec<Begun>,
}

impl Recorder {
    pub fn start(interval: Option<Duration>) -> Self {
        let monitor = interval.map(|interval| Monitor::start(Options::every(interval)));
        Self { monitor, started: Instant::now(), parts: Vec::new() }
    }

    /// A part of the run begins, and with it the one before ends; stages of one part are many.
    pub fn enter(&mut self, stage: &impl Part) {
        let (name, pass) = stage.part();
        if self.parts.last().is_none_or(|last| (last.name, last.pass) != (name, pass)) {
            self.parts.push(Begun { name, pass, at: Instant::now() });
        }
    }

    /// Writes what was seen into the bundle, and what can be drawn of it into the report.
    pub fn finish(self, whole: &mut Writer, report: &mut Report) -> Result<(), Error> {
        let Some(monitor) = self.monitor else { return forget(whole) };
        let seen = monitor.stop();
        whole.text(bundle::TIMELINE, &seen.json())?;
        let spans = spans(&self.parts, self.started, Instant::now());
        report.timeline = Some(Box::new(drawn(&seen, self.started, spans)));
        Ok(())
    }
}

/// An earlier run's timeline in the same folder is not this one's.
fn forget(whole: &Writer) -> Result<(), Error> {
    let path = whole.folder().join(bundle::TIMELINE);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io(&path, error)),
        _ => Ok(()),
    }
}

fn spans(parts: &[Begun], started: Instant, ended: Instant) -> Vec<Span> {
    let seconds = |at: Instant| at.saturating_duration_since(started).as_secs_f64();
    let ends = parts.iter().skip(1).map(|part| part.at).chain([ended]);
    let span = |(part, end): (&Begun, Instant)| Span {
        name: part.name.to_owned(),
        pass: part.pass,
        from_seconds: seconds(part.at),
        to_seconds: seconds(end),
    };
    parts.iter().zip(ends).map(span).collect()
}

fn drawn(seen: &monitor::Timeline, started: Instant, spans: Vec<Span>) -> Timeline {
    let many = seen.taken.len().div_ceil(MOST_POINTS).max(1);
    let groups: Vec<&[Taken]> = seen.taken.chunks(many).collect();
    let seconds = |taken: &Taken| taken.at.saturating_duration_since(started).as_secs_f64();
    let series = |name: String, unit: &str, of: &dyn Fn(&Record) -> Option<f64>| Series {
        name,
        unit: unit.to_owned(),
        values: groups.iter().map(|group| mean(group, of)).collect(),
    };
    let mut all = vec![
        series("CPU".into(), "%", &|record| record.cpu_utilization_percent),
        series(memory(&seen.taken).into(), "%", &|record| record.memory_utilization_percent),
    ];
    let newest = seen.taken.last().map_or(&[][..], |taken| &taken.record.gpu_usage);
    for (what, unit, of) in OF_A_GPU {
        for gpu in newest {
            let same = |other: &&GpuUsage| (other.index, &other.guid) == (gpu.index, &gpu.guid);
            let value = |record: &Record| record.gpu_usage.iter().find(same).and_then(of);
            all.push(series(format!("GPU {}{what}", gpu.index), unit, &value));
        }
    }
    all.retain(|series| series.values.iter().any(Option::is_some));
    Timeline {
        interval_seconds: seen.summary.interval_seconds,
        seconds: groups.iter().filter_map(|group| group.last()).map(seconds).collect(),
        series: all,
        spans,
        missing: seen.summary.missing.clone(),
        overhead_percent: seen.summary.overhead_percent,
    }
}

fn memory(taken: &[Taken]) -> &'static str {
    match taken.last().map(|taken| taken.record.memory_of) {
        Some(MemoryOf::ControlGroup) => "memory of the control group",
        Some(MemoryOf::Machine) | None => "memory",
    }
}

fn mean(group: &[Taken], of: &dyn Fn(&Record) -> Option<f64>) -> Option<f64> {
    let known: Vec<f64> = group.iter().filter_map(|taken| of(&taken.record)).collect();
    (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Stage(&'static str, Option<Pass>);

    impl Part for Stage {
        fn part(&self) -> (&'static str, Option<Pass>) {
            (self.0, self.1)
        }
    }

    fn report() -> Report {
        use warpforge_parity::judge::{Parity, Settings};
        Report::new("x", Parity::of(Vec::new(), Vec::new(), Settings::default().tolerances))
    }

    #[test]
    fn parts_follow_each_other_without_a_gap() {
        let mut recorder = Recorder::start(Some(Duration::from_millis(10)));
        let golden = Stage("golden", Some(Pass::Golden));
        for stage in [&golden, &golden, &Stage("warpforge", Some(Pass::Warpforge)), &golden] {
            recorder.enter(stage);
            std::thread::sleep(Duration::from_millis(12));
        }
        let folder = tempfile::tempdir().unwrap();
        let mut whole = Writer::create(folder.path()).unwrap();
        let mut report = report();
        recorder.finish(&mut whole, &mut report).unwrap();
        let timeline = report.timeline.unwrap();
        let names: Vec<&str> = timeline.spans.iter().map(|span| span.name.as_str()).collect();
        assert_eq!(names, ["golden", "warpforge", "golden"]);
        let joined =
            timeline.spans.windows(2).all(|pair| pair[0].to_seconds == pair[1].from_seconds);
        assert!(joined, "{:?}", timeline.spans);
        assert!(timeline.series.iter().all(|s| s.values.len() == timeline.seconds.len()));
        assert_eq!(timeline.series[0].name, "CPU");
        let text = std::fs::read_to_string(folder.path().join(bundle::TIMELINE)).unwrap();
        let records: Vec<Record> = serde_json::from_str(&text).unwrap();
        assert_eq!(records.len(), timeline.seconds.len());
    }

    #[test]
    fn a_long_run_is_drawn_with_few_points() {
        let started = Instant::now();
        let mut seen = Monitor::start(Options::every(Duration::from_mins(1))).stop();
        let record = Record { cpu_utilization_percent: Some(0.0), ..seen.taken[0].record.clone() };
        let taken = |i: u64| Taken {
            at: started + Duration::from_secs(i),
            record: Record { cpu_utilization_percent: Some((i % 2) as f64), ..record.clone() },
        };
        seen.taken = (0..1201).map(taken).collect();
        let timeline = drawn(&seen, started, Vec::new());
        assert!(timeline.seconds.len() <= MOST_POINTS, "{}", timeline.seconds.len());
        assert_eq!(timeline.seconds.last(), Some(&1200.0), "the end is there");
        let sum: f64 = timeline.series[0].values.iter().flatten().sum();
        assert!((sum / timeline.seconds.len() as f64 - 0.5).abs() < 0.01, "means, not samples");
    }

    #[test]
    fn nothing_is_recorded_unless_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(bundle::TIMELINE), "[]").unwrap();
        let mut whole = Writer::create(folder.path()).unwrap();
        let mut report = report();
        Recorder::start(None).finish(&mut whole, &mut report).unwrap();
        assert!(report.timeline.is_none() && !folder.path().join(bundle::TIMELINE).exists());
    }
}
