//! One kind of child, by the run's UID.

use std::collections::HashMap;

use kube::runtime::watcher::Event;

use crate::queue::{Key, Queue};

/// A child as the watch brings it: whose it says it is, where it is, and what is kept of it.
pub(super) struct Arrival<T> {
    pub run: Key,
    pub namespace: String,
    pub name: String,
    /// `None` if it is of no use: someone else's, or about to go.
    pub kept: Option<T>,
}

pub(super) struct Children<T> {
    by_run: ByRun<T>,
    /// The list under way, which takes the place of what is known once it is whole.
    listing: Option<ByRun<T>>,
}

type ByRun<T> = HashMap<Key, HashMap<(String, String), T>>;

impl<T> Default for Children<T> {
    fn default() -> Self {
        Self { by_run: HashMap::new(), listing: None }
    }
}

impl<T> Children<T> {
    /// The children of a run: in its own namespace, whatever labels objects of others have.
    pub fn of<'a>(&'a self, run: &Key, namespace: &'a str) -> impl Iterator<Item = &'a T> {
        let all = self.by_run.get(run).into_iter().flatten();
        all.filter(move |((own, _), _)| own == namespace).map(|(_, child)| child)
    }

    /// Whether a list became whole.
    pub fn event(&mut self, event: Event<Arrival<T>>, queue: &Queue) -> bool {
        match event {
            Event::Init => self.listing = Some(HashMap::new()),
            Event::InitApply(child) => put(self.listing.get_or_insert_default(), child),
            Event::InitDone => {
                let listed = self.listing.take().unwrap_or_default();
                let known = std::mem::replace(&mut self.by_run, listed);
                known.keys().chain(self.by_run.keys()).for_each(|run| queue.add(run));
                return true;
            }
            Event::Apply(child) => {
                queue.add(&child.run);
                put(&mut self.by_run, child);
            }
            Event::Delete(child) => {
                queue.add(&child.run);
                put(&mut self.by_run, Arrival { kept: None, ..child });
            }
        }
        false
    }
}

fn put<T>(all: &mut ByRun<T>, child: Arrival<T>) {
    let place = (child.namespace, child.name);
    if let Some(kept) = child.kept {
        all.entry(child.run).or_default().insert(place, kept);
    } else if let Some(of_run) = all.get_mut(&child.run) {
        of_run.remove(&place);
        if of_run.is_empty() {
            all.remove(&child.run);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn child(run: &str, namespace: &str, name: &str) -> Arrival<String> {
        let kept = Some(name.to_owned());
        Arrival { run: run.into(), namespace: namespace.into(), name: name.into(), kept }
    }

    fn names(children: &Children<String>, run: &str, namespace: &str) -> Vec<String> {
        let mut all: Vec<_> = children.of(&run.into(), namespace).cloned().collect();
        all.sort();
        all
    }

    #[test]
    fn a_list_replaces_what_is_known_at_once() {
        let (mut children, queue) = (Children::default(), Queue::default());
        children.event(Event::Apply(child("a", "team", "x")), &queue);
        children.event(Event::Apply(child("a", "team", "y")), &queue);
        children.event(Event::Init, &queue);
        children.event(Event::InitApply(child("a", "team", "y")), &queue);
        assert_eq!(names(&children, "a", "team"), ["x", "y"]);
        assert!(children.event(Event::InitDone, &queue));
        assert_eq!(names(&children, "a", "team"), ["y"]);
        children.event(Event::Delete(child("a", "team", "y")), &queue);
        assert!(children.by_run.is_empty());
    }

    #[test]
    fn another_namespaces_objects_are_not_the_runs() {
        let (mut children, queue) = (Children::default(), Queue::default());
        children.event(Event::Apply(child("a", "stranger", "x")), &queue);
        assert!(names(&children, "a", "team").is_empty());
    }
}
