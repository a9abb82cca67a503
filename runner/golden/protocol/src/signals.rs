//! Signals that end a program, while there is a child to end first.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// The signals that are passed on.
const PASSED_ON: [i32; 2] = [SIGINT, SIGTERM];

struct Handlers {
    /// While nobody listens, the signals do what they do by default.
    idle: Arc<AtomicBool>,
    /// The last signal since somebody began to listen; zero for none.
    last: Arc<AtomicUsize>,
    listeners: AtomicUsize,
}

/// Handlers cannot be taken back safely, so they are installed once, when first needed.
fn handlers() -> std::io::Result<&'static Handlers> {
    static HANDLERS: OnceLock<Handlers> = OnceLock::new();
    // One thread at a time: handlers of a second one would never be told that it listens.
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _installing = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handlers) = HANDLERS.get() {
        return Ok(handlers);
    }
    let idle = Arc::new(AtomicBool::new(true));
    let last = Arc::new(AtomicUsize::new(0));
    for signal in PASSED_ON {
        flag::register_conditional_default(signal, Arc::clone(&idle))?;
        flag::register_usize(signal, Arc::clone(&last), signal as usize)?;
    }
    Ok(HANDLERS.get_or_init(|| Handlers { idle, last, listeners: AtomicUsize::new(0) }))
}

/// Takes the signals for itself until it is dropped.
pub struct Listener(&'static Handlers);

impl Listener {
    pub fn new() -> std::io::Result<Self> {
        let handlers = handlers()?;
        if handlers.listeners.fetch_add(1, Ordering::SeqCst) == 0 {
            handlers.last.store(0, Ordering::SeqCst);
            handlers.idle.store(false, Ordering::SeqCst);
        }
        Ok(Self(handlers))
    }

    /// The last signal that came.
    pub fn received(&self) -> Option<i32> {
        match self.0.last.load(Ordering::SeqCst) {
            0 => None,
            signal => Some(signal as i32),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if self.0.listeners.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.idle.store(true, Ordering::SeqCst);
        }
    }
}
