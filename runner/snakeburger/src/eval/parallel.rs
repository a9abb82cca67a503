//! A simulated grid of processes: a thread each, meeting at collectives and channels.
//!
//! What a process sends is copied into the grid's shared state under one lock, so a result depends
//! on the programs alone and never on how their threads were scheduled. A process that waits for
//! what can no longer come (its peer ended or failed, or all processes wait) fails at once.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use super::{ErrorKind, EvalError, EvalResult, Interpreter, Value};

/// The most processes one grid may have: each is a thread.
const MAX_PROCESSES: usize = 256;

/// Deep programs recurse through the interpreter on these stacks.
const STACK: usize = 16 << 20;

/// How long a process sleeps before it looks at the clock again.
const NAP: Duration = Duration::from_millis(50);

/// What processes meet at: an operation, its channel, and who takes part.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Meeting {
    pub op: &'static str,
    pub channel: i64,
    /// Flat process ids; one alone or a pair for messages, empty where the channel says it all.
    pub members: Vec<usize>,
}

/// The values one process brings to a meeting.
pub(crate) type Parcel = Vec<Value>;

/// One instance of a meeting: what has arrived, and how many have read it.
#[derive(Default)]
struct Table {
    arrived: FxHashMap<usize, Parcel>,
    left: usize,
}

/// What a process is doing.
#[derive(Clone, Debug, PartialEq)]
enum Status {
    Running,
    Waiting(Wait),
    Ended,
    Failed,
}

#[derive(Clone, Debug, PartialEq)]
enum Wait {
    /// For everybody at a meeting's n-th instance.
    All(Meeting, usize),
    /// For a message.
    Message(Meeting),
}

/// Why a process failed, the most telling first: which of several failures is reported must not
/// depend on who noticed first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    #[default]
    Own,
    /// A peer ended without taking part.
    PeerEnded,
    Deadlock,
    /// A peer failed.
    PeerFailed,
}

#[derive(Default)]
struct State {
    tables: FxHashMap<(Meeting, usize), Table>,
    /// How often each process has come to each meeting.
    visits: FxHashMap<(Meeting, usize), usize>,
    messages: FxHashMap<Meeting, VecDeque<Parcel>>,
    status: Vec<Status>,
    /// Why each process failed, if it did.
    causes: Vec<Cause>,
    /// Set once nobody can go on; everybody who waits then says so.
    deadlock: bool,
    /// How many entries of the infeed each process has read.
    infeed: Vec<usize>,
}

impl State {
    fn ready(&self, wait: &Wait) -> bool {
        match wait {
            Wait::All(meeting, visit) => self
                .tables
                .get(&(meeting.clone(), *visit))
                .is_some_and(|table| table.arrived.len() == meeting.members.len()),
            Wait::Message(meeting) => self.messages.get(meeting).is_some_and(|q| !q.is_empty()),
        }
    }

    /// Whether nobody can do anything any more.
    fn stuck(&self) -> bool {
        self.status.iter().all(|status| match status {
            Status::Running => false,
            Status::Waiting(wait) => !self.ready(wait),
            Status::Ended | Status::Failed => true,
        })
    }
}

/// Processes in `replicas` rows and `partitions` columns.
pub(crate) struct Grid {
    pub replicas: usize,
    pub partitions: usize,
    infeed: Vec<Box<str>>,
    state: Mutex<State>,
    changed: Condvar,
}

/// The place of a process in its grid.
#[derive(Clone)]
pub(crate) struct Process {
    pub grid: Arc<Grid>,
    /// The flat id: `replica * partitions + partition`.
    pub id: usize,
}

impl Grid {
    fn new(replicas: usize, partitions: usize, infeed: Vec<Box<str>>) -> Self {
        let count = replicas * partitions;
        let state = State {
            status: vec![Status::Running; count],
            causes: vec![Cause::Own; count],
            infeed: vec![0; count],
            ..State::default()
        };
        Self { replicas, partitions, infeed, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// State stays consistent across a panic: every change to it is complete on its own.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn name(&self, id: usize) -> String {
        format!("process ({}, {})", id / self.partitions, id % self.partitions)
    }

    fn finish(&self, id: usize, status: Status) {
        self.lock().status[id] = status;
        self.changed.notify_all();
    }

    /// Why a wait can never end, if so.
    fn hopeless(&self, state: &mut State, wait: &Wait) -> Option<(Cause, String)> {
        if let Some(member) = missing(state, wait, &Status::Ended) {
            let reason = format!("{} ended without taking part", self.name(member));
            return Some((Cause::PeerEnded, reason));
        }
        state.deadlock |= state.stuck();
        if state.deadlock {
            let reason = "no process can go on: all wait for each other";
            return Some((Cause::Deadlock, reason.into()));
        }
        let member = missing(state, wait, &Status::Failed)?;
        Some((Cause::PeerFailed, format!("{} failed without taking part", self.name(member))))
    }
}

/// A member of a meeting that has come to this end without arriving there.
fn missing(state: &State, wait: &Wait, end: &Status) -> Option<usize> {
    let Wait::All(meeting, visit) = wait else { return None };
    let table = state.tables.get(&(meeting.clone(), *visit));
    let absent = |id: &&usize| table.is_none_or(|table| !table.arrived.contains_key(*id));
    meeting.members.iter().filter(absent).find(|id| state.status[**id] == *end).copied()
}

impl Default for Process {
    /// The only process there is.
    fn default() -> Self {
        Self { grid: Arc::new(Grid::new(1, 1, Vec::new())), id: 0 }
    }
}

impl Process {
    pub fn replica(&self) -> usize {
        self.id / self.grid.partitions
    }

    pub fn partition(&self) -> usize {
        self.id % self.grid.partitions
    }

    /// Brings a parcel to a meeting and returns everybody's, in the order of its members.
    pub fn meet(
        &self,
        meeting: &Meeting,
        parcel: Parcel,
        deadline: Option<Instant>,
    ) -> EvalResult<Vec<Parcel>> {
        let mut state = self.grid.lock();
        let visits = state.visits.entry((meeting.clone(), self.id)).or_default();
        let key = (meeting.clone(), *visits);
        *visits += 1;
        state.tables.entry(key.clone()).or_default().arrived.insert(self.id, parcel);
        self.grid.changed.notify_all();
        let mut state = self.wait(state, &Wait::All(key.0.clone(), key.1), deadline)?;
        let Some(table) = state.tables.get_mut(&key) else {
            return Err(EvalError::program(format!("{}: the meeting was left early", meeting.op)));
        };
        let parcels = meeting.members.iter().map(|id| table.arrived[id].clone()).collect();
        table.left += 1;
        if table.left == meeting.members.len() {
            state.tables.remove(&key);
        }
        Ok(parcels)
    }

    /// Leaves a message; nobody waits for it to be read.
    pub fn post(&self, meeting: Meeting, parcel: Parcel) {
        self.grid.lock().messages.entry(meeting).or_default().push_back(parcel);
        self.grid.changed.notify_all();
    }

    /// Takes the next message, waiting for it.
    pub fn take(&self, meeting: &Meeting, deadline: Option<Instant>) -> EvalResult<Parcel> {
        let state = self.grid.lock();
        let mut state = self.wait(state, &Wait::Message(meeting.clone()), deadline)?;
        let message = state.messages.get_mut(meeting).and_then(VecDeque::pop_front);
        message.ok_or_else(|| EvalError::program(format!("{}: nothing was sent", meeting.op)))
    }

    fn wait<'g>(
        &'g self,
        mut state: MutexGuard<'g, State>,
        wait: &Wait,
        deadline: Option<Instant>,
    ) -> EvalResult<MutexGuard<'g, State>> {
        let op = match wait {
            Wait::All(meeting, _) | Wait::Message(meeting) => meeting.op,
        };
        state.status[self.id] = Status::Waiting(wait.clone());
        while !state.ready(wait) {
            if let Some((cause, reason)) = self.grid.hopeless(&mut state, wait) {
                state.causes[self.id] = cause;
                state.status[self.id] = Status::Failed;
                self.grid.changed.notify_all();
                let message = format!("{op}: {} waits, but {reason}", self.grid.name(self.id));
                return Err(EvalError::program(message));
            }
            if deadline.is_some_and(|deadline| Instant::now() > deadline) {
                return Err(EvalError::new(ErrorKind::Limit, "the time limit was reached"));
            }
            let woken = self.grid.changed.wait_timeout(state, NAP);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.status[self.id] = Status::Running;
        Ok(state)
    }

    /// The function that yields this process's next infeed values. Each process reads the queue
    /// from its start: a queue shared between threads would give what the scheduler likes.
    pub fn next_infeed(&self) -> Option<Box<str>> {
        let mut state = self.grid.lock();
        let next = self.grid.infeed.get(state.infeed[self.id]).cloned();
        state.infeed[self.id] += 1;
        next
    }
}

/// Marks a process as failed unless it says otherwise, also when its thread panics.
struct Running<'g> {
    grid: &'g Grid,
    id: usize,
    status: Status,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.grid.finish(self.id, self.status.clone());
    }
}

/// One process: the function it runs and what it is called with.
pub(crate) struct Program {
    pub function: Box<str>,
    pub arguments: Vec<Value>,
}

/// Runs a grid of programs, row by row, and returns what each yields.
pub(crate) fn run(
    interpreter: &Interpreter<'_>,
    (replicas, partitions): (usize, usize),
    programs: &[Program],
    infeed: Vec<Box<str>>,
    depth: usize,
) -> EvalResult<Vec<Vec<Value>>> {
    if programs.len() > MAX_PROCESSES {
        let message = format!("{} processes, more than {MAX_PROCESSES}", programs.len());
        return Err(EvalError::new(ErrorKind::Limit, message));
    }
    let grid = Arc::new(Grid::new(replicas, partitions, infeed));
    let one = |id: usize| {
        let mut running = Running { grid: &grid, id, status: Status::Failed };
        let process = Process { grid: grid.clone(), id };
        let Program { function, arguments } = &programs[id];
        let result = interpreter.as_process(process).call_at(function, arguments.clone(), depth);
        if result.is_ok() {
            running.status = Status::Ended;
        }
        result
    };
    let results = on_threads(programs.len(), one)?;
    let causes = grid.lock().causes.clone();
    let failed = (0..results.len()).filter(|id| results[*id].is_err());
    match failed.min_by_key(|id| (causes[*id], *id)) {
        Some(id) => Err(results
            .into_iter()
            .nth(id)
            .and_then(Result::err)
            .unwrap_or_else(|| EvalError::program("a process failed without saying why"))),
        None => results.into_iter().collect(),
    }
}

/// Runs `one(0)` … `one(count - 1)` at the same time. A pool of their own, because processes block
/// while they wait, and blocked threads of the common pool would leave nobody to compute.
fn on_threads(
    count: usize,
    one: impl Fn(usize) -> EvalResult + Sync,
) -> EvalResult<Vec<EvalResult>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(count).stack_size(STACK).build();
    let pool = pool.map_err(|error| {
        EvalError::new(ErrorKind::Limit, format!("{count} threads cannot be started: {error}"))
    })?;
    Ok(pool.broadcast(|thread| one(thread.index())))
}
