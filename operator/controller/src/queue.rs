//! Which runs are to be looked at, and when. A run is in the queue at most once and in one worker's
//! hands at most once: what happens to it meanwhile has it looked at again afterwards.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// A run's UID.
pub type Key = Arc<str>;

/// The first pause after an error; it doubles with each up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

#[derive(Default)]
pub struct Queue {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    ready: VecDeque<Key>,
    queued: HashSet<Key>,
    active: HashSet<Key>,
    /// In a worker's hands, and to be looked at again.
    again: HashSet<Key>,
    due: BTreeSet<(Instant, Key)>,
    due_of: HashMap<Key, Instant>,
    failures: HashMap<Key, u32>,
    closed: bool,
}

impl Queue {
    /// Have a run looked at, now.
    pub fn add(&self, key: &Key) {
        if self.state().add(key) {
            self.changed.notify_one();
        }
    }

    /// Have a run looked at at this time, if nothing has it looked at earlier.
    pub fn add_at(&self, key: &Key, at: Instant) {
        let mut state = self.state();
        if state.due_of.get(key).is_some_and(|due| *due <= at) {
            return;
        }
        state.cancel(key);
        state.due.insert((at, key.clone()));
        state.due_of.insert(key.clone(), at);
        // A worker may sleep until a later time.
        self.changed.notify_one();
    }

    /// The next run, once there is one; `None` when the queue is closed.
    pub async fn take(&self) -> Option<Key> {
        loop {
            let changed = self.changed.notified();
            let next = {
                let mut state = self.state();
                if state.closed {
                    self.changed.notify_one();
                    return None;
                }
                state.ripen(Instant::now());
                if let Some(key) = state.take() {
                    // The next worker sees to what else is ready, or to the next time.
                    self.changed.notify_one();
                    return Some(key);
                }
                state.due.first().map(|(at, _)| *at)
            };
            match next {
                Some(at) => tokio::select! {
                    () = changed => {}
                    () = sleep_until(at) => {}
                },
                None => changed.await,
            }
        }
    }

    /// A worker is done with a run that it took.
    pub fn done(&self, key: &Key) {
        let mut state = self.state();
        state.active.remove(key);
        if state.again.remove(key) && state.add(key) {
            self.changed.notify_one();
        }
    }

    /// Nothing went wrong: the next error begins with a short pause again.
    pub fn succeeded(&self, key: &Key) {
        self.state().failures.remove(key);
    }

    /// Has a run that could not be dealt with looked at again after a pause.
    pub fn failed(&self, key: &Key) {
        let failures = {
            let mut state = self.state();
            let failures = state.failures.entry(key.clone()).or_default();
            *failures += 1;
            *failures
        };
        let pause = FIRST_PAUSE.saturating_mul(1 << (failures - 1).min(16)).min(LONGEST_PAUSE);
        self.add_at(key, Instant::now() + pause);
    }

    /// The run is gone.
    pub fn forget(&self, key: &Key) {
        let mut state = self.state();
        state.cancel(key);
        state.failures.remove(key);
        state.again.remove(key);
    }

    /// How many runs wait for a worker.
    pub fn depth(&self) -> usize {
        self.state().ready.len()
    }

    /// Hands out nothing more.
    pub fn close(&self) {
        self.state().closed = true;
        self.changed.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether it became ready by this.
    fn add(&mut self, key: &Key) -> bool {
        if self.active.contains(key) {
            self.again.insert(key.clone());
            return false;
        }
        let new = self.queued.insert(key.clone());
        if new {
            self.ready.push_back(key.clone());
        }
        new
    }

    fn take(&mut self) -> Option<Key> {
        let key = self.ready.pop_front()?;
        self.queued.remove(&key);
        self.active.insert(key.clone());
        // Whoever looks at it says anew when to look again.
        self.cancel(&key);
        Some(key)
    }

    fn cancel(&mut self, key: &Key) {
        if let Some(at) = self.due_of.remove(key) {
            self.due.remove(&(at, key.clone()));
        }
    }

    fn ripen(&mut self, now: Instant) {
        while self.due.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, key)) = self.due.pop_first() {
                self.due_of.remove(&key);
                self.add(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        name.into()
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_is_in_one_workers_hands_at_a_time() {
        let queue = Queue::default();
        queue.add(&key("a"));
        queue.add(&key("a"));
        assert_eq!(queue.depth(), 1);
        let taken = queue.take().await.unwrap();
        queue.add(&taken);
        assert_eq!(queue.depth(), 0);
        queue.done(&taken);
        assert_eq!(queue.take().await, Some(key("a")));
        queue.done(&taken);
        assert_eq!(queue.depth(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_earliest_time_counts_and_looking_cancels_it() {
        let queue = Queue::default();
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        queue.add_at(&key("a"), after(30));
        queue.add_at(&key("a"), after(10));
        queue.add_at(&key("a"), after(20));
        queue.add_at(&key("b"), after(15));
        assert_eq!(queue.take().await, Some(key("a")));
        assert_eq!(start.elapsed().as_secs(), 10);
        queue.done(&key("a"));
        assert_eq!(queue.take().await, Some(key("b")));
        queue.done(&key("b"));
        assert!(queue.state().due.is_empty() && queue.state().due_of.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn errors_have_growing_pauses_until_one_success() {
        let queue = Queue::default();
        let mut pauses = Vec::new();
        for _ in 0..12 {
            let start = Instant::now();
            queue.failed(&key("a"));
            queue.take().await.unwrap();
            queue.done(&key("a"));
            pauses.push(start.elapsed().as_millis() / 100);
        }
        assert_eq!(pauses[..4], [2, 4, 8, 16]);
        assert_eq!(pauses[11], 600);
        queue.succeeded(&key("a"));
        let start = Instant::now();
        queue.failed(&key("a"));
        queue.take().await.unwrap();
        assert_eq!(start.elapsed().as_millis() / 100, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn all_workers_hear_of_the_end() {
        let queue = Arc::new(Queue::default());
        let workers: Vec<_> = (0..8)
            .map(|_| {
                let queue = queue.clone();
                tokio::spawn(async move { queue.take().await })
            })
            .collect();
        tokio::time::sleep(Duration::from_secs(1)).await;
        queue.close();
        for worker in workers {
            assert_eq!(worker.await.unwrap(), None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn many_at_once_reach_all_workers() {
        let queue = Arc::new(Queue::default());
        let workers: Vec<_> = (0..4)
            .map(|_| {
                let queue = queue.clone();
                tokio::spawn(async move {
                    let mut seen = 0;
                    while let Some(key) = queue.take().await {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                        queue.done(&key);
                        seen += 1;
                    }
                    seen
                })
            })
            .collect();
        tokio::time::sleep(Duration::from_secs(1)).await;
        for run in 0..100 {
            queue.add(&key(&run.to_string()));
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        queue.close();
        let mut all = 0;
        for worker in workers {
            let seen = worker.await.unwrap();
            assert!(seen > 10, "a worker saw {seen}");
            all += seen;
        }
        assert_eq!(all, 100);
    }
}
