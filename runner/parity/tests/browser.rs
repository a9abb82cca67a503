//! The page in a real browser: it loads without a complaint, follows the colour scheme, and fits
//! a phone. Screenshots are left in cargo's folder for temporary files of tests.

mod sample;
mod synthetic;
mod trained;

use std::path::{Path, PathBuf};
use std::process::Command;

use warpforge_parity::report::{Report, html};

/// Chromium, by `WARPFORGE_CHROMIUM` or by its usual names.
fn chromium() -> PathBuf {
    if let Some(path) = std::env::var_os("WARPFORGE_CHROMIUM") {
        return path.into();
    }
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|candidate| candidate.is_file());
    found.unwrap_or_else(|| {
        panic!(
            "this test needs Chromium: install it (`apt-get install chromium`) or name it with \
             WARPFORGE_CHROMIUM"
        )
    })
}

/// What the page says of itself in the end, measured by a script that only the test puts in.
#[derive(Debug, serde::Deserialize)]
struct Measured {
    width: u32,
    scroll_width: u32,
    dark: bool,
    background: String,
    errors: Vec<String>,
    /// Text that would be too faint: the element's text and its contrast.
    faint: Vec<String>,
    /// Elements outside the scroll boxes that stick out of the page.
    wide: Vec<String>,
}

const PROBE: &str = include_str!("probe.js");

struct Browser {
    folder: PathBuf,
}

impl Browser {
    fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report").join(name);
        std::fs::create_dir_all(&folder).unwrap();
        Self { folder }
    }

    /// A page that shows another one in a frame of a given width, since the browser's own windows
    /// are never as narrow as a phone, and that writes down what it is told from inside.
    fn frame(&self, page: &str, (width, height): (u32, u32)) -> PathBuf {
        let file = self.folder.join(format!("frame-{page}"));
        let text = format!(
            "<!doctype html><meta name=color-scheme content='light dark'>\
             <body style='margin:0'><iframe src='{page}' style='border:0;display:block;\
             width:{width}px;height:{height}px'></iframe><script>onmessage = (event) => {{ const \
             pre = document.createElement('pre'); pre.textContent = event.data; \
             document.body.append(pre); }};</script>"
        );
        std::fs::write(&file, text).unwrap();
        file
    }

    fn run(page: &Path, (width, height): (u32, u32), dark: bool, more: &[String]) -> String {
        let profile = tempfile::tempdir().unwrap();
        let mut command = Command::new(chromium());
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]);
        command.args(["--disable-dev-shm-usage", "--allow-file-access-from-files"]);
        command.args(["--no-first-run", "--virtual-time-budget=5000", "--enable-logging=stderr"]);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        command.arg(format!("--window-size={width},{height}"));
        command.arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!dark)));
        command.args(more).arg(format!("file://{}", page.display()));
        let output = command
            .output()
            .unwrap_or_else(|error| panic!("{} cannot be started: {error}", chromium().display()));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "Chromium failed:\n{errors}");
        let complaints: Vec<&str> = errors.lines().filter(|l| l.contains("CONSOLE")).collect();
        assert!(complaints.is_empty(), "the page complains:\n{}", complaints.join("\n"));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn measure(&self, report: &Report, size: (u32, u32), dark: bool) -> Measured {
        let page = html(report);
        let file = self.folder.join("report.html");
        std::fs::write(&file, &page).unwrap();
        let scheme = if dark { "dark" } else { "light" };
        let shot = self.folder.join(format!("{}-{scheme}.png", size.0));
        let frame = self.frame("report.html", size);
        Self::run(&frame, size, dark, &[format!("--screenshot={}", shot.display())]);
        assert!(std::fs::metadata(&shot).unwrap().len() > 5000, "the screenshot is empty");

        // The page forbids scripts, so that the probe needs that line taken out.
        let policy = page.lines().find(|line| line.contains("Content-Security-Policy")).unwrap();
        let probed = page
            .replace(policy, "")
            .replace("</body>", &format!("<script>{PROBE}</script></body>"));
        std::fs::write(self.folder.join("probed.html"), probed).unwrap();
        let frame = self.frame("probed.html", size);
        let dom = Self::run(&frame, size, dark, &["--dump-dom".to_owned()]);
        let (_, rest) = dom.split_once("<pre>").expect("the probe ran");
        let text = rest.split_once("</pre>").unwrap().0;
        let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

#[track_caller]
fn assert_good(found: &Measured, size: (u32, u32), dark: bool) {
    assert_eq!((found.width, found.dark), (size.0, dark), "{found:?}");
    assert!(found.errors.is_empty(), "{:?}", found.errors);
    assert!(found.wide.is_empty(), "sticks out of the page: {:#?}", found.wide);
    assert!(found.scroll_width <= found.width, "the page scrolls sideways: {found:?}");
    assert!(found.faint.is_empty(), "too faint: {:#?}", found.faint);
}

#[test]
fn the_report_reads_well_on_a_screen_and_on_a_phone() {
    for (name, report) in [("failing", sample::failing()), ("passing", sample::passing())] {
        let browser = Browser::new(name);
        let screen = browser.measure(&report, (1280, 2600), false);
        assert_good(&screen, (1280, 2600), false);
        let phone = browser.measure(&report, (375, 3400), true);
        assert_good(&phone, (375, 3400), true);
        assert_ne!(screen.background, phone.background);
    }
}

#[test]
fn a_training_reads_well_on_a_screen_and_on_a_phone() {
    use synthetic::Fault;
    for (name, fault) in [("training", None), ("training-failing", Some(Fault::GradientScale))] {
        let browser = Browser::new(name);
        let report = trained::report(fault);
        let screen = browser.measure(&report, (1280, 4300), false);
        assert_good(&screen, (1280, 4300), false);
        let phone = browser.measure(&report, (375, 5200), true);
        assert_good(&phone, (375, 5200), true);
    }
}

/// The pictures in `docs/validation.md`: a test makes them, and `WARPFORGE_IMAGES` says where they
/// are to go, such as `docs/images`. Those there show real runs, whose pages lay in the folder
/// that `WARPFORGE_REPORTS` named: `report-training.html` of the demo, and `report-gradients.html`
/// of one with a fault of `runner/cli/tests/faults.rs`.
#[test]
fn pictures_for_the_documentation_are_small() {
    use synthetic::Fault;
    let given = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let (folder, reports) = (given("WARPFORGE_IMAGES"), given("WARPFORGE_REPORTS"));
    for (name, place, height, fault) in [
        ("report-training", "", 1000, None),
        ("report-gradients", "#gradients", 560, Some(Fault::GradientScale)),
    ] {
        let browser = Browser::new(name);
        let page = browser.folder.join("report.html");
        let shown = match &reports {
            Some(folder) => std::fs::read_to_string(folder.join(format!("{name}.html"))).unwrap(),
            None => html(&trained::report(fault)),
        };
        std::fs::write(&page, shown).unwrap();
        let shot = browser.folder.join("shot.png");
        let size = (1040, height);
        let frame = browser.frame("report.html", size);
        let text = std::fs::read_to_string(&frame).unwrap();
        std::fs::write(&frame, text.replace("'report.html'", &format!("'report.html{place}'")))
            .unwrap();
        Browser::run(&frame, size, false, &[format!("--screenshot={}", shot.display())]);
        let length = std::fs::metadata(&shot).unwrap().len();
        assert!((5_000..150_000).contains(&length), "{name}: {length} bytes");
        if let Some(folder) = &folder {
            std::fs::create_dir_all(folder).unwrap();
            std::fs::copy(&shot, folder.join(format!("{name}.png"))).unwrap();
        }
    }
}

#[test]
fn hostile_names_run_nothing_and_fit_a_phone() {
    let phone = Browser::new("hostile").measure(&sample::hostile(), (375, 3400), false);
    assert_good(&phone, (375, 3400), false);
}
