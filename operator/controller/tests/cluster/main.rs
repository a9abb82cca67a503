//! The operator as a process, on a real API server with the real Job controller. There is no node:
//! the fate of pods is written by the tests, as a kubelet would.

mod apiserver;
mod campaign;
mod load;
mod phases;
mod replicas;
mod scene;
mod schema;
mod submit;

const OPERATOR: &str = env!("CARGO_BIN_EXE_warpforge-operator");
