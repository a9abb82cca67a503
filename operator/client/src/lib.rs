//! `BenchmarkRun`s as those see them who ask for them: requested from a file or a few words,
//! created, followed to the verdict, and their workers' logs read. What both `warpforge` and a
//! schedule's `warpforge-operator submit` do; neither printing nor waiting for a person is here.

mod create;
mod follow;
mod logs;
mod request;
mod watch;

pub use create::{CreateError, Created, create};
pub use follow::{Seen, ending, follow, line};
pub use logs::{Worker, workers};
pub use request::{Request, RequestError, setting};
pub use watch::{Change, watch};
