// What the shim's files share. Nothing here is seen by Rust: the `extern "C"` functions are
// declared once more, by hand, in src/torch/ffi/raw.rs; keep the two alike.
//
// Conventions:
// - A function that can fail takes `char** error` last, leaves null there when it succeeds, and
//   a message that the caller frees with `wf_text_free` when it does not.
// - A function without `error` is `noexcept`: the only thing that could be thrown is a failed
//   small allocation, and ending the process is the right answer to that.
// - A returned pointer to an IValue or a Tensor is the caller's own.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdlib>
#include <cstring>
#include <exception>

namespace shim {

// Runs `f`; an exception becomes a message and `failure`, so that none crosses into Rust.
template <class F, class R>
R guarded(char** error, R failure, F f) noexcept {
  *error = nullptr;
  try {
    return f();
  } catch (const c10::Error& e) {
    *error = strdup(e.what_without_backtrace());
  } catch (const std::exception& e) {
    *error = strdup(e.what());
  } catch (...) {
    *error = strdup("an exception of an unknown type");
  }
  return failure;
}

}  // namespace shim
