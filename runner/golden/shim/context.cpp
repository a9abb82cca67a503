// The state around the calls: determinism, threads, grad mode, autocast, and memory that
// libtorch does not own.
#include "shim.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/ScalarTypeToTypeMeta.h>

#include <memory>

extern "C" {

// libtorch's own, from torch/csrc/inductor/aoti_torch/c/shim.h: one byte each for the major,
// minor and patch version, the first in the highest.
uint64_t aoti_torch_abi_version();

// Of the library that was loaded, which need not be the one that was linked.
uint64_t wf_version() noexcept { return aoti_torch_abi_version(); }

// Repeatable results before speed. Operators that have no deterministic form warn on the error
// stream and run: a golden that does not reproduce itself is found by repeating it.
// `dtype` is what floats are made as where neither the graph nor an operand says it.
void wf_configure(int threads, int tf32, int dtype, char** error) {
  shim::guarded(error, 0, [&] {
    auto& context = at::globalContext();
    context.setDeterministicAlgorithms(true, /*warn_only=*/true);
    context.setDeterministicCuDNN(true);
    context.setDeterministicMkldnn(true);
    context.setBenchmarkCuDNN(false);
    // Filling fresh memory would change no result that is defined, and costs time.
    context.setDeterministicFillUninitializedMemory(false);
    context.setAllowTF32CuBLAS(tf32 != 0);
    context.setAllowTF32CuDNN(tf32 != 0);
    c10::set_default_dtype(c10::scalarTypeToTypeMeta(static_cast<c10::ScalarType>(dtype)));
    at::set_num_threads(threads);
    // Can be set once in a process; it is set to the same number each time.
    if (at::get_num_interop_threads() != 1) at::set_num_interop_threads(1);
    return 0;
  });
}

int wf_threads() noexcept { return at::get_num_threads(); }

int wf_cuda_devices(char** error) {
  return shim::guarded(error, 0, [] {
    return at::hasCUDA() ? static_cast<int>(at::detail::getCUDAHooks().deviceCount()) : 0;
  });
}

// Waits until the device has done all it was asked to: times mean nothing otherwise.
void wf_cuda_synchronize(int device, char** error) {
  shim::guarded(error, 0, [&] {
    at::detail::getCUDAHooks().deviceSynchronize(static_cast<c10::DeviceIndex>(device));
    return 0;
  });
}

int wf_grad_enabled() noexcept { return c10::GradMode::is_enabled(); }
void wf_grad_set(int enabled) noexcept { c10::GradMode::set_enabled(enabled != 0); }

struct WfAutocast {
  int enabled;
  int dtype;
  int cache;
};

// Enters an autocast region as `torch.autocast` does; `before` is what `wf_autocast_leave` needs.
void wf_autocast_enter(const char* device, WfAutocast wanted, WfAutocast* before, char** error) {
  shim::guarded(error, 0, [&] {
    const auto type = c10::Device(device).type();
    const auto dtype = wanted.dtype < 0 ? at::autocast::get_autocast_dtype(type)
                                        : static_cast<at::ScalarType>(wanted.dtype);
    *before = {at::autocast::is_autocast_enabled(type),
               static_cast<int>(at::autocast::get_autocast_dtype(type)),
               at::autocast::is_autocast_cache_enabled()};
    at::autocast::set_autocast_enabled(type, wanted.enabled != 0);
    at::autocast::set_autocast_dtype(type, dtype);
    at::autocast::increment_nesting();
    at::autocast::set_autocast_cache_enabled(wanted.cache != 0);
    return 0;
  });
}

void wf_autocast_leave(const char* device, WfAutocast before, char** error) {
  shim::guarded(error, 0, [&] {
    const auto type = c10::Device(device).type();
    // Casts of weights are kept for the outermost region only.
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(type, before.enabled != 0);
    at::autocast::set_autocast_dtype(type, static_cast<at::ScalarType>(before.dtype));
    at::autocast::set_autocast_cache_enabled(before.cache != 0);
    return 0;
  });
}

// A tensor over memory of the caller's. `release(owner)` runs once: when the last tensor that
// uses the memory is gone, or before this returns if it fails.
at::Tensor* wf_from_blob(void* data, const int64_t* sizes, const int64_t* strides, size_t dims, int dtype,
                         void* owner, void (*release)(void*), char** error) {
  return shim::guarded(error, static_cast<at::Tensor*>(nullptr), [&] {
    std::shared_ptr<void> keep(owner, release);
    const auto options = at::TensorOptions().dtype(static_cast<at::ScalarType>(dtype));
    auto tensor = at::from_blob(data, {sizes, dims}, {strides, dims}, [keep](void*) mutable { keep.reset(); },
                                options);
    return new at::Tensor(std::move(tensor));
  });
}

int wf_tensor_defined(const at::Tensor* tensor) noexcept { return tensor->defined(); }
int wf_tensor_dtype(const at::Tensor* tensor) noexcept { return static_cast<int>(tensor->scalar_type()); }
size_t wf_tensor_dims(const at::Tensor* tensor) noexcept { return tensor->dim(); }

void wf_tensor_sizes(const at::Tensor* tensor, int64_t* sizes) noexcept {
  std::copy(tensor->sizes().begin(), tensor->sizes().end(), sizes);
}

void wf_tensor_require_grad(const at::Tensor* tensor, int required, char** error) {
  shim::guarded(error, 0, [&] { return tensor->set_requires_grad(required != 0), 0; });
}

int wf_tensor_tracked(const at::Tensor* tensor) noexcept { return tensor->requires_grad(); }

// Adds the gradients of a scalar to the leaves it was computed from, and frees what was recorded.
void wf_tensor_backward(const at::Tensor* tensor, char** error) {
  shim::guarded(error, 0, [&] { return tensor->backward(), 0; });
}

// Undefined where there is none.
at::Tensor* wf_tensor_grad(const at::Tensor* tensor) noexcept { return new at::Tensor(tensor->grad()); }

void wf_tensor_drop_grad(const at::Tensor* tensor, char** error) {
  shim::guarded(error, 0, [&] { return tensor->mutable_grad().reset(), 0; });
}

// The values in host memory, row by row, with nothing left to resolve.
at::Tensor* wf_tensor_host(const at::Tensor* tensor, char** error) {
  return shim::guarded(error, static_cast<at::Tensor*>(nullptr), [&] {
    auto host = tensor->detach().to(at::kCPU);
    if (host.layout() != at::kStrided) host = host.to_dense();
    return new at::Tensor(host.resolve_conj().resolve_neg().contiguous());
  });
}

const void* wf_tensor_data(const at::Tensor* tensor) noexcept { return tensor->const_data_ptr(); }
size_t wf_tensor_bytes(const at::Tensor* tensor) noexcept { return tensor->nbytes(); }
}
