//! Threads that are held to one CPU each and begin together.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::Sysroot;
use crate::suite::{Context, Unable};

use super::listed;

/// Some of the cores, each by one of its CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The value of the tag `cores`.
    pub name: &'static str,
    pub cpus: Vec<usize>,
}

impl Scope {
    /// Its cores in words.
    pub fn words(&self) -> String {
        match self.cpus.len() {
            1 => "1 core".to_owned(),
            n => format!("{n} cores"),
        }
    }
}

/// What the parameter `cores` asks for. Where all cores are one, they are measured once.
pub fn scopes(cx: &Context<'_>) -> Result<Vec<Scope>, Unable> {
    let asked = listed::choose(cx, "cores", &["1", "all"])?;
    let all = of(cx);
    let mut scopes = Vec::new();
    if asked.contains(&"1") || all.len() == 1 {
        scopes.push(Scope { name: "1", cpus: all[..1].to_vec() });
    }
    if asked.contains(&"all") && all.len() > 1 {
        scopes.push(Scope { name: "all", cpus: all });
    }
    Ok(scopes)
}

/// One CPU of every core that this process may use, as many as its control group pays for.
pub fn of(cx: &Context<'_>) -> Vec<usize> {
    let system = cx.system;
    cores(&Sysroot::host(), system.cpu.allowed_cpus.as_deref(), system.cgroup.cpu_limit_cpus)
}

fn cores(root: &Sysroot, allowed: Option<&str>, limit: Option<f64>) -> Vec<usize> {
    let cpus = allowed.map(parse).filter(|cpus| !cpus.is_empty()).unwrap_or_else(|| vec![0]);
    let mut seen = Vec::new();
    let mut cores = Vec::new();
    for cpu in cpus {
        let directory = format!("sys/devices/system/cpu/cpu{cpu}/topology");
        let siblings = root
            .text(format!("{directory}/core_cpus_list"))
            .or_else(|| root.text(format!("{directory}/thread_siblings_list")))
            .unwrap_or_else(|| cpu.to_string());
        if !seen.contains(&siblings) {
            seen.push(siblings);
            cores.push(cpu);
        }
    }
    cores.truncate(limit.map_or(usize::MAX, |cpus| (cpus as usize).max(1)));
    cores
}

/// The kernel's lists, such as `0-3,8`.
fn parse(list: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
    };
    let cpus = list.split(',').filter_map(range).flatten();
    cpus.filter(|&cpu| cpu < CpuSet::MAX_CPU).collect()
}

/// Holds the calling thread to one CPU.
pub fn pin(cpu: usize) -> Result<(), Unable> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set)
        .map_err(|error| Unable::Failed(format!("no thread can be held to CPU {cpu}: {error}")))
}

/// What the threads returned, in the order of their CPUs, and the time from the first one's
/// beginning to the last one's end.
pub struct Together<T> {
    pub results: Vec<T>,
    pub wall: Duration,
}

/// Runs `work` on every CPU at once, each with its own of the parts. The threads are made anew
/// each time; none begins before all are there.
pub fn together<P: Send, T: Send>(
    cpus: &[usize],
    parts: &mut [P],
    work: impl Fn(&mut P) -> T + Sync,
) -> Result<Together<T>, Unable> {
    let arrived = AtomicUsize::new(0);
    let run = |cpu: usize, part: &mut P| {
        let pinned = pin(cpu);
        wait_for(&arrived, cpus.len());
        pinned?;
        let from = Instant::now();
        let result = work(part);
        Ok((from, result, Instant::now()))
    };
    let done = thread::scope(|scope| {
        let run = &run;
        let start = |(&cpu, part)| scope.spawn(move || run(cpu, part));
        let threads: Vec<_> = cpus.iter().zip(parts).map(start).collect();
        let join =
            |thread: thread::ScopedJoinHandle<'_, _>| thread.join().expect("a worker panicked");
        threads.into_iter().map(join).collect::<Result<Vec<_>, Unable>>()
    })?;
    let first = done.iter().map(|(from, ..)| *from).min();
    let last = done.iter().map(|(.., to)| *to).max();
    let wall = first.zip(last).map_or(Duration::ZERO, |(from, to)| to - from);
    Ok(Together { results: done.into_iter().map(|(_, result, _)| result).collect(), wall })
}

/// Spins, as waking a thread takes longer than some of what is timed; a CPU that others use too
/// is left to them now and then.
fn wait_for(arrived: &AtomicUsize, count: usize) {
    arrived.fetch_add(1, Ordering::AcqRel);
    let mut spins = 0_u32;
    while arrived.load(Ordering::Acquire) < count {
        spins = spins.wrapping_add(1);
        if spins.is_multiple_of(1024) {
            thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Tree;

    const TWO_THREADS: &[(&str, &str)] = &[
        ("sys/devices/system/cpu/cpu0/topology/core_cpus_list", "0,2\n"),
        ("sys/devices/system/cpu/cpu1/topology/core_cpus_list", "1,3\n"),
        ("sys/devices/system/cpu/cpu2/topology/core_cpus_list", "0,2\n"),
        ("sys/devices/system/cpu/cpu3/topology/thread_siblings_list", "1,3\n"),
    ];

    #[test]
    fn one_cpu_of_each_core_within_the_limit() {
        let tree = Tree::new(TWO_THREADS);
        let cores = |allowed, limit| cores(&tree.root(), allowed, limit);
        assert_eq!(cores(Some("0-3"), None), [0, 1]);
        assert_eq!(cores(Some("2-3"), None), [2, 3]);
        assert_eq!(cores(Some("0-3,8"), None), [0, 1, 8]);
        assert_eq!(cores(Some("0-3"), Some(1.5)), [0]);
        assert_eq!(cores(Some("0-3"), Some(0.2)), [0]);
        assert_eq!(cores(None, None), [0]);
    }

    #[test]
    fn lists_of_cpus() {
        assert_eq!(parse("0-2,5, 7-7"), [0, 1, 2, 5, 7]);
        assert_eq!(parse(""), [] as [usize; 0]);
        assert_eq!(parse("x,3"), [3]);
    }

    #[test]
    fn all_run_at_once_each_with_its_part() {
        let cpus = cores(&Sysroot::host(), allowed().as_deref(), None);
        let mut parts: Vec<usize> = (0..cpus.len()).collect();
        let here = AtomicUsize::new(0);
        let done = together(&cpus, &mut parts, |part| {
            // Nobody gets past this before everybody has come.
            wait_for(&here, cpus.len());
            *part += 10;
            *part
        });
        let done = done.unwrap();
        assert_eq!(done.results, (10..10 + cpus.len()).collect::<Vec<_>>());
        assert!(done.wall > Duration::ZERO);
    }

    #[test]
    fn a_cpu_that_is_not_there_is_named() {
        let absent = CpuSet::MAX_CPU - 1;
        let error = together(&[absent], &mut [()], |()| ()).err().unwrap();
        assert!(error.to_string().contains(&format!("CPU {absent}")), "{error}");
    }

    fn allowed() -> Option<String> {
        crate::system::System::read(&Sysroot::host(), &crate::system::Surroundings::default())
            .cpu
            .allowed_cpus
    }
}
