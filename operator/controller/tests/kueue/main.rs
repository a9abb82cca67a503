//! Runs with a queue, on a real API server with the real Job controller and a real Kueue: its
//! scheduler, controllers and webhooks. There is no node: the fate of pods is written by the tests,
//! as a kubelet would.

#[path = "../cluster/apiserver.rs"]
mod apiserver;
mod queue;
#[path = "../cluster/scene.rs"]
#[expect(dead_code, reason = "the tests of the operator without Kueue use the rest")]
mod scene;
mod server;
mod trials;

const OPERATOR: &str = env!("CARGO_BIN_EXE_warpforge-operator");
