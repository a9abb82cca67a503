//! All runs by UID, and the claims to slots by group.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use kube::runtime::watcher::Event;
use warpforge_operator_api::{BenchmarkRun, Time};

use crate::observed::{self, Claim};
use crate::queue::{Key, Queue};

#[derive(Default)]
pub(super) struct Runs {
    by_uid: HashMap<Key, Arc<BenchmarkRun>>,
    groups: HashMap<String, Group>,
    /// UIDs seen in the list under way.
    listing: Option<HashSet<Key>>,
}

/// The claims of a group in the order in which they are served, each with its run's own limit.
type Group = BTreeMap<(Time, Key), (Claim, i32)>;

impl Runs {
    pub fn get(&self, uid: &Key) -> Option<&Arc<BenchmarkRun>> {
        self.by_uid.get(uid)
    }

    pub fn all(&self) -> impl Iterator<Item = &BenchmarkRun> {
        self.by_uid.values().map(AsRef::as_ref)
    }

    /// All claims to a group's slots but one run's own.
    pub fn claims(&self, group: &str, but: &Key) -> Vec<Claim> {
        let all = self.groups.get(group).into_iter().flatten();
        let others = all.filter(|((_, uid), _)| uid != but);
        others.map(|(_, (claim, _))| claim.clone()).collect()
    }

    /// Runs that have no snapshot yet and name this profile.
    pub fn waiting_for(&self, profile: &str) -> Vec<Key> {
        let unresolved =
            |run: &BenchmarkRun| run.status.as_ref().is_none_or(|status| status.resolved.is_none());
        let waiting = self.by_uid.iter().filter(|(_, run)| run.spec.profile == profile);
        waiting.filter(|(_, run)| unresolved(run)).map(|(uid, _)| uid.clone()).collect()
    }

    pub fn event(&mut self, event: Event<BenchmarkRun>, queue: &Queue) {
        match event {
            Event::Init => self.listing = Some(HashSet::new()),
            Event::InitApply(run) => {
                let uid = self.apply(run, queue);
                if let (Some(listing), Some(uid)) = (&mut self.listing, uid) {
                    listing.insert(uid);
                }
            }
            Event::InitDone => {
                let listed = self.listing.take().unwrap_or_default();
                let gone = self.by_uid.keys().filter(|uid| !listed.contains(*uid));
                for uid in gone.cloned().collect::<Vec<_>>() {
                    self.lose(&uid, queue);
                }
            }
            Event::Apply(run) => {
                self.apply(run, queue);
            }
            Event::Delete(run) => {
                if let Some(uid) = run.metadata.uid {
                    self.lose(&Key::from(uid), queue);
                }
            }
        }
    }

    /// Takes in a run, unless a newer state of it is known: the watch may still bring what was
    /// before the operator's own last write, and a plan from that would undo it.
    pub fn apply(&mut self, run: BenchmarkRun, queue: &Queue) -> Option<Key> {
        let uid = Key::from(run.metadata.uid.as_deref()?);
        if self.by_uid.get(&uid).is_none_or(|known| version(known) < version(&run)) {
            let run = Arc::new(run);
            let known = self.by_uid.insert(uid.clone(), run.clone());
            self.reclaim(&uid, known.as_deref(), Some(&run), queue);
            queue.add(&uid);
        }
        Some(uid)
    }

    /// Takes in what a write returned. The watch may have told meanwhile that the run is gone, and
    /// nothing would tell so again.
    pub fn wrote(&mut self, run: BenchmarkRun, queue: &Queue) {
        let uid = run.metadata.uid.as_deref().map(Key::from);
        if uid.is_some_and(|uid| self.by_uid.contains_key(&uid)) {
            self.apply(run, queue);
        }
    }

    pub fn lose(&mut self, uid: &Key, queue: &Queue) {
        if let Some(known) = self.by_uid.remove(uid) {
            self.reclaim(uid, Some(&known), None, queue);
            // Whoever keeps something of it lets go.
            queue.forget(uid);
            queue.add(uid);
        }
    }

    /// Brings the claims up to date, and has those looked at that now may have a slot.
    fn reclaim(
        &mut self,
        uid: &Key,
        known: Option<&BenchmarkRun>,
        new: Option<&BenchmarkRun>,
        queue: &Queue,
    ) {
        let before = known.and_then(observed::claim);
        let after = new.and_then(observed::claim);
        if before == after {
            return;
        }
        let moved = [&before, &after].into_iter().flatten().map(|(slots, _)| slots.group.clone());
        let moved: HashSet<_> = moved.collect();
        if let Some((slots, claim)) = before
            && let Some(group) = self.groups.get_mut(&slots.group)
        {
            group.remove(&(claim.created, uid.clone()));
            if group.is_empty() {
                self.groups.remove(&slots.group);
            }
        }
        if let Some((slots, claim)) = after {
            let group = self.groups.entry(slots.group.clone()).or_default();
            group.insert((claim.created, uid.clone()), (claim, slots.max));
        }
        for group in moved {
            for next in self.next(&group) {
                queue.add(&next);
            }
        }
    }

    /// Runs of a group that have no slot yet and for which there is one.
    fn next(&self, group: &str) -> Vec<Key> {
        let Some(group) = self.groups.get(group) else { return Vec::new() };
        let held = group.values().filter(|(claim, _)| claim.holds).count();
        let waiting = group.iter().filter(|(_, (claim, _))| !claim.holds);
        let placed = waiting.enumerate();
        let free =
            placed.filter(|(place, (_, (_, max)))| ((held + place) as i64) < i64::from(*max));
        free.map(|(_, ((_, uid), _))| uid.clone()).collect()
    }
}

/// Kubernetes orders an object's states by a number, which it promises since 1.35 and has always
/// kept to.
fn version(run: &BenchmarkRun) -> u64 {
    let version = run.metadata.resource_version.as_deref();
    version.and_then(|version| version.parse().ok()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpforge_operator_api::BenchmarkRunSpec;

    fn run(uid: &str, version: u64, suspend: bool) -> BenchmarkRun {
        let spec = BenchmarkRunSpec { suspend, ..BenchmarkRunSpec::empty() };
        let mut run = BenchmarkRun::new(uid, spec);
        run.metadata.uid = Some(uid.to_owned());
        run.metadata.resource_version = Some(version.to_string());
        run
    }

    #[test]
    fn an_older_state_never_replaces_a_newer_one() {
        let (mut runs, queue) = (Runs::default(), Queue::default());
        runs.apply(run("a", 9, false), &queue);
        runs.apply(run("a", 10, true), &queue);
        runs.event(Event::Apply(run("a", 9, false)), &queue);
        assert!(runs.get(&"a".into()).unwrap().spec.suspend);
        runs.event(Event::Apply(run("a", 11, false)), &queue);
        assert!(!runs.get(&"a".into()).unwrap().spec.suspend);
    }

    #[test]
    fn a_late_answer_does_not_bring_back_a_run_that_is_gone() {
        let (mut runs, queue) = (Runs::default(), Queue::default());
        runs.apply(run("a", 1, false), &queue);
        runs.event(Event::Delete(run("a", 3, false)), &queue);
        runs.wrote(run("a", 2, false), &queue);
        assert_eq!(runs.all().count(), 0);
    }

    #[test]
    fn a_list_removes_what_is_no_longer_there() {
        let (mut runs, queue) = (Runs::default(), Queue::default());
        runs.apply(run("a", 1, false), &queue);
        runs.apply(run("b", 2, false), &queue);
        runs.event(Event::Init, &queue);
        runs.event(Event::InitApply(run("b", 2, false)), &queue);
        assert_eq!(runs.all().count(), 2);
        runs.event(Event::InitDone, &queue);
        assert_eq!(runs.all().count(), 1);
    }
}
