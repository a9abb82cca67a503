//! `warpforge-golden`: Pass 1, the golden pass. It runs an exported graph op by op through
//! libtorch's dispatcher, as PyTorch itself would, and writes what it computed to files.
//! The only program that links libtorch, and so a process of its own: `warpforge` starts it
//! and speaks the protocol of `warpforge-golden-protocol` with it over its standard streams.

mod torch;

fn main() {
    println!("{}", torch::Context::version());
}
