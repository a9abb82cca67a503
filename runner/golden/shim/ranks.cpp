// Processes that train together: the store they meet at and the group they exchange tensors in,
// both libtorch's own, as `torch.distributed` has them.
#define USE_C10D_GLOO
#include "shim.h"

#include <ATen/ops/from_blob.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <vector>

using Store = c10::intrusive_ptr<c10d::Store>;
using Group = c10::intrusive_ptr<c10d::ProcessGroupGloo>;
using Work = c10::intrusive_ptr<c10d::Work>;

namespace {

// Waits for all, so that none is still under way when the first failure is told.
void finish(const std::vector<Work>& works) {
  std::exception_ptr failed;
  for (const auto& work : works) {
    try {
      work->wait();
    } catch (...) {
      if (!failed) failed = std::current_exception();
    }
  }
  if (failed) std::rethrow_exception(failed);
}

// Starts `begin` for every tensor that holds anything, as dense memory, and puts the results
// where they belong.
template <class F>
void exchange(const at::Tensor* const* tensors, size_t count, F begin) {
  std::vector<at::Tensor> dense;
  std::vector<Work> works;
  try {
    for (size_t i = 0; i < count; ++i) {
      const auto tensor = tensors[i]->detach();
      if (tensor.numel() == 0) continue;
      dense.push_back(tensor.contiguous());
      works.push_back(begin(dense.back()));
    }
  } catch (...) {
    // What has begun still writes to `dense`; it must end before that does.
    try {
      finish(works);
    } catch (...) {
    }
    throw;
  }
  finish(works);
  size_t next = 0;
  for (size_t i = 0; i < count; ++i) {
    const auto tensor = tensors[i]->detach();
    if (tensor.numel() == 0) continue;
    const auto& result = dense[next++];
    if (!result.is_same(tensor) && result.data_ptr() != tensor.data_ptr()) tensor.copy_(result);
  }
}

}  // namespace

extern "C" {

// `listener` is a socket that listens at the address, for the rank that serves the store, and
// -1 for those that only use it. It is the store's from then on.
Store* wf_store_open(const char* host, int port, int listener, int64_t timeout_ms, char** error) {
  return shim::guarded(error, static_cast<Store*>(nullptr), [&] {
    c10d::TCPStoreOptions options;
    options.port = static_cast<uint16_t>(port);
    options.isServer = listener >= 0;
    if (listener >= 0) options.masterListenFd = listener;
    // Ranks are waited for by name, so that the missing one can be told.
    options.waitWorkers = false;
    options.timeout = std::chrono::milliseconds(timeout_ms);
    return new Store(c10::make_intrusive<c10d::TCPStore>(host, options));
  });
}

void wf_store_free(Store* store) noexcept { delete store; }

// What `key` counts after one more.
int64_t wf_store_count(const Store* store, const char* key, char** error) {
  return shim::guarded(error, int64_t{0}, [&] { return (*store)->add(key, 1); });
}

void wf_store_set(const Store* store, const char* key, const char* text, char** error) {
  shim::guarded(error, 0, [&] { return (*store)->set(key, std::string(text)), 0; });
}

// Waits until somebody has set `key`.
char* wf_store_get(const Store* store, const char* key, int64_t timeout_ms, char** error) {
  return shim::guarded(error, static_cast<char*>(nullptr), [&] {
    (*store)->wait({key}, std::chrono::milliseconds(timeout_ms));
    return strdup((*store)->get_to_str(key).c_str());
  });
}

// `address` is this process's own, by which the others reach it.
Group* wf_group_new(const Store* store, const char* address, int rank, int ranks, int64_t timeout_ms,
                    char** error) {
  return shim::guarded(error, static_cast<Group*>(nullptr), [&] {
    auto options = c10d::ProcessGroupGloo::Options::create(std::chrono::milliseconds(timeout_ms));
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(address));
    return new Group(c10::make_intrusive<c10d::ProcessGroupGloo>(*store, rank, ranks, options));
  });
}

void wf_group_free(Group* group) noexcept { delete group; }

// Every tensor becomes the sum of what the ranks have of it, the same bits on each.
void wf_group_sum(const Group* group, const at::Tensor* const* tensors, size_t count, char** error) {
  shim::guarded(error, 0, [&] {
    exchange(tensors, count, [&](at::Tensor& tensor) {
      std::vector<at::Tensor> one{tensor};
      return (*group)->allreduce(one);
    });
    return 0;
  });
}

// Every tensor becomes what rank 0 has of it; as bytes, since Gloo does not know every type.
void wf_group_share(const Group* group, const at::Tensor* const* tensors, size_t count, char** error) {
  shim::guarded(error, 0, [&] {
    exchange(tensors, count, [&](at::Tensor& tensor) {
      const auto size = static_cast<int64_t>(tensor.nbytes());
      std::vector<at::Tensor> one{at::from_blob(tensor.data_ptr(), {size}, at::kByte)};
      return (*group)->broadcast(one);
    });
    return 0;
  });
}

// Returns when every rank has come here.
void wf_group_barrier(const Group* group, char** error) {
  shim::guarded(error, 0, [&] { return (*group)->barrier()->wait(), 0; });
}
}
