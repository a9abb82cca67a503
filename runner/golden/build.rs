//! Compiles the shim against the libtorch that torch-sys found, and links both.

use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=shim");
    // torch-sys tells its direct dependents where libtorch is.
    let lib = std::env::var("DEP_TCH_LIBTORCH_LIB").expect("torch-sys names libtorch's folder");
    let include = Path::new(&lib).parent().expect("lib lies in a folder").join("include");
    assert!(
        include.join("ATen/core/dispatch/Dispatcher.h").is_file(),
        "{} has no headers of libtorch: run `cargo xtask setup golden`",
        include.display(),
    );
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        // libtorch's headers are not written for -Wextra.
        .warnings(false)
        .flag("-Wall")
        .opt_level(1)
        .define("_GLIBCXX_USE_CXX11_ABI", "1")
        .flag(format!("-isystem{}", include.display()))
        .flag(format!("-isystem{}", include.join("torch/csrc/api/include").display()))
        .include("shim")
        .include("shim/gloo")
        .files(["value", "dispatch", "context", "ranks"].map(|name| format!("shim/{name}.cpp")))
        .compile("golden_shim");
    println!("cargo:rustc-link-search=native={lib}");
    println!("cargo:rustc-link-lib=torch_cpu");
    println!("cargo:rustc-link-lib=c10");
    // `warpforge` sets LD_LIBRARY_PATH, which comes before these (they are RUNPATHs): they are
    // for cargo's own runs, from a checkout's target folder or one elsewhere.
    println!("cargo:rustc-link-arg=-Wl,--enable-new-dtags");
    let relative = ["$ORIGIN/../../.libtorch/torch/lib", "$ORIGIN/../../../.libtorch/torch/lib"];
    for folder in relative.into_iter().chain([lib.as_str()]) {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
    }
}
